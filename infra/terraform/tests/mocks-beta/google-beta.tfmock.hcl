mock_resource "google_project_service_identity" {
  defaults = {
    member = "serviceAccount:service-123456789012@gcp-sa-pubsub.iam.gserviceaccount.com"
  }
}
