terraform {
  required_version = ">= 1.11"

  required_providers {
    archive = {
      source  = "hashicorp/archive"
      version = ">= 2.7, < 3"
    }
    google = {
      source  = "hashicorp/google"
      version = ">= 7.15, < 9"
    }
    # Only for google_project_service_identity, which the google provider does not have.
    google-beta = {
      source  = "hashicorp/google-beta"
      version = ">= 7.15, < 9"
    }
    random = {
      source  = "hashicorp/random"
      version = ">= 3.6, < 4"
    }
    time = {
      source  = "hashicorp/time"
      version = ">= 0.12, < 1"
    }
  }
}
