# With `signing = "hmac"` addresses are signed in the process, without a call to signBlob for each,
# which matters from some hundred voices a second on (docs/scale.md). The key belongs to an account
# that can do nothing but what its addresses are for.
locals {
  signs_with_hmac = var.signing == "hmac"

  environment_signing = local.signs_with_hmac ? {
    SIGNING_HMAC_ACCESS_ID = google_storage_hmac_key.signer[0].access_id
  } : {}
}

resource "google_storage_hmac_key" "signer" {
  count = local.signs_with_hmac ? 1 : 0

  project               = var.project_id
  service_account_email = google_service_account.this["signer"].email
}

resource "google_secret_manager_secret_version" "hmac" {
  count = local.signs_with_hmac ? 1 : 0

  secret      = google_secret_manager_secret.this["hmac"].id
  secret_data = google_storage_hmac_key.signer[0].secret

  # A version that a revision still reads stays: Google keeps it, and a destroy of the secret removes it.
  deletion_policy = "ABANDON"
}

resource "google_secret_manager_secret_iam_member" "reads_hmac" {
  for_each = local.signs_with_hmac ? toset(concat(["api", "convert"], local.has_live ? ["live"] : [])) : []

  project   = var.project_id
  secret_id = google_secret_manager_secret.this["hmac"].secret_id
  role      = "roles/secretmanager.secretAccessor"
  member    = google_service_account.this[each.key].member
}

# An address that is signed can do what its signer may: put one object here ...
resource "google_storage_bucket_iam_member" "signer_creates_uploads" {
  count = local.signs_with_hmac ? 1 : 0

  bucket = google_storage_bucket.uploads.name
  role   = "roles/storage.objectCreator"
  member = google_service_account.this["signer"].member
}

# ... and get one here, without listing any.
resource "google_storage_bucket_iam_member" "signer_reads_results" {
  count = local.signs_with_hmac ? 1 : 0

  bucket = google_storage_bucket.results.name
  role   = "roles/storage.legacyObjectReader"
  member = google_service_account.this["signer"].member
}
