mock_provider "archive" {}
mock_provider "google" {}
mock_provider "google-beta" {
  mock_resource "google_project_service_identity" {
    defaults = {
      member = "serviceAccount:service-123456789012@gcp-sa-agent.iam.gserviceaccount.com"
    }
  }
}
mock_provider "random" {}
mock_provider "time" {}

# Only planned: an apply would build the image with gcloud.
run "plans_with_everything" {
  command = plan

  variables {
    alert_email = "operator@example.com"
    domain      = "voice.example.com"
    kms_key     = "projects/demo-project/locations/asia-east1/keyRings/ring/cryptoKeys/key"
    origins     = ["https://voice.example.com", "https://www.example.com"]
    page_folder = "../../tests/page"
    project_id  = "demo-project"
    region      = "asia-east1"
  }

  assert {
    condition     = module.voice_avatar.api_url == "https://voice.example.com"
    error_message = "the api is not served under its domain"
  }

  assert {
    condition     = module.voice_avatar.buckets.results == "demo-project-voice-avatar-results"
    error_message = "the buckets' names are not made from the project and the prefix"
  }
}
