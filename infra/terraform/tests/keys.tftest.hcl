# A key of one's own, from the first apply on. The runs share one state.

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

run "keys_of_ones_own" {
  variables {
    storage = { kms_key = "projects/demo-project/locations/europe-west1/keyRings/ring/cryptoKeys/key" }
  }

  assert {
    condition = alltrue([
      for key in concat(
        [for bucket in [google_storage_bucket.uploads, google_storage_bucket.results, google_storage_bucket.sources] : bucket.encryption[0].default_kms_key_name],
        [for topic in concat(values(google_pubsub_topic.work), values(google_pubsub_topic.dead)) : topic.kms_key_name],
        [for function in google_cloudfunctions2_function.this : function.kms_key_name],
        [
          google_artifact_registry_repository.this[0].kms_key_name,
          google_cloud_run_v2_service.convert.template[0].encryption_key,
          google_firestore_database.this.cmek_config[0].kms_key_name,
        ],
      ) : key == var.storage.kms_key
    ])
    error_message = "something is not encrypted with the given key"
  }

  assert {
    condition = alltrue([
      for member in google_kms_crypto_key_iam_member.agents :
      member.role == "roles/cloudkms.cryptoKeyEncrypterDecrypter" && member.crypto_key_id == var.storage.kms_key
    ]) && length(google_kms_crypto_key_iam_member.agents) == 7
    error_message = "an agent that must use the key may not"
  }

  assert {
    condition = (
      time_sleep.key_users[0].create_duration == "60s"
      && google_pubsub_topic_iam_member.storage_agent.member == "serviceAccount:service-123456789012@gs-project-accounts.iam.gserviceaccount.com"
      && google_kms_crypto_key_iam_member.agents["storage"].member == "serviceAccount:service-123456789012@gs-project-accounts.iam.gserviceaccount.com"
    )
    error_message = "an API that is switched on later takes a role away from Cloud Storage's agent for a moment"
  }
}

run "the_same_key_again" {
  command = plan

  variables {
    storage = { kms_key = "projects/demo-project/locations/europe-west1/keyRings/ring/cryptoKeys/key" }
  }

  assert {
    condition     = google_firestore_database.this.cmek_config[0].kms_key_name == var.storage.kms_key
    error_message = "the key is lost"
  }
}

run "another_key" {
  command = plan

  variables {
    storage = { kms_key = "projects/demo-project/locations/europe-west1/keyRings/ring/cryptoKeys/another" }
  }

  expect_failures = [google_firestore_database.this]
}

run "no_key_any_more" {
  command = plan

  expect_failures = [google_firestore_database.this]
}
