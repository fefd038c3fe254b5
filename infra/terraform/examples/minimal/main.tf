# The least that is needed: a project, a region and the page's origin, written once into
# terraform.tfvars, which every command reads by itself. docs/deploy.md goes through it.

terraform {
  required_version = ">= 1.9"

  required_providers {
    google = {
      source  = "hashicorp/google"
      version = ">= 6.50, < 8"
    }
    google-beta = {
      source  = "hashicorp/google-beta"
      version = ">= 6.50, < 8"
    }
  }
}

variable "alert_emails" {
  description = "Addresses that alerts and the budget's mails are sent to."
  type        = set(string)
  default     = []
}

variable "deletion_protection" {
  description = "Whether a destroy is refused."
  type        = bool
  default     = true
}

variable "domain" {
  description = "Domain for the page and the api together, such as \"voice.example.com\"; its A record points to load_balancer_address. null: the page lies elsewhere."
  type        = string
  default     = null
}

variable "monthly_budget" {
  description = "What a month should cost at most, in the billing account's currency; null for no budget."
  type        = number
  default     = null
}

variable "origin" {
  description = "Origin of the page, such as \"https://voice.example.com\"."
  type        = string
}

variable "project_id" {
  description = "The Google Cloud project; it exists and has a billing account."
  type        = string
}

# No default: with one, an apply that was not told the region would plan to move everything.
variable "region" {
  description = "Where everything runs and is stored, such as \"us-central1\"."
  type        = string
}

# Some APIs, such as that of the page's key, answer a signed-in person only if told whose quota to
# count on, and the provider does not take it from the credentials.
provider "google" {
  project               = var.project_id
  region                = var.region
  billing_project       = var.project_id
  user_project_override = true
}

provider "google-beta" {
  project               = var.project_id
  region                = var.region
  billing_project       = var.project_id
  user_project_override = true
}

module "voice_avatar" {
  source = "../.."

  alert_emails        = var.alert_emails
  allowed_origins     = [var.origin]
  custom_domain       = var.domain
  deletion_protection = var.deletion_protection
  monthly_budget      = var.monthly_budget
  page                = var.domain == null ? null : { folder = "${path.module}/../../../../web/page/dist" }
  project_id          = var.project_id
  region              = var.region
}

output "api_url" {
  description = "Where the api answers."
  value       = module.voice_avatar.api_url
}

output "load_balancer_address" {
  description = "What the domain's A record must point to; null without one."
  value       = module.voice_avatar.load_balancer_address
}

output "page_configuration" {
  description = "Content of the page's config.json."
  value       = module.voice_avatar.page_configuration
}
