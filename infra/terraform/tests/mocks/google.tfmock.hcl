# What Google would answer: where the tests compare values, each resource has one of its own.

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
    id  = "projects/demo-project/locations/europe-west1/services/voice-avatar-convert"
    uri = "https://voice-avatar-convert-abcdefghij-ew.a.run.app"
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

override_resource {
  target = google_service_account.this["api"]
  values = {
    email  = "voice-avatar-api@demo-project.iam.gserviceaccount.com"
    id     = "projects/demo-project/serviceAccounts/voice-avatar-api@demo-project.iam.gserviceaccount.com"
    member = "serviceAccount:voice-avatar-api@demo-project.iam.gserviceaccount.com"
    name   = "projects/demo-project/serviceAccounts/voice-avatar-api@demo-project.iam.gserviceaccount.com"
  }
}

override_resource {
  target = google_service_account.this["build"]
  values = {
    email  = "voice-avatar-build@demo-project.iam.gserviceaccount.com"
    id     = "projects/demo-project/serviceAccounts/voice-avatar-build@demo-project.iam.gserviceaccount.com"
    member = "serviceAccount:voice-avatar-build@demo-project.iam.gserviceaccount.com"
    name   = "projects/demo-project/serviceAccounts/voice-avatar-build@demo-project.iam.gserviceaccount.com"
  }
}

override_resource {
  target = google_service_account.this["convert"]
  values = {
    email  = "voice-avatar-convert@demo-project.iam.gserviceaccount.com"
    id     = "projects/demo-project/serviceAccounts/voice-avatar-convert@demo-project.iam.gserviceaccount.com"
    member = "serviceAccount:voice-avatar-convert@demo-project.iam.gserviceaccount.com"
    name   = "projects/demo-project/serviceAccounts/voice-avatar-convert@demo-project.iam.gserviceaccount.com"
  }
}

override_resource {
  target = google_service_account.this["train"]
  values = {
    email  = "voice-avatar-train@demo-project.iam.gserviceaccount.com"
    id     = "projects/demo-project/serviceAccounts/voice-avatar-train@demo-project.iam.gserviceaccount.com"
    member = "serviceAccount:voice-avatar-train@demo-project.iam.gserviceaccount.com"
    name   = "projects/demo-project/serviceAccounts/voice-avatar-train@demo-project.iam.gserviceaccount.com"
  }
}

override_resource {
  target = google_service_account.this["live"]
  values = {
    email  = "voice-avatar-live@demo-project.iam.gserviceaccount.com"
    id     = "projects/demo-project/serviceAccounts/voice-avatar-live@demo-project.iam.gserviceaccount.com"
    member = "serviceAccount:voice-avatar-live@demo-project.iam.gserviceaccount.com"
    name   = "projects/demo-project/serviceAccounts/voice-avatar-live@demo-project.iam.gserviceaccount.com"
  }
}

override_resource {
  target = google_service_account.this["dead_letter"]
  values = {
    email  = "voice-avatar-dead-letter@demo-project.iam.gserviceaccount.com"
    id     = "projects/demo-project/serviceAccounts/voice-avatar-dead-letter@demo-project.iam.gserviceaccount.com"
    member = "serviceAccount:voice-avatar-dead-letter@demo-project.iam.gserviceaccount.com"
    name   = "projects/demo-project/serviceAccounts/voice-avatar-dead-letter@demo-project.iam.gserviceaccount.com"
  }
}

override_resource {
  target = google_service_account.this["on_upload"]
  values = {
    email  = "voice-avatar-on-upload@demo-project.iam.gserviceaccount.com"
    id     = "projects/demo-project/serviceAccounts/voice-avatar-on-upload@demo-project.iam.gserviceaccount.com"
    member = "serviceAccount:voice-avatar-on-upload@demo-project.iam.gserviceaccount.com"
    name   = "projects/demo-project/serviceAccounts/voice-avatar-on-upload@demo-project.iam.gserviceaccount.com"
  }
}

override_resource {
  target = google_service_account.this["push"]
  values = {
    email  = "voice-avatar-push@demo-project.iam.gserviceaccount.com"
    id     = "projects/demo-project/serviceAccounts/voice-avatar-push@demo-project.iam.gserviceaccount.com"
    member = "serviceAccount:voice-avatar-push@demo-project.iam.gserviceaccount.com"
    name   = "projects/demo-project/serviceAccounts/voice-avatar-push@demo-project.iam.gserviceaccount.com"
  }
}

override_resource {
  target = google_service_account.this["schedule"]
  values = {
    email  = "voice-avatar-schedule@demo-project.iam.gserviceaccount.com"
    id     = "projects/demo-project/serviceAccounts/voice-avatar-schedule@demo-project.iam.gserviceaccount.com"
    member = "serviceAccount:voice-avatar-schedule@demo-project.iam.gserviceaccount.com"
    name   = "projects/demo-project/serviceAccounts/voice-avatar-schedule@demo-project.iam.gserviceaccount.com"
  }
}

override_resource {
  target = google_service_account.this["signer"]
  values = {
    email  = "voice-avatar-signer@demo-project.iam.gserviceaccount.com"
    id     = "projects/demo-project/serviceAccounts/voice-avatar-signer@demo-project.iam.gserviceaccount.com"
    member = "serviceAccount:voice-avatar-signer@demo-project.iam.gserviceaccount.com"
    name   = "projects/demo-project/serviceAccounts/voice-avatar-signer@demo-project.iam.gserviceaccount.com"
  }
}

override_resource {
  target = google_service_account.this["sweep"]
  values = {
    email  = "voice-avatar-sweep@demo-project.iam.gserviceaccount.com"
    id     = "projects/demo-project/serviceAccounts/voice-avatar-sweep@demo-project.iam.gserviceaccount.com"
    member = "serviceAccount:voice-avatar-sweep@demo-project.iam.gserviceaccount.com"
    name   = "projects/demo-project/serviceAccounts/voice-avatar-sweep@demo-project.iam.gserviceaccount.com"
  }
}

override_resource {
  target = google_service_account.this["sweep_timer"]
  values = {
    email  = "voice-avatar-sweep-timer@demo-project.iam.gserviceaccount.com"
    id     = "projects/demo-project/serviceAccounts/voice-avatar-sweep-timer@demo-project.iam.gserviceaccount.com"
    member = "serviceAccount:voice-avatar-sweep-timer@demo-project.iam.gserviceaccount.com"
    name   = "projects/demo-project/serviceAccounts/voice-avatar-sweep-timer@demo-project.iam.gserviceaccount.com"
  }
}

override_resource {
  target = google_pubsub_topic.work["conversions"]
  values = {
    id = "projects/demo-project/topics/voice-avatar-conversions"
  }
}

override_resource {
  target = google_pubsub_topic.work["uploads"]
  values = {
    id = "projects/demo-project/topics/voice-avatar-uploads"
  }
}

override_resource {
  target = google_pubsub_topic.dead["conversions"]
  values = {
    id = "projects/demo-project/topics/voice-avatar-conversions-dead"
  }
}

override_resource {
  target = google_pubsub_topic.dead["uploads"]
  values = {
    id = "projects/demo-project/topics/voice-avatar-uploads-dead"
  }
}
