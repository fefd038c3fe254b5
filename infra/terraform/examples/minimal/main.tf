# The least that is needed: a project, a region and the page's origin.
#
#     terraform init
#     terraform apply -var project_id=PROJECT -var 'origin=https://voice.example.com'

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

variable "origin" {
  description = "Origin of the page, such as \"https://voice.example.com\"."
  type        = string
}

variable "project_id" {
  description = "The Google Cloud project; it exists and has a billing account."
  type        = string
}

variable "region" {
  description = "Where everything runs and is stored."
  type        = string
  default     = "europe-west1"
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

  allowed_origins = [var.origin]
  project_id      = var.project_id
  region          = var.region
}

output "api_url" {
  description = "Where the api answers."
  value       = module.voice_avatar.api_url
}

output "page_configuration" {
  description = "Content of the page's config.json."
  value       = module.voice_avatar.page_configuration
}
