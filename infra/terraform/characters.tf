# Character bundles that are offered without a deployment. Nobody but an operator writes here, and with
# var.characters.own the job that trains.
resource "google_storage_bucket" "characters" {
  # checkov:skip=CKV_GCP_62:as for the uploads
  # checkov:skip=CKV_GCP_78:graphs are named by their content, and what was removed can be restored for a week
  count = var.characters.bucket == null ? 0 : 1

  name                        = "${var.project_id}-${var.name}-characters"
  project                     = var.project_id
  location                    = var.region
  force_destroy               = !var.deletion_protection
  labels                      = var.labels
  public_access_prevention    = "enforced"
  uniform_bucket_level_access = true

  # An upload that was broken off; whole bundles stay until they are removed.
  lifecycle_rule {
    action {
      type = "AbortIncompleteMultipartUpload"
    }
    condition {
      age = 1
    }
  }

  # Whoever deletes a character of the own voice shall find it gone.
  soft_delete_policy {
    retention_duration_seconds = local.has_own ? 0 : 604800
  }

  dynamic "encryption" {
    for_each = var.storage.kms_key == null ? [] : [var.storage.kms_key]
    content {
      default_kms_key_name = encryption.value
    }
  }

  depends_on = [time_sleep.apis, time_sleep.key_users]
}

# Who may list as well learns that a character is not there; others are told that it is forbidden.
resource "google_storage_bucket_iam_member" "reads_characters" {
  for_each = var.characters.bucket == null ? toset([]) : toset(concat(["api", "convert"], local.has_live ? ["live"] : []))

  bucket = google_storage_bucket.characters[0].name
  role   = "roles/storage.objectViewer"
  member = google_service_account.this[each.key].member
}

locals {
  # What whoever lists characters is told, and what whoever loads them is told besides.
  environment_characters = var.characters.bucket == null ? {} : {
    CHARACTERS_BUCKET = google_storage_bucket.characters[0].name
  }
  environment_default_character = var.characters.default == null ? {} : {
    DEFAULT_CHARACTER = var.characters.default
  }
  environment_fetching = var.characters.bucket == null ? {} : {
    CHARACTERS_MEMORY_BYTES = tostring(var.characters.bucket.memory_mib * 1048576)
  }

  # What shared/container/process_plan.py plans for fetched characters: in each process, and for each
  # conversion at once.
  fetched_mib            = var.characters.bucket == null ? 0 : var.characters.bucket.memory_mib + ceil(var.characters.max_bundle_bytes / 1048576)
  fetched_conversion_mib = var.characters.bucket == null ? 0 : 640
}
