# What `terraform apply` runs on (docs/deploy.md). Settings are written once into terraform.tfvars, which
# every command reads by itself: each group of the module is one here, and only `allowed_origins`,
# `project_id` and `region` must be set.
#
# Terraform's state holds no secret, except with `signing.method = "hmac"` the key of the addresses. For more than
# one person, or for CI, keep it in a bucket: docs/deploy.md, "From CI", has the commands.

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
