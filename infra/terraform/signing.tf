# With `signing.method = "hmac"` addresses are signed in the process, without a call to signBlob for each,
# which matters from some hundred voices a second on (docs/scale.md). The key belongs to an account
# that can do nothing but what its addresses are for.
locals {
  signs_with_hmac = var.signing.method == "hmac"

  # The newest key signs. The one before it stays, so that no address that was given out ends.
  hmac_keys = toset([
    for number in [var.signing.key_rotation - 1, var.signing.key_rotation] : tostring(number) if local.signs_with_hmac && number >= 0
  ])

  environment_signing = !local.signs_with_hmac ? {} : {
    SIGNING_HMAC_ACCESS_ID = google_storage_hmac_key.signer[tostring(var.signing.key_rotation)].access_id
  }
  secrets_signing = !local.signs_with_hmac ? {} : {
    SIGNING_HMAC_SECRET = {
      secret  = google_secret_manager_secret.this["hmac"].secret_id
      version = google_secret_manager_secret_version.hmac[tostring(var.signing.key_rotation)].version
    }
  }
}

# Google tells a key's secret once, and the provider keeps it in the state: the only secret there.
resource "google_storage_hmac_key" "signer" {
  for_each = local.hmac_keys

  project               = var.project_id
  service_account_email = google_service_account.this["signer"].email
}

resource "google_secret_manager_secret_version" "hmac" {
  for_each = local.hmac_keys

  secret                 = google_secret_manager_secret.this["hmac"].id
  secret_data_wo         = google_storage_hmac_key.signer[each.key].secret
  secret_data_wo_version = "1"
  deletion_policy        = "ABANDON"
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
