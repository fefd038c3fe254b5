mock_provider "archive" {}
mock_provider "google" {}
mock_provider "google-beta" {}
mock_provider "random" {}
mock_provider "time" {}

# Only planned: an apply would build the image with gcloud.
run "plans_with_three_values" {
  command = plan

  variables {
    origin     = "https://voice.example.com"
    project_id = "demo-project"
    region     = "us-central1"
  }

  assert {
    condition     = module.voice_avatar.buckets.uploads == "demo-project-voice-avatar-uploads" && module.voice_avatar.topics.conversions == "voice-avatar-conversions"
    error_message = "the names are not made from the project and the prefix"
  }

  assert {
    condition     = module.voice_avatar.load_balancer_address == null
    error_message = "the minimal example has a load balancer"
  }
}
