# The moment of the first apply. Clocks may differ, so what is an hour older still counts as new.
resource "time_static" "first_apply" {}

resource "google_firestore_database" "this" {
  name                    = var.storage.database_id
  project                 = var.project_id
  location_id             = coalesce(var.storage.firestore_location, var.region)
  type                    = "FIRESTORE_NATIVE"
  delete_protection_state = var.deletion_protection ? "DELETE_PROTECTION_ENABLED" : "DELETE_PROTECTION_DISABLED"
  # Always: otherwise a destroy forgets the database instead of failing at its protection.
  deletion_policy = "DELETE"
  # Voices live for a day; what visitors' own characters consist of is kept for long.
  point_in_time_recovery_enablement = local.backup_days == 0 ? "POINT_IN_TIME_RECOVERY_DISABLED" : "POINT_IN_TIME_RECOVERY_ENABLED"

  dynamic "cmek_config" {
    for_each = var.storage.kms_key == null ? [] : [var.storage.kms_key]
    content {
      kms_key_name = cmek_config.value
    }
  }

  lifecycle {
    precondition {
      condition     = terraform_data.first_kms_key.output == coalesce(var.storage.kms_key, "none")
      error_message = "storage.kms_key was ${terraform_data.first_kms_key.output} when this was applied first, and Google cannot change the key of a database: Terraform would delete it with all voices. Set storage.kms_key to what it was (null for none), or destroy everything and apply again (docs/deploy.md)."
    }

    # A database that was imported has the documents of others, too: a destroy would delete them.
    postcondition {
      condition     = var.deletion_protection || try(timecmp(timeadd(self.create_time, "1h"), time_static.first_apply.rfc3339) >= 0, true)
      error_message = "deletion_protection is false, and the database ${self.name} is older than this deployment: a destroy would delete what others have stored in it. Set deletion_protection to true, or keep the database out of the destroy: terraform state rm module.voice_avatar.google_firestore_database.this."
    }
  }

  depends_on = [time_sleep.apis, time_sleep.key_users]
}

resource "google_firestore_backup_schedule" "daily" {
  count = local.backup_days == 0 ? 0 : 1

  project   = var.project_id
  database  = google_firestore_database.this.name
  retention = "${local.backup_days * 86400}s"

  daily_recurrence {}
}

# Documents are read by their id; every index would make each write slower and be used by nobody but
# the sweep, whose own is below.
resource "google_firestore_field" "unindexed" {
  project    = var.project_id
  database   = google_firestore_database.this.name
  collection = "voices"
  field      = "*"

  index_config {}
}

resource "google_firestore_field" "expire_at" {
  project    = var.project_id
  database   = google_firestore_database.this.name
  collection = "voices"
  field      = "expire_at"

  index_config {}
  ttl_config {}

  # Firestore changes one field of a collection at a time.
  depends_on = [google_firestore_field.unindexed]
}

# Finds the voices of a status that changed last before some moment, oldest first. Only voices that are
# not final have `sweep_shard`, which spreads them over 16 parts of the index (shared/voices/store.py).
# Fields and indexes here are those of the 16 collections of this name together.
resource "google_firestore_index" "sweep" {
  project     = var.project_id
  database    = google_firestore_database.this.name
  collection  = "voices"
  query_scope = "COLLECTION_GROUP"

  fields {
    field_path = "sweep_shard"
    order      = "ASCENDING"
  }

  fields {
    field_path = "status"
    order      = "ASCENDING"
  }

  fields {
    field_path = "updated_at"
    order      = "ASCENDING"
  }

  # While another index is built, the sweep goes on with the one before.
  lifecycle {
    create_before_destroy = true
  }

  depends_on = [google_firestore_field.expire_at]
}

resource "google_firebaserules_ruleset" "firestore" {
  project = var.project_id

  source {
    files {
      name    = "firestore.rules"
      content = file("${local.source_root}/infra/firestore.rules")
    }
  }

  # A release needs a ruleset at every moment: the next one comes before this one goes.
  lifecycle {
    create_before_destroy = true
  }

  depends_on = [google_firestore_database.this]
}

# When the rules change, the provider deletes the release and creates it again
# (hashicorp/terraform-provider-google#25823). In between, Firestore refuses every page.
# create_before_destroy is not possible, because a database has exactly one release.
resource "google_firebaserules_release" "firestore" {
  name         = var.storage.database_id == "(default)" ? "cloud.firestore" : "cloud.firestore/${var.storage.database_id}"
  project      = var.project_id
  ruleset_name = google_firebaserules_ruleset.firestore.name
}
