resource "google_storage_bucket" "uploads" {
  # checkov:skip=CKV_GCP_62:every access is in the services' own logs; access logs would keep addresses of recordings longer than the recordings
  # checkov:skip=CKV_GCP_78:a recording that is deleted must be gone, so no versions are kept
  name                        = "${var.project_id}-${var.name}-uploads"
  project                     = var.project_id
  location                    = var.region
  force_destroy               = !var.deletion_protection
  labels                      = var.labels
  public_access_prevention    = "enforced"
  uniform_bucket_level_access = true

  cors {
    origin          = local.origins
    method          = ["PUT"]
    response_header = ["Content-Type", "x-goog-content-length-range", "x-goog-if-generation-match"]
    max_age_seconds = 3600
  }

  lifecycle_rule {
    action {
      type = "Delete"
    }
    condition {
      age = 1
    }
  }

  lifecycle_rule {
    action {
      type = "AbortIncompleteMultipartUpload"
    }
    condition {
      age = 1
    }
  }

  # Deleted means deleted: a visitor's voice does not lie in a recycle bin.
  soft_delete_policy {
    retention_duration_seconds = 0
  }

  dynamic "encryption" {
    for_each = var.storage.kms_key == null ? [] : [var.storage.kms_key]
    content {
      default_kms_key_name = encryption.value
    }
  }

  depends_on = [time_sleep.apis, time_sleep.key_users]
}

resource "google_storage_bucket" "results" {
  # checkov:skip=CKV_GCP_62:as for the uploads
  # checkov:skip=CKV_GCP_78:as for the uploads
  name                        = "${var.project_id}-${var.name}-results"
  project                     = var.project_id
  location                    = var.region
  force_destroy               = !var.deletion_protection
  labels                      = var.labels
  public_access_prevention    = "enforced"
  uniform_bucket_level_access = true

  cors {
    origin          = local.origins
    method          = ["GET", "HEAD"]
    response_header = ["Accept-Ranges", "Content-Length", "Content-Range", "Content-Type", "ETag"]
    max_age_seconds = 3600
  }

  lifecycle_rule {
    action {
      type = "Delete"
    }
    condition {
      age = 1
    }
  }

  lifecycle_rule {
    action {
      type = "AbortIncompleteMultipartUpload"
    }
    condition {
      age = 1
    }
  }

  soft_delete_policy {
    retention_duration_seconds = 0
  }

  dynamic "encryption" {
    for_each = var.storage.kms_key == null ? [] : [var.storage.kms_key]
    content {
      default_kms_key_name = encryption.value
    }
  }

  depends_on = [time_sleep.apis, time_sleep.key_users]
}

# Source archives of the functions and of the container's image.
resource "google_storage_bucket" "sources" {
  # checkov:skip=CKV_GCP_62:only an apply reads and writes here, and the audit log has it
  # checkov:skip=CKV_GCP_78:an archive is named by its content, so nothing is ever overwritten
  name                        = "${var.project_id}-${var.name}-sources"
  project                     = var.project_id
  location                    = var.region
  force_destroy               = true
  labels                      = var.labels
  public_access_prevention    = "enforced"
  uniform_bucket_level_access = true

  # Only what gcloud stages for a build; the functions' archives are wanted at every later apply.
  lifecycle_rule {
    action {
      type = "Delete"
    }
    condition {
      age            = 7
      matches_prefix = ["staged/"]
    }
  }

  dynamic "encryption" {
    for_each = var.storage.kms_key == null ? [] : [var.storage.kms_key]
    content {
      default_kms_key_name = encryption.value
    }
  }

  depends_on = [time_sleep.apis, time_sleep.key_users]
}

resource "google_storage_notification" "uploads" {
  bucket         = google_storage_bucket.uploads.name
  topic          = google_pubsub_topic.work["uploads"].id
  event_types    = ["OBJECT_FINALIZE"]
  payload_format = "JSON_API_V1"

  depends_on = [time_sleep.storage_agent]
}
