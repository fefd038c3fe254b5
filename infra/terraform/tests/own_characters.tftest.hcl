# Characters that visitors make of their own voice: off, on, with a sign-in, and off again.

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
  # Converters that fetch characters need this, and a training has two of a project's twenty CPUs.
  convert = {
    memory        = "6Gi"
    max_instances = 4
    image         = "europe-west1-docker.pkg.dev/demo-project/voice-avatar/convert@sha256:0000000000000000000000000000000000000000000000000000000000000000"
  }
  allowed_origins = ["https://voice.example.com"]
  project_id      = "demo-project"
  region          = "europe-west1"
}

run "off_there_is_nothing_of_it" {
  assert {
    condition = (
      length(google_cloud_run_v2_job.train) == 0
      && length(google_storage_bucket.own_recordings) == 0
      && length(google_cloud_run_v2_job_iam_member.starts_training) == 0
      && length(google_storage_bucket_iam_member.erases_own_characters) == 0
      && length(google_firestore_field.own_unindexed) + length(google_firestore_field.own_moment) + length(google_firestore_field.own_delete_at) == 0
      && length(google_firestore_index.own_of_owner) == 0
      && !anytrue([for title in keys(google_monitoring_alert_policy.log) : startswith(title, "Trainings")])
      && length(terraform_data.train_image) == 0
      && length(google_firestore_backup_schedule.daily) == 0
      && !contains(keys(google_service_account.this), "train")
      && !contains(keys(google_project_iam_member.firestore), "train")
      && !contains(keys(google_secret_manager_secret_iam_member.reads_log_key), "train")
    )
    error_message = "something of own characters is there although nobody asked for it"
  }

  assert {
    condition = alltrue([
      for name in ["api", "sweep"] :
      !anytrue([for variable in keys(google_cloudfunctions2_function.this[name].service_config[0].environment_variables) : strcontains(variable, "OWN_") || variable == "TRAINER_URL"])
    ]) && !jsondecode(output.page_configuration).ownCharacters
    error_message = "a function or the page is told of own characters although there are none"
  }
}

run "on" {
  variables {
    characters = {
      bucket = {}
      own    = { per_day = 20, image = "europe-west1-docker.pkg.dev/demo-project/voice-avatar/train@sha256:1111111111111111111111111111111111111111111111111111111111111111" }
    }
  }

  assert {
    condition = (
      google_cloud_run_v2_job.train[0].template[0].template[0].max_retries == 1
      && google_cloud_run_v2_job.train[0].template[0].template[0].timeout == "3600s"
      && google_cloud_run_v2_job.train[0].template[0].template[0].containers[0].resources[0].limits == tomap({ cpu = "2", memory = "4Gi" })
      && google_cloud_run_v2_job.train[0].template[0].template[0].containers[0].image == var.characters.own.image
      && google_cloud_run_v2_job.train[0].template[0].template[0].service_account == google_service_account.this["train"].email
      && google_cloud_run_v2_job.train[0].template[0].task_count == 1
      && length(terraform_data.train_image) == 0
    )
    error_message = "the trainer is not a job with two CPUs, a limit and one retry"
  }

  assert {
    condition = alltrue([
      for name in ["api", "sweep"] :
      google_cloudfunctions2_function.this[name].service_config[0].environment_variables["TRAINER_URL"] == "https://run.googleapis.com/v2/projects/demo-project/locations/europe-west1/jobs/${google_cloud_run_v2_job.train[0].name}:run"
      && google_cloud_run_v2_job_iam_member.starts_training[name].name == google_cloud_run_v2_job.train[0].name
      && google_cloud_run_v2_job_iam_member.starts_training[name].role == "roles/run.invoker"
      && google_cloud_run_v2_job_iam_member.starts_training[name].member == google_service_account.this[name].member
    ]) && length(google_cloud_run_v2_job_iam_member.starts_training) == 2
    error_message = "the api or the sweep cannot start the job, or somebody else can"
  }

  assert {
    condition = (
      google_cloudfunctions2_function.this["api"].service_config[0].environment_variables["OWN_CHARACTERS_PER_DAY"] == "20"
      && google_cloudfunctions2_function.this["api"].service_config[0].environment_variables["OWN_CHARACTERS_PER_OWNER"] == "3"
      && google_cloudfunctions2_function.this["api"].service_config[0].environment_variables["OWN_CHARACTERS_PUBLIC"] == "false"
      && google_cloudfunctions2_function.this["api"].service_config[0].environment_variables["OWN_RECORDINGS_BUCKET"] == google_storage_bucket.own_recordings[0].name
      && one([for env in google_cloud_run_v2_job.train[0].template[0].template[0].containers[0].env : env.value if env.name == "OWN_RECORDINGS_BUCKET"]) == google_storage_bucket.own_recordings[0].name
      && one([for env in google_cloud_run_v2_job.train[0].template[0].template[0].containers[0].env : env.value if env.name == "CHARACTERS_BUCKET"]) == google_storage_bucket.characters[0].name
      && jsondecode(output.page_configuration).ownCharacters
      && output.buckets.own_recordings == "demo-project-voice-avatar-own-recordings"
    )
    error_message = "api, trainer and page do not mean the same buckets and limits"
  }

  assert {
    condition = (
      google_storage_bucket.own_recordings[0].public_access_prevention == "enforced"
      && google_storage_bucket.own_recordings[0].uniform_bucket_level_access
      && google_storage_bucket.own_recordings[0].soft_delete_policy[0].retention_duration_seconds == 0
      && google_storage_bucket.own_recordings[0].cors[0].method == tolist(["PUT"])
      && google_storage_bucket.own_recordings[0].cors[0].origin == tolist(["https://voice.example.com"])
      && [for rule in google_storage_bucket.own_recordings[0].lifecycle_rule : one(rule.action).type] == ["AbortIncompleteMultipartUpload"]
      && google_storage_bucket.characters[0].soft_delete_policy[0].retention_duration_seconds == 0
    )
    error_message = "recordings or deleted voices could be seen by others, or stay for longer than is said"
  }

  assert {
    condition = (
      toset(keys(google_storage_bucket_iam_member.creates_own_recordings)) == toset(["api", "train"])
      && toset(keys(google_storage_bucket_iam_member.erases_own_characters)) == toset(["api_characters", "api_own_recordings", "sweep_characters", "sweep_own_recordings", "train_characters", "train_own_recordings"])
      && google_storage_bucket_iam_member.train_creates_characters[0].member == google_service_account.this["train"].member
      && !contains(keys(google_storage_bucket_iam_member.reads_characters), "train")
      && google_project_iam_member.firestore["train"].role == "roles/datastore.user"
    )
    error_message = "somebody may do more with recordings or characters than is needed, or less"
  }

  assert {
    condition = (
      toset(keys(google_firestore_field.own_delete_at)) == toset(["own_characters", "own_character_states"])
      && alltrue([for field in google_firestore_field.own_delete_at : field.field == "delete_at" && length(field.ttl_config) == 1])
      && alltrue([for field in google_firestore_field.own_moment : field.collection == "own_characters" && one(field.index_config[0].indexes).order == "ASCENDING"])
      && toset([for field in google_firestore_field.own_moment : field.field]) == toset(["clean_at", "public_at", "train_at"])
      && [for field in google_firestore_index.own_of_owner[0].fields : "${field.field_path} ${field.order}"] == ["owner ASCENDING", "created_at DESCENDING"]
      && google_firestore_index.own_of_owner[0].collection == "own_characters"
      && google_firestore_index.own_of_owner[0].query_scope == "COLLECTION"
      && alltrue([for field in google_firestore_field.own_unindexed : field.field == "*" && length(field.index_config[0].indexes) == 0])
    )
    error_message = "documents of characters do not expire, or a query has no index, or names are in one"
  }

  assert {
    condition     = local.most_cpus == 2 + (var.convert.max_instances * tonumber(var.convert.cpu) + local.function_instances)
    error_message = "the quota does not count the trainings"
  }

  # One wrong command, and visitors' voices would be gone.
  assert {
    condition = (
      google_firestore_database.this.point_in_time_recovery_enablement == "POINT_IN_TIME_RECOVERY_ENABLED"
      && google_firestore_backup_schedule.daily[0].retention == "604800s"
      && length(google_firestore_backup_schedule.daily[0].daily_recurrence) == 1
    )
    error_message = "the documents of visitors' characters cannot be restored"
  }
}

run "with_a_sign_in" {
  command = plan

  variables {
    characters = {
      bucket = {}
      own    = { at_once = 2, training_seconds = 3600, pytorch_index = "https://packages.example/cpu" }
    }
    firebase_authentication = { email = true }
  }

  assert {
    condition = (
      google_cloudfunctions2_function.this["api"].service_config[0].environment_variables["FIREBASE_AUTH"] == "on"
      && google_cloudfunctions2_function.this["api"].service_config[0].environment_variables["OWN_CHARACTERS_PER_DAY"] == "20"
      && google_cloud_run_v2_job.train[0].template[0].template[0].timeout == "7200s"
      && one([for env in google_cloud_run_v2_job.train[0].template[0].template[0].containers[0].env : env.value if env.name == "TRAININGS_AT_ONCE"]) == "2"
      && length(terraform_data.train_image) == 1
    )
    error_message = "own characters and a sign-in do not go together"
  }
}

run "off_again_everything_goes_but_what_others_need" {
  variables {
    characters = { bucket = {} }
  }

  assert {
    condition = (
      length(google_cloud_run_v2_job.train) == 0
      && length(google_storage_bucket.own_recordings) == 0
      && length(google_firestore_field.own_moment) == 0
      && !contains(keys(google_service_account.this), "train")
      && google_storage_bucket.characters[0].soft_delete_policy[0].retention_duration_seconds == 604800
      && !jsondecode(output.page_configuration).ownCharacters
    )
    error_message = "something of own characters stays when it was switched off"
  }
}
