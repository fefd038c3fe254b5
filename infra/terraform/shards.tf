# More buckets beside `uploads` and `results` (storage.shards): one bucket takes a thousand writes a second
# at first. The names follow from the first one's (shared/google/sharded_bucket.py), and whoever may do
# something in the first one may do it in each.
locals {
  shards = [for number in range(1, var.storage.shards) : tostring(number)]

  first_buckets = {
    results = google_storage_bucket.results
    uploads = google_storage_bucket.uploads
  }

  shard_buckets = {
    for pair in setproduct(keys(local.first_buckets), local.shards) :
    "${pair[0]}_${pair[1]}" => { kind = pair[0], number = pair[1] }
  }

  # Every grant in the first buckets, by a name of its own.
  bucket_grants = merge(
    { for name, grant in google_storage_bucket_iam_member.eraser : "eraser_${name}" => grant },
    { for name, grant in google_storage_bucket_iam_member.empties_uploads : "empties_${name}" => grant },
    { for name, grant in google_storage_bucket_iam_member.reads_uploads : "reads_${name}" => grant },
    {
      api_creates_uploads     = google_storage_bucket_iam_member.api_creates_uploads
      convert_creates_results = google_storage_bucket_iam_member.convert_creates_results
    },
    local.has_live ? {
      live_creates_results = one(google_storage_bucket_iam_member.live_creates_results)
      live_creates_uploads = one(google_storage_bucket_iam_member.live_creates_uploads)
    } : {},
    local.signs_with_hmac ? {
      signer_creates_uploads = one(google_storage_bucket_iam_member.signer_creates_uploads)
      signer_reads_results   = one(google_storage_bucket_iam_member.signer_reads_results)
    } : {},
  )

  shard_grants = {
    for pair in setproduct(keys(local.bucket_grants), local.shards) :
    "${pair[0]}_${pair[1]}" => {
      bucket = "${local.bucket_grants[pair[0]].bucket}-${pair[1]}"
      member = local.bucket_grants[pair[0]].member
      role   = local.bucket_grants[pair[0]].role
    }
  }
}

resource "google_storage_bucket" "shard" {
  # checkov:skip=CKV_GCP_62:as for the uploads
  # checkov:skip=CKV_GCP_78:as for the uploads
  for_each = local.shard_buckets

  name                        = "${local.first_buckets[each.value.kind].name}-${each.value.number}"
  project                     = var.project_id
  location                    = var.region
  force_destroy               = !var.deletion_protection
  labels                      = var.labels
  public_access_prevention    = "enforced"
  uniform_bucket_level_access = true

  dynamic "cors" {
    for_each = local.first_buckets[each.value.kind].cors
    content {
      origin          = cors.value.origin
      method          = cors.value.method
      response_header = cors.value.response_header
      max_age_seconds = cors.value.max_age_seconds
    }
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

resource "google_storage_bucket_iam_member" "shard" {
  for_each = local.shard_grants

  bucket = each.value.bucket
  role   = each.value.role
  member = each.value.member

  depends_on = [google_storage_bucket.shard]
}

resource "google_storage_notification" "shard" {
  for_each = toset(local.shards)

  bucket         = google_storage_bucket.shard["uploads_${each.key}"].name
  topic          = google_pubsub_topic.work["uploads"].id
  event_types    = ["OBJECT_FINALIZE"]
  payload_format = "JSON_API_V1"

  depends_on = [time_sleep.storage_agent]
}
