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
  convert_image   = "europe-west1-docker.pkg.dev/demo-project/voice-avatar/convert@sha256:0000000000000000000000000000000000000000000000000000000000000000"
  project_id      = "demo-project"
  region          = "europe-west1"
}

run "all_off_by_default" {
  assert {
    condition = (
      length(google_compute_security_policy.api) == 0
      && length(google_identity_platform_config.this) == 0
      && length(google_kms_crypto_key_iam_member.agents) == 0
      && output.load_balancer_address == null
      && google_cloudfunctions2_function.this["api"].service_config[0].environment_variables["FIREBASE_AUTH"] == "off"
    )
    error_message = "an option is on that nobody asked for"
  }

  assert {
    condition = (
      google_cloudfunctions2_function.this["api"].service_config[0].environment_variables["RATE_LIMIT_PER_MINUTE"] == "120"
      && google_cloudfunctions2_function.this["api"].service_config[0].environment_variables["WAITING_PER_CLIENT"] == "50"
      && google_cloudfunctions2_function.this["api"].service_config[0].environment_variables["TRUSTED_PROXIES"] == "1"
    )
    error_message = "the api does not limit what one address asks of it, or takes a visitor's word for the address"
  }

  assert {
    condition     = !contains(keys(google_project_service.this), "compute.googleapis.com") && !contains(keys(google_project_service.this), "identitytoolkit.googleapis.com")
    error_message = "an API is switched on that nothing uses"
  }
}

run "a_domain_with_a_limit" {
  variables {
    custom_domain         = "voice.example.com"
    rate_limit_per_minute = 30
  }

  assert {
    condition = (
      one([for rule in google_compute_security_policy.api[0].rule : rule.rate_limit_options[0].rate_limit_threshold[0].count if rule.action == "throttle"]) == 30
      && google_compute_backend_service.api[0].security_policy == google_compute_security_policy.api[0].id
      && google_compute_managed_ssl_certificate.api[0].managed[0].domains == tolist(["voice.example.com"])
      && can(regex("^voice-avatar-api-[0-9a-f]{8}$", google_compute_managed_ssl_certificate.api[0].name))
    )
    error_message = "the load balancer has no limit, or no certificate for the domain"
  }

  assert {
    condition     = google_cloudfunctions2_function.this["api"].service_config[0].ingress_settings == "ALLOW_INTERNAL_AND_GCLB"
    error_message = "the limit can be gone around by the api's own address"
  }

  assert {
    condition = (
      google_cloudfunctions2_function.this["api"].service_config[0].environment_variables["RATE_LIMIT_PER_MINUTE"] == "30"
      && google_cloudfunctions2_function.this["api"].service_config[0].environment_variables["TRUSTED_PROXIES"] == "2"
    )
    error_message = "the api counts what the load balancer's own address sends, or counts to another limit"
  }

  assert {
    condition     = output.api_url == "https://voice.example.com"
    error_message = "the page is not told the domain"
  }
}

run "owners" {
  variables {
    firebase_authentication = { email = true }
  }

  assert {
    condition = (
      google_cloudfunctions2_function.this["api"].service_config[0].environment_variables["FIREBASE_AUTH"] == "on"
      && google_identity_platform_config.this[0].sign_in[0].anonymous[0].enabled
      && google_identity_platform_config.this[0].sign_in[0].email[0].enabled
      && google_identity_platform_config.this[0].authorized_domains == tolist(["voice.example.com"])
    )
    error_message = "signing in is not on, or from other sites"
  }
}

run "keys_of_ones_own" {
  variables {
    kms_key = "projects/demo-project/locations/europe-west1/keyRings/ring/cryptoKeys/key"
  }

  assert {
    condition = alltrue([
      for key in concat(
        [for bucket in [google_storage_bucket.uploads, google_storage_bucket.results, google_storage_bucket.sources] : bucket.encryption[0].default_kms_key_name],
        [for topic in concat(values(google_pubsub_topic.work), values(google_pubsub_topic.dead)) : topic.kms_key_name],
        [for function in google_cloudfunctions2_function.this : function.kms_key_name],
        [
          google_artifact_registry_repository.this.kms_key_name,
          google_cloud_run_v2_service.convert.template[0].encryption_key,
          google_firestore_database.this.cmek_config[0].kms_key_name,
        ],
      ) : key == var.kms_key
    ])
    error_message = "something is not encrypted with the given key"
  }

  assert {
    condition = alltrue([
      for member in google_kms_crypto_key_iam_member.agents :
      member.role == "roles/cloudkms.cryptoKeyEncrypterDecrypter" && member.crypto_key_id == var.kms_key
    ]) && length(google_kms_crypto_key_iam_member.agents) == 6
    error_message = "an agent that must use the key may not"
  }
}

run "watching" {
  variables {
    alert_emails           = ["operator@example.com"]
    error_rate_objective   = 0.05
    notification_channels  = ["projects/demo-project/notificationChannels/2"]
    wait_objective_seconds = 3
  }

  assert {
    condition = alltrue([
      for policy in [
        google_monitoring_alert_policy.dead_letters,
        google_monitoring_alert_policy.errors,
        google_monitoring_alert_policy.lost,
        google_monitoring_alert_policy.stuck,
        google_monitoring_alert_policy.wait,
      ] :
      toset(policy.notification_channels) == toset(["projects/demo-project/notificationChannels/1", "projects/demo-project/notificationChannels/2"])
      && length(policy.documentation[0].content) > 200
    ])
    error_message = "an alert reaches nobody, or does not say what to do"
  }

  assert {
    condition = (
      google_monitoring_alert_policy.wait.conditions[0].condition_threshold[0].threshold_value == 3000
      && google_monitoring_alert_policy.errors.conditions[0].condition_threshold[0].threshold_value == 0.05
      && google_monitoring_alert_policy.stuck.conditions[0].condition_threshold[0].threshold_value == 90
      && google_monitoring_alert_policy.dead_letters.conditions[0].condition_threshold[0].threshold_value == 0
    )
    error_message = "an alert has another threshold than the objectives say"
  }

  assert {
    condition     = length(jsondecode(google_monitoring_dashboard.this.dashboard_json).mosaicLayout.tiles) == length(local.charts) && length(local.charts) >= 8
    error_message = "the dashboard does not show every chart"
  }

  assert {
    condition = alltrue([
      for name, metric in local.metric :
      strcontains(google_monitoring_dashboard.this.dashboard_json, "/${name}\\\"") if !contains(["voices"], name)
    ])
    error_message = "a log-based metric is shown nowhere"
  }
}
