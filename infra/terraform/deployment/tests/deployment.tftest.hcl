mock_provider "archive" {}
mock_provider "google" {}
mock_provider "google-beta" {}
mock_provider "random" {}
mock_provider "time" {}

# Only planned: an apply would build the image with gcloud.
run "plans_with_three_values" {
  command = plan

  variables {
    allowed_origins = ["https://voice.example.com"]
    project_id      = "demo-project"
    region          = "us-central1"
  }

  assert {
    condition     = output.buckets.uploads == "demo-project-voice-avatar-uploads" && output.topics.conversions == "voice-avatar-conversions"
    error_message = "the names are not made from the project and the prefix"
  }

  assert {
    condition     = output.load_balancer_address == null
    error_message = "there is a load balancer that nobody asked for"
  }
}
