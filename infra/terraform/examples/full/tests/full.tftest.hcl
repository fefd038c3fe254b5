mock_provider "archive" {}
mock_provider "google" {}
mock_provider "google-beta" {
  mock_resource "google_project_service_identity" {
    defaults = {
      member = "serviceAccount:service-123456789012@gcp-sa-agent.iam.gserviceaccount.com"
    }
  }
}

# Only planned: an apply would build the image with gcloud.
run "plans_with_everything" {
  command = plan

  variables {
    alert_email = "operator@example.com"
    domain      = "api.example.com"
    kms_key     = "projects/demo-project/locations/asia-northeast1/keyRings/ring/cryptoKeys/key"
    origins     = ["https://voice.example.com", "https://www.example.com"]
    project_id  = "demo-project"
  }

  assert {
    condition     = module.voice_avatar.api_url == "https://api.example.com"
    error_message = "the api is not served under its domain"
  }

  assert {
    condition     = module.voice_avatar.buckets.results == "demo-project-voice-avatar-results"
    error_message = "the buckets' names are not made from the project and the prefix"
  }
}
