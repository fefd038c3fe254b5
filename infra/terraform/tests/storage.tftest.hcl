mock_provider "archive" {}
mock_provider "google" {
  source = "./tests/mocks"
}
mock_provider "google-beta" {
  source = "./tests/mocks-beta"
}
mock_provider "random" {}
mock_provider "time" {}

variables {
  allowed_origins = ["https://voice.example.com"]
  convert         = { image = "europe-west1-docker.pkg.dev/demo-project/voice-avatar/convert@sha256:0000000000000000000000000000000000000000000000000000000000000000" }
  project_id      = "demo-project"
  region          = "europe-west1"
}

run "buckets" {
  assert {
    condition = alltrue([
      for bucket in [google_storage_bucket.uploads, google_storage_bucket.results, google_storage_bucket.sources] :
      bucket.public_access_prevention == "enforced" && bucket.uniform_bucket_level_access
    ])
    error_message = "a bucket could be made public"
  }

  assert {
    condition = alltrue([
      for bucket in [google_storage_bucket.uploads, google_storage_bucket.results] :
      anytrue([for rule in bucket.lifecycle_rule : one(rule.action).type == "Delete" && one(rule.condition).age == 1])
      && anytrue([for rule in bucket.lifecycle_rule : one(rule.action).type == "AbortIncompleteMultipartUpload" && one(rule.condition).age == 1])
      && bucket.soft_delete_policy[0].retention_duration_seconds == 0
    ])
    error_message = "recordings, results or aborted uploads are kept for longer than a day"
  }

  assert {
    condition = (
      google_storage_bucket.uploads.cors[0].origin == tolist(["https://voice.example.com"])
      && google_storage_bucket.uploads.cors[0].method == tolist(["PUT"])
      && google_storage_bucket.results.cors[0].origin == tolist(["https://voice.example.com"])
      && google_storage_bucket.results.cors[0].method == tolist(["GET", "HEAD"])
    )
    error_message = "a browser may do other things with the buckets than put a recording and get a result, or from other origins"
  }
}

run "database" {
  assert {
    condition = (
      google_firestore_database.this.name == "(default)"
      && google_firestore_database.this.type == "FIRESTORE_NATIVE"
      && google_firestore_database.this.location_id == "europe-west1"
    )
    error_message = "the database is not the native default one in the region"
  }

  assert {
    condition = (
      google_firestore_database.this.delete_protection_state == "DELETE_PROTECTION_ENABLED"
      && google_firestore_database.this.deletion_policy == "DELETE"
      && !google_storage_bucket.uploads.force_destroy
      && !google_storage_bucket.results.force_destroy
    )
    error_message = "a destroy takes down, or forgets, what deletion_protection is for"
  }

  assert {
    condition     = length(google_firestore_field.expire_at.ttl_config) == 1 && google_firestore_field.expire_at.field == "expire_at" && google_firestore_field.expire_at.collection == "voices"
    error_message = "documents of voices do not expire"
  }

  assert {
    condition = alltrue([
      for field in [google_firestore_field.unindexed, google_firestore_field.expire_at] : length(field.index_config[0].indexes) == 0
    ]) && google_firestore_field.unindexed.field == "*"
    error_message = "there is an index that nobody uses"
  }

  assert {
    condition     = google_firebaserules_ruleset.firestore.source[0].files[0].content == file("${path.module}/../firestore.rules") && google_firebaserules_release.firestore.name == "cloud.firestore"
    error_message = "the database has other rules than the emulator"
  }
}

run "without_deletion_protection" {
  variables {
    deletion_protection = false
  }

  assert {
    condition = (
      google_firestore_database.this.delete_protection_state == "DELETE_PROTECTION_DISABLED"
      && google_firestore_database.this.deletion_policy == "DELETE"
      && google_storage_bucket.uploads.force_destroy
      && google_storage_bucket.results.force_destroy
    )
    error_message = "a destroy leaves something behind"
  }
}

run "no_bucket_of_characters" {
  assert {
    condition = (
      length(google_storage_bucket.characters) == 0
      && length(google_storage_bucket_iam_member.reads_characters) == 0
      && !contains(keys(google_monitoring_alert_policy.log), "A character does not work")
      && length([for env in google_cloud_run_v2_service.convert.template[0].containers[0].env : env if env.name == "CHARACTERS_BUCKET"]) == 0
    )
    error_message = "there is a bucket of characters that nobody asked for"
  }
}

run "a_bucket_of_characters" {
  variables {
    monitoring = { emails = ["operator@example.com"] }
    characters = { bucket = { memory_mib = 2048 } }
    convert    = { image = var.convert.image, max_instances = 5, memory = "7Gi" }
  }

  assert {
    condition = (
      google_storage_bucket.characters[0].public_access_prevention == "enforced"
      && google_storage_bucket.characters[0].uniform_bucket_level_access
      && !google_storage_bucket.characters[0].force_destroy
      && alltrue([for rule in google_storage_bucket.characters[0].lifecycle_rule : one(rule.action).type == "AbortIncompleteMultipartUpload"])
    )
    error_message = "the bucket of characters could be made public, or loses characters by itself"
  }

  assert {
    condition = {
      for name, member in google_storage_bucket_iam_member.reads_characters : name => "${member.role} ${member.member} ${member.bucket}"
      } == {
      for name in ["api", "convert"] : name => "roles/storage.objectViewer ${google_service_account.this[name].member} ${google_storage_bucket.characters[0].name}"
    }
    error_message = "somebody else than the api and the converter reads the characters, or one of them may do more"
  }

  assert {
    condition = {
      for env in google_cloud_run_v2_service.convert.template[0].containers[0].env : env.name => env.value
      if contains(["CHARACTERS_BUCKET", "CHARACTERS_MEMORY_BYTES", "MAX_BUNDLE_BYTES"], env.name)
      } == {
      CHARACTERS_BUCKET       = google_storage_bucket.characters[0].name
      CHARACTERS_MEMORY_BYTES = "2147483648"
      MAX_BUNDLE_BYTES        = "1073741824"
    }
    error_message = "the converter is not told where the characters lie and how many it may keep"
  }

  assert {
    condition     = google_cloudfunctions2_function.this["api"].service_config[0].environment_variables["CHARACTERS_BUCKET"] == google_storage_bucket.characters[0].name
    error_message = "the api is not told where the characters lie"
  }

  assert {
    condition = (
      strcontains(google_monitoring_alert_policy.log["A character does not work"].conditions[0].condition_matched_log[0].filter, "\"voice-avatar-convert\"")
      && strcontains(google_monitoring_alert_policy.log["A character does not work"].conditions[0].condition_matched_log[0].filter, "jsonPayload.event=\"character_broken\"")
      && toset(google_monitoring_alert_policy.log["A character does not work"].notification_channels) == toset(["projects/demo-project/notificationChannels/1"])
      && length(google_monitoring_alert_policy.log["A character does not work"].documentation[0].content) > 200
    )
    error_message = "nobody is told of a character that does not work, or what to do about it"
  }
}

run "too_little_memory_for_fetched_characters" {
  command = plan

  variables {
    characters = { bucket = {} }
    convert    = { image = var.convert.image, memory = "4Gi" }
  }

  expect_failures = [google_cloud_run_v2_service.convert]
}

# Google cannot change the key of a database: Terraform would delete it and create an empty one.
run "a_key_for_a_database_that_was_made_without_one" {
  command = plan

  variables {
    storage = { kms_key = "projects/demo-project/locations/europe-west1/keyRings/ring/cryptoKeys/key" }
  }

  expect_failures = [google_firestore_database.this]
}

# In a project with another deployment, or with an app that uses Firestore already.
run "a_database_beside_the_default_one" {
  variables {
    storage = { database_id = "voice-avatar" }
  }

  assert {
    condition = (
      google_firestore_database.this.name == "voice-avatar"
      && google_firebaserules_release.firestore.name == "cloud.firestore/voice-avatar"
      && alltrue([for name, function in google_cloudfunctions2_function.this : function.service_config[0].environment_variables["FIRESTORE_DATABASE"] == "voice-avatar"])
      && jsondecode(output.page_configuration).firebase.databaseId == "voice-avatar"
    )
    error_message = "the rules of the default database are replaced, or a service or the page uses that database"
  }
}

run "a_database_that_others_made_is_not_destroyed" {
  state_key = "imported"

  variables {
    deletion_protection = false
  }

  override_resource {
    target = google_firestore_database.this
    values = { create_time = "2020-01-01T00:00:00Z" }
  }
  override_resource {
    target = time_static.first_apply
    values = { rfc3339 = "2026-01-01T00:00:00Z" }
  }

  expect_failures = [google_firestore_database.this]
}
