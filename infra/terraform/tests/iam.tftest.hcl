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

run "only_what_is_needed" {
  assert {
    condition = alltrue([
      for member in concat(
        values(google_project_iam_member.firestore),
        [google_project_iam_member.build_logs, google_project_iam_member.build_sources],
      ) :
      contains(["roles/datastore.user", "roles/logging.logWriter", "roles/storage.objectViewer"], member.role)
    ])
    error_message = "a role is granted on the whole project that is not on the short list"
  }

  assert {
    condition = alltrue([
      for member in values(google_project_iam_member.firestore) :
      startswith(member.condition[0].expression, "resource.name == \"")
    ])
    error_message = "a service may use more databases than its own"
  }

  assert {
    condition = (
      google_artifact_registry_repository_iam_member.functions_agent.member == google_project_service_identity.this["cloudfunctions.googleapis.com"].member
      && google_artifact_registry_repository_iam_member.functions_agent.role == "roles/artifactregistry.reader"
    )
    error_message = "the first functions are deployed before their agent may read their images"
  }

  assert {
    condition     = google_project_iam_member.build_sources.condition[0].expression == "resource.name.startsWith(\"projects/_/buckets/gcf-v2-sources-123456789012-\")"
    error_message = "the build account may read more than source archives"
  }

  assert {
    condition = alltrue([
      for name in ["api", "convert"] :
      google_service_account_iam_member.signs_for_itself[name].role == google_project_iam_custom_role.signer.id
      && google_project_iam_custom_role.signer.permissions == toset(["iam.serviceAccounts.signBlob"])
      && google_service_account_iam_member.signs_for_itself[name].service_account_id == google_service_account.this[name].name
      && google_service_account_iam_member.signs_for_itself[name].member == google_service_account.this[name].member
    ]) && length(google_service_account_iam_member.signs_for_itself) == 2
    error_message = "an account that signs may sign for another than itself"
  }

  assert {
    condition = (
      google_cloudfunctions2_function.this["api"].service_config[0].environment_variables["SIGNING_SERVICE_ACCOUNT"] == google_service_account.this["api"].email
      && google_cloudfunctions2_function.this["api"].service_config[0].service_account_email == google_service_account.this["api"].email
      && one([for env in google_cloud_run_v2_service.convert.template[0].containers[0].env : env.value if env.name == "SIGNING_SERVICE_ACCOUNT"]) == google_service_account.this["convert"].email
      && google_cloud_run_v2_service.convert.template[0].service_account == google_service_account.this["convert"].email
    )
    error_message = "a service is told to sign as another account than it runs as"
  }

  assert {
    condition     = length(distinct([for function in google_cloudfunctions2_function.this : function.service_config[0].service_account_email])) == 4
    error_message = "two functions share a service account"
  }

  assert {
    condition = (
      google_service_account_iam_member.push_tokens.role == "roles/iam.serviceAccountOpenIdTokenCreator"
      && google_service_account_iam_member.push_tokens.service_account_id == google_service_account.this["push"].name
      && google_service_account_iam_member.push_tokens.member == "serviceAccount:service-123456789012@gcp-sa-pubsub.iam.gserviceaccount.com"
    )
    error_message = "the Pub/Sub agent cannot make the tokens that its pushes carry"
  }

  assert {
    condition = alltrue([
      for name, member in google_cloud_run_v2_service_iam_member.push :
      member.role == "roles/run.invoker" && member.member == google_service_account.this["push"].member
    ]) && toset(keys(google_cloud_run_v2_service_iam_member.push)) == toset(["convert", "dead_letter", "on_upload"])
    error_message = "Pub/Sub cannot call a service that it must push to"
  }

  assert {
    condition = alltrue([
      for name, member in google_pubsub_topic_iam_member.conversions :
      member.topic == google_pubsub_topic.work["conversions"].name
      && member.role == "roles/pubsub.publisher"
      && member.member == google_service_account.this[name].member
    ]) && toset(keys(google_pubsub_topic_iam_member.conversions)) == toset(["api", "dead_letter", "on_upload", "sweep"])
    error_message = "a service that requests conversions cannot send messages, or somebody else can"
  }

  assert {
    condition = (
      google_cloud_run_v2_service_iam_member.warm_up.name == google_cloud_run_v2_service.convert.name
      && google_cloud_run_v2_service_iam_member.warm_up.member == google_service_account.this["api"].member
    )
    error_message = "the api cannot warm up the conversion container"
  }

  assert {
    condition = (
      google_cloud_run_v2_service_iam_member.public_api[0].member == "allUsers"
      && google_cloud_run_v2_service_iam_member.public_api[0].name == google_cloudfunctions2_function.this["api"].name
    )
    error_message = "allUsers may call something else than the api"
  }

  assert {
    condition = (
      !google_cloud_run_v2_service.convert.invoker_iam_disabled
      && google_cloudfunctions2_function.this["on_upload"].service_config[0].ingress_settings == "ALLOW_INTERNAL_ONLY"
      && google_cloudfunctions2_function.this["dead_letter"].service_config[0].ingress_settings == "ALLOW_INTERNAL_ONLY"
      && google_cloudfunctions2_function.this["sweep"].service_config[0].ingress_settings == "ALLOW_INTERNAL_ONLY"
    )
    error_message = "a service that only Pub/Sub or Cloud Scheduler calls is open to others"
  }

  assert {
    condition = (
      google_storage_bucket_iam_member.api_creates_uploads.role == "roles/storage.objectCreator"
      && alltrue([for member in google_storage_bucket_iam_member.empties_uploads : member.role == "roles/storage.objectCreator" && member.bucket == google_storage_bucket.uploads.name])
      && google_storage_bucket_iam_member.convert_creates_results.role == "roles/storage.objectCreator"
      && alltrue([for member in google_storage_bucket_iam_member.reads_uploads : member.role == "roles/storage.objectViewer" && member.bucket == google_storage_bucket.uploads.name])
      && toset(keys(google_storage_bucket_iam_member.reads_uploads)) == toset(["convert", "sweep"])
      && alltrue([for member in google_storage_bucket_iam_member.eraser : member.role == google_project_iam_custom_role.eraser.id])
    )
    error_message = "a service may do more with the objects than read, create and erase them"
  }

  assert {
    condition = { for name, member in google_storage_bucket_iam_member.eraser : name => "${member.member} ${member.bucket}" } == {
      api_results         = "${google_service_account.this["api"].member} ${google_storage_bucket.results.name}"
      api_uploads         = "${google_service_account.this["api"].member} ${google_storage_bucket.uploads.name}"
      convert_uploads     = "${google_service_account.this["convert"].member} ${google_storage_bucket.uploads.name}"
      dead_letter_uploads = "${google_service_account.this["dead_letter"].member} ${google_storage_bucket.uploads.name}"
      convert_results     = "${google_service_account.this["convert"].member} ${google_storage_bucket.results.name}"
      dead_letter_results = "${google_service_account.this["dead_letter"].member} ${google_storage_bucket.results.name}"
      on_upload_uploads   = "${google_service_account.this["on_upload"].member} ${google_storage_bucket.uploads.name}"
    }
    error_message = "somebody erases objects that are not theirs to erase, or cannot erase those that are"
  }

  assert {
    condition     = toset(google_project_iam_custom_role.eraser.permissions) == toset(["storage.objects.delete", "storage.objects.get", "storage.objects.list"])
    error_message = "whoever erases may do more than find and delete"
  }
}

run "a_closed_api" {
  variables {
    api = { public = false }
  }

  assert {
    condition = (
      length(google_cloud_run_v2_service_iam_member.public_api) == 0
      && length(terraform_data.invoker_check) == 0
      && length(google_monitoring_uptime_check_config.api) == 0
      && !contains(keys(google_monitoring_alert_policy.metric), "The api is down")
    )
    error_message = "public_api = false leaves the api open to everybody, or watches whether everybody can call it"
  }
}

# Only planned: an apply would really run gcloud.
run "an_organisation_that_refuses_all_users" {
  command = plan

  variables {
    api = { domain_restricted_sharing = true }
  }

  assert {
    condition     = length(google_cloud_run_v2_service_iam_member.public_api) == 0 && length(terraform_data.invoker_check) == 1 && terraform_data.invoker_check[0].triggers_replace[0]
    error_message = "allUsers is granted something, or the api stays closed"
  }
}

run "an_organisation_that_refuses_all_users_and_a_closed_api" {
  command = plan

  variables {
    api = { domain_restricted_sharing = true, public = false }
  }

  assert {
    condition     = length(google_cloud_run_v2_service_iam_member.public_api) == 0 && !terraform_data.invoker_check[0].triggers_replace[0]
    error_message = "an api that was opened without allUsers cannot be closed again"
  }
}
