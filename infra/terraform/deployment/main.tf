# What `terraform apply` runs on (docs/deploy.md). Settings are written once into terraform.tfvars, which
# every command reads by itself: each variable of the module is one here, and only `allowed_origins`,
# `project_id` and `region` must be set.
#
# Terraform's state holds every key that the module makes (of the page, of the log, of tickets, of
# addresses), so keep terraform.tfstate as you would keep a password. For more than one person, or for CI,
# keep it in a bucket that only they can read: add these lines inside the block `terraform` below, and run
# `terraform init -migrate-state`.
#
#   backend "gcs" {
#     bucket = "a-bucket-that-exists"
#   }

terraform {
  required_version = ">= 1.11"

  required_providers {
    google = {
      source  = "hashicorp/google"
      version = ">= 7.15, < 8"
    }
    google-beta = {
      source  = "hashicorp/google-beta"
      version = ">= 7.15, < 8"
    }
  }
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
