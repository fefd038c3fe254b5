# What Google would answer; each resource of a type gets the same.

mock_data "google_project" {
  defaults = {
    billing_account = "012345-6789AB-CDEF01"
    number          = "123456789012"
  }
}

mock_data "google_storage_project_service_account" {
  defaults = {
    member = "serviceAccount:service-123456789012@gs-project-accounts.iam.gserviceaccount.com"
  }
}

mock_resource "google_cloud_run_v2_service" {
  defaults = {
    id  = "projects/demo-project/locations/europe-west1/services/voice-avatar"
    uri = "https://voice-avatar-abcdefghij-ew.a.run.app"
  }
}

mock_resource "google_monitoring_notification_channel" {
  defaults = {
    id = "projects/demo-project/notificationChannels/1"
  }
}

mock_resource "google_project_iam_custom_role" {
  defaults = {
    id = "projects/demo-project/roles/voice_avatar_eraser"
  }
}

mock_resource "google_pubsub_topic" {
  defaults = {
    id = "projects/demo-project/topics/voice-avatar"
  }
}

mock_resource "google_service_account" {
  defaults = {
    email  = "voice-avatar@demo-project.iam.gserviceaccount.com"
    id     = "projects/demo-project/serviceAccounts/voice-avatar@demo-project.iam.gserviceaccount.com"
    member = "serviceAccount:voice-avatar@demo-project.iam.gserviceaccount.com"
    name   = "projects/demo-project/serviceAccounts/voice-avatar@demo-project.iam.gserviceaccount.com"
  }
}
