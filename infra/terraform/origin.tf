# Signs in results that they were made here: a watermark in the sound, and a signed statement (C2PA).
locals {
  has_watermark   = var.watermark != null
  has_credentials = var.content_credentials != null
  has_kms_signer  = try(var.content_credentials.kms_key_version, null) != null

  # Who makes results: the conversion container and, where there is one, live.
  makers = local.has_live ? ["convert", "live"] : ["convert"]

  environment_origin = merge(
    var.notice.position == "off" ? {} : { NOTICE = var.notice.position, NOTICE_LANGUAGES = join(",", var.notice.languages) },
    local.has_watermark ? {
      WATERMARK_BITS           = tostring(var.watermark.bits)
      WATERMARK_CHARACTER_BITS = join(",", [for character, bits in var.watermark.character_bits : "${character}=${bits}"])
    } : {},
    local.has_credentials ? {
      C2PA_CERTIFICATES         = var.content_credentials.certificates
      C2PA_EARLIER_CERTIFICATES = var.content_credentials.earlier_certificates
      C2PA_SECONDS              = tostring(var.content_credentials.seconds)
    } : {},
    local.has_kms_signer ? { C2PA_KMS_KEY = var.content_credentials.kms_key_version } : {},
    try(var.content_credentials.time_stamp_url, null) == null ? {} : { C2PA_TIME_STAMP_URL = var.content_credentials.time_stamp_url },
  )

  secrets_origin = merge(
    local.secret_variables.watermark,
    { for version in google_secret_manager_secret_version.c2pa : "C2PA_KEY" => { secret = google_secret_manager_secret.this["c2pa"].secret_id, version = version.version } },
  )
}

resource "google_secret_manager_secret_iam_member" "reads_watermark" {
  for_each = toset(local.has_watermark ? local.makers : [])

  project   = var.project_id
  secret_id = google_secret_manager_secret.this["watermark"].secret_id
  role      = "roles/secretmanager.secretAccessor"
  member    = google_service_account.this[each.key].member
}

# The private key of the statements' signer, where it is not in Cloud KMS.
resource "google_secret_manager_secret_version" "c2pa" {
  count = local.has_credentials && !local.has_kms_signer ? 1 : 0

  secret         = google_secret_manager_secret.this["c2pa"].id
  secret_data_wo = var.content_credentials_key
  # Another key has another certificate. The number says only that it is another one.
  secret_data_wo_version = tostring(parseint(substr(sha256(var.content_credentials.certificates), 0, 8), 16))
  deletion_policy        = "ABANDON"
}

resource "google_secret_manager_secret_iam_member" "reads_c2pa" {
  for_each = toset(local.has_credentials && !local.has_kms_signer ? local.makers : [])

  project   = var.project_id
  secret_id = google_secret_manager_secret.this["c2pa"].secret_id
  role      = "roles/secretmanager.secretAccessor"
  member    = google_service_account.this[each.key].member
}

# The key never leaves Cloud KMS: the services only ask for signatures.
resource "google_kms_crypto_key_iam_member" "signs_statements" {
  for_each = toset(local.has_kms_signer ? local.makers : [])

  crypto_key_id = split("/cryptoKeyVersions/", var.content_credentials.kms_key_version)[0]
  role          = "roles/cloudkms.signer"
  member        = google_service_account.this[each.key].member
}
