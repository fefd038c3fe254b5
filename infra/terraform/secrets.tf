# What the services are told in secret. Versions and readers are beside what each secret is for.
resource "google_secret_manager_secret" "this" {
  for_each = toset(concat(
    ["log-key"],
    local.signs_with_hmac ? ["hmac"] : [],
    local.has_live ? ["live-tickets"] : [],
    local.has_compat ? ["compat"] : [],
    length(local.compat_keys) > 0 ? ["compat-keys"] : [],
    local.has_watermark ? ["watermark"] : [],
    local.has_credentials && !local.has_kms_signer ? ["c2pa"] : [],
  ))

  secret_id = "${var.name}-${each.key}"
  project   = var.project_id
  labels    = var.labels

  replication {
    user_managed {
      replicas {
        location = var.region

        dynamic "customer_managed_encryption" {
          for_each = var.kms_key == null ? [] : [var.kms_key]
          content {
            kms_key_name = customer_managed_encryption.value
          }
        }
      }
    }
  }

  depends_on = [time_sleep.apis, time_sleep.key_users]
}

# Each was a resource of its own once.
moved {
  from = google_secret_manager_secret.hmac[0]
  to   = google_secret_manager_secret.this["hmac"]
}

moved {
  from = google_secret_manager_secret.live_tickets[0]
  to   = google_secret_manager_secret.this["live-tickets"]
}

moved {
  from = google_secret_manager_secret.log_key
  to   = google_secret_manager_secret.this["log-key"]
}

moved {
  from = google_secret_manager_secret.voicevox[0]
  to   = google_secret_manager_secret.this["voicevox"]
}

# It has another name in Secret Manager now, with the same key in it.
moved {
  from = google_secret_manager_secret.this["voicevox"]
  to   = google_secret_manager_secret.this["compat"]
}
