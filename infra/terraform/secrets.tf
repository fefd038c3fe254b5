# What the services are told in secret; who may read a secret is beside what it is for.
locals {
  # The keys that the module makes, each a version of its secret: by the secret's name, those that are in
  # use, the newest first. Each has a name in Terraform alone. A version that nobody uses any more stays in
  # Secret Manager, because a revision may still read it; a destroy of the secret removes it.
  keys = merge(
    { log-key = ["log-key"] },
    # The key before the newest is still used for tickets that were given out.
    local.has_live ? { live-tickets = [for number in [1, 0] : "live-tickets-${var.live.key_rotation + number}"] } : {},
    local.has_compat ? { compat = ["compat"] } : {},
    # Further keys, one for each client, so that each can be counted and taken away alone.
    length(local.compat_keys) > 0 ? { compat-keys = [for client in sort(local.compat_keys) : "compat-keys-${client}"] } : {},
    # All keys before the newest still find their marks.
    local.has_watermark ? { watermark = [for number in range(var.watermark.key_rotation, -1, -1) : "watermark-${number}"] } : {},
  )
  versions = merge([for secret, names in local.keys : { for name in names : name => secret }]...)

  # The variables that a service reads the keys from: NAME, NAME_1, NAME_2 (shared/runtime/settings.py).
  secret_variables = {
    for secret, variable in {
      compat       = "VOICEVOX_KEY"
      compat-keys  = "API_KEYS"
      live-tickets = "LIVE_TICKET_KEYS"
      log-key      = "LOG_KEY"
      watermark    = "WATERMARK_KEYS"
    } :
    secret => {
      for index, name in try(local.keys[secret], []) :
      (index == 0 ? variable : "${variable}_${index}") => {
        secret  = google_secret_manager_secret.this[secret].secret_id
        version = google_secret_manager_secret_version.key[name].version
      }
    }
  }
}

# Neither the state nor a plan holds a key: Terraform draws it (from the system's source of randomness,
# 244 bits) when it makes the version, and does not keep it.
resource "google_secret_manager_secret_version" "key" {
  for_each = local.versions

  secret                 = google_secret_manager_secret.this[each.value].id
  secret_data_wo         = "${each.value == "compat-keys" ? "${trimprefix(each.key, "compat-keys-")}=" : ""}${replace("${uuid()}${uuid()}", "-", "")}"
  secret_data_wo_version = "1"
  deletion_policy        = "ABANDON"
}

resource "google_secret_manager_secret" "this" {
  for_each = toset(concat(
    keys(local.keys),
    local.signs_with_hmac ? ["hmac"] : [],
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
          for_each = var.storage.kms_key == null ? [] : [var.storage.kms_key]
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
