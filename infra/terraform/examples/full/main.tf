# Everything switched on: owners, a domain with a limit per visitor and the page under it, keys of
# one's own, busy hours, alerts, a budget. State lies in a bucket, so that more than one person can
# apply. It asks for more CPUs than a new project has: 60 for the converter and 26 for the functions.
# Let Google grant 100 (docs/deploy.md) before the first apply.

terraform {
  required_version = ">= 1.11"

  required_providers {
    google = {
      source  = "hashicorp/google"
      version = ">= 7.15, < 9"
    }
    google-beta = {
      source  = "hashicorp/google-beta"
      version = ">= 7.15, < 9"
    }
  }

  # terraform init -backend-config=bucket=BUCKET
  backend "gcs" {
    prefix = "voice-avatar"
  }
}

variable "alert_email" {
  description = "Who is told when something is wrong."
  type        = string
}

variable "domain" {
  description = "Domain of page and api, such as \"voice.example.com\"; its A record points to load_balancer_address."
  type        = string
}

variable "kms_key" {
  description = "Key that everything is encrypted with, in the region."
  type        = string
}

variable "monthly_budget" {
  description = "What a month should cost at most, in the billing account's currency."
  type        = number
  default     = 500
}

variable "origins" {
  description = "Origins of the pages."
  type        = list(string)
}

variable "page_folder" {
  description = "What the build of the page has written."
  type        = string
  default     = "../../../../web/page/dist"
}

variable "project_id" {
  description = "The Google Cloud project; it exists and has a billing account."
  type        = string
}

variable "region" {
  description = "Where everything runs and is stored, such as \"asia-east1\"."
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

  allowed_origins = var.origins
  api             = { max_instances = 20, min_instances = 1, rate_limit_per_minute = 60 }
  convert = {
    busy_hours = {
      evening = { days = "*", from = 18, to = 24, min_instances = 4, time_zone = "Asia/Tokyo" }
      lunch   = { days = "MON-FRI", from = 12, to = 13, min_instances = 2, time_zone = "Asia/Tokyo" }
    }
    max_instances = 30
    min_instances = 1
  }
  domain                  = { name = var.domain, page_folder = var.page_folder }
  firebase_authentication = { anonymous = true, email = true }
  labels                  = { service = "voice-avatar" }
  monitoring = {
    emails                 = [var.alert_email]
    monthly_budget         = var.monthly_budget
    wait_objective_seconds = 3
  }
  on_upload  = { max_instances = 4, min_instances = 1 }
  project_id = var.project_id
  quota      = { cpus = 100, memory_gib = 100 }
  region     = var.region
  storage    = { kms_key = var.kms_key }
}

output "api_url" {
  description = "Where the api answers."
  value       = module.voice_avatar.api_url
}

output "buckets" {
  description = "Names of the buckets for recordings and results."
  value       = module.voice_avatar.buckets
}

output "dashboard" {
  description = "Where the dashboard is."
  value       = module.voice_avatar.dashboard
}

output "load_balancer_address" {
  description = "What the domain's A record must point to."
  value       = module.voice_avatar.load_balancer_address
}

output "page_configuration" {
  description = "Content of the page's config.json."
  value       = module.voice_avatar.page_configuration
}

output "page_url" {
  description = "Where the page is."
  value       = module.voice_avatar.page_url
}

output "topics" {
  description = "Names of the topics and of the dead-letter topics."
  value       = module.voice_avatar.topics
}
