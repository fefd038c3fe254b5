# Remembers the key of the first apply, because the key of a database cannot be changed.
resource "terraform_data" "first_kms_key" {
  input = coalesce(var.storage.kms_key, "none")

  lifecycle {
    ignore_changes = [input]
  }
}

locals {
  key_users = var.storage.kms_key == null ? {} : {
    artifact_registry = google_project_service_identity.this["artifactregistry.googleapis.com"].member
    firestore         = google_project_service_identity.this["firestore.googleapis.com"].member
    functions         = google_project_service_identity.this["cloudfunctions.googleapis.com"].member
    pubsub            = google_project_service_identity.this["pubsub.googleapis.com"].member
    run               = google_project_service_identity.this["run.googleapis.com"].member
    secret_manager    = google_project_service_identity.this["secretmanager.googleapis.com"].member
    storage           = local.storage_agent
  }
}

resource "google_kms_crypto_key_iam_member" "agents" {
  for_each = local.key_users

  crypto_key_id = var.storage.kms_key
  role          = "roles/cloudkms.cryptoKeyEncrypterDecrypter"
  member        = each.value

  depends_on = [data.google_storage_project_service_account.this]
}
