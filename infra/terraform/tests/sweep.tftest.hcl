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

run "every_few_minutes" {
  assert {
    condition = (
      google_cloud_scheduler_job.sweep.schedule == "*/5 * * * *"
      && google_cloud_scheduler_job.sweep.region == "europe-west1"
      && google_cloud_scheduler_job.sweep.http_target[0].http_method == "POST"
      && google_cloud_scheduler_job.sweep.http_target[0].uri == "${google_cloudfunctions2_function.this["sweep"].service_config[0].uri}/"
      && contains(keys(google_project_service.this), "cloudscheduler.googleapis.com")
    )
    error_message = "nothing starts a sweep"
  }

  assert {
    condition = (
      google_cloud_scheduler_job.sweep.http_target[0].oidc_token[0].service_account_email == "voice-avatar-sweep-timer@demo-project.iam.gserviceaccount.com"
      && google_cloud_scheduler_job.sweep.http_target[0].oidc_token[0].service_account_email == google_cloudfunctions2_function.this["sweep"].service_config[0].environment_variables["PUSH_SERVICE_ACCOUNT"]
      && google_cloud_scheduler_job.sweep.http_target[0].oidc_token[0].audience == google_cloudfunctions2_function.this["sweep"].service_config[0].environment_variables["PUSH_AUDIENCE"]
      && google_cloud_scheduler_job.sweep.http_target[0].oidc_token[0].audience == "https://europe-west1-demo-project.cloudfunctions.net/voice-avatar-sweep"
      && length(google_cloud_scheduler_job.sweep.http_target[0].oauth_token) == 0
    )
    error_message = "sweep does not expect the account or the audience that the scheduler's token carries"
  }

  assert {
    condition = (
      google_cloud_run_v2_service_iam_member.sweep_timer.name == google_cloudfunctions2_function.this["sweep"].name
      && google_cloud_run_v2_service_iam_member.sweep_timer.role == "roles/run.invoker"
      && google_cloud_run_v2_service_iam_member.sweep_timer.member == google_service_account.this["sweep_timer"].member
    )
    error_message = "the scheduler may not call sweep, or may call something else"
  }

  assert {
    condition     = tonumber(trimsuffix(google_cloud_scheduler_job.sweep.attempt_deadline, "s")) > google_cloudfunctions2_function.this["sweep"].service_config[0].timeout_seconds
    error_message = "the scheduler gives a sweep up before Cloud Run does, and starts another one beside it"
  }

  assert {
    condition = (
      google_cloudfunctions2_function.this["sweep"].service_config[0].max_instance_count == 1
      && google_cloudfunctions2_function.this["sweep"].service_config[0].max_instance_request_concurrency == 1
      && google_cloudfunctions2_function.this["sweep"].service_config[0].min_instance_count == 0
    )
    error_message = "two sweeps can run at once, or one is paid for while it waits"
  }

  assert {
    condition = (
      google_cloudfunctions2_function.this["sweep"].service_config[0].service_account_email == google_service_account.this["sweep"].email
      && google_service_account.this["sweep"].email != google_service_account.this["sweep_timer"].email
      && google_project_iam_member.firestore["sweep"].member == google_service_account.this["sweep"].member
      && google_storage_bucket_iam_member.reads_uploads["sweep"].member == google_service_account.this["sweep"].member
      && !contains([for member in google_storage_bucket_iam_member.eraser : member.member], google_service_account.this["sweep"].member)
    )
    error_message = "sweep cannot read voices and recordings, or could erase some"
  }
}

run "one_index_for_one_query" {
  assert {
    condition = (
      google_firestore_index.sweep.collection == "voices"
      && google_firestore_index.sweep.query_scope == "COLLECTION_GROUP"
      && google_firestore_index.sweep.database == google_firestore_database.this.name
      && [for field in google_firestore_index.sweep.fields : "${field.field_path} ${field.order}"] == ["sweep_shard ASCENDING", "status ASCENDING", "updated_at ASCENDING"]
    )
    error_message = "the sweep's query has no index"
  }
}

run "patience" {
  assert {
    condition     = google_cloudfunctions2_function.this["sweep"].service_config[0].environment_variables["PATIENCE_SECONDS"] == "300"
    error_message = "a message counts as lost while Pub/Sub still delivers it"
  }
}

run "more_patience_for_more_deliveries" {
  variables {
    dead_letter = { delivery_attempts = 100 }
    limits      = { upload_url_seconds = 900 }
  }

  assert {
    condition = (
      google_cloudfunctions2_function.this["sweep"].service_config[0].environment_variables["PATIENCE_SECONDS"] == "970"
      && google_cloudfunctions2_function.this["sweep"].service_config[0].environment_variables["UPLOAD_URL_SECONDS"] == "900"
      && google_cloudfunctions2_function.this["api"].service_config[0].environment_variables["UPLOAD_URL_SECONDS"] == "900"
    )
    error_message = "sweep does not wait for what the other services still do"
  }
}

run "the_longest_name" {
  command = plan

  variables {
    name = "a-name-of-18-chars"
  }

  assert {
    condition     = alltrue([for account in google_service_account.this : length(account.account_id) <= 30])
    error_message = "a service account's id is longer than Google accepts"
  }
}

run "somebody_looks_whether_it_runs" {
  assert {
    condition = (
      google_monitoring_alert_policy.metric["Voices were lost"].conditions[0].condition_threshold[0].threshold_value == 3
      && google_monitoring_alert_policy.metric["Voices were lost"].conditions[1].condition_threshold[0].comparison == "COMPARISON_LT"
      && google_monitoring_alert_policy.metric["Voices were lost"].conditions[1].condition_threshold[0].evaluation_missing_data == "EVALUATION_MISSING_DATA_ACTIVE"
      && strcontains(google_logging_metric.counter["swept"].filter, "resource.labels.service_name=\"${google_cloudfunctions2_function.this["sweep"].name}\"")
    )
    error_message = "nobody is told when voices are lost, or when no sweep runs"
  }
}
