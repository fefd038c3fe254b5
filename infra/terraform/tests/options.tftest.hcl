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

run "all_off_by_default" {
  assert {
    condition = (
      length(google_compute_security_policy.api) == 0
      && length(google_identity_platform_config.this) == 0
      && length(google_kms_crypto_key_iam_member.agents) == 0
      && length(google_billing_budget.this) == 0
      && length(google_storage_bucket.page) == 0
      && toset(keys(google_secret_manager_secret.this)) == toset(["log-key"])
      && length(google_storage_hmac_key.signer) == 0
      && length(google_compute_url_map.to_https) == 0
      && length(terraform_data.invoker_check) == 0
      && length(time_sleep.key_users) == 0
      && length(google_binary_authorization_policy.this) + length(google_cloud_run_v2_service.convert.binary_authorization) == 0
      && output.load_balancer_address == null
      && output.page_url == null
      && google_cloudfunctions2_function.this["api"].service_config[0].environment_variables["FIREBASE_AUTH"] == "off"
      && google_cloudfunctions2_function.this["api"].service_config[0].environment_variables["APP_CHECK"] == "off"
      && jsondecode(output.page_configuration).appCheck == null
    )
    error_message = "an option is on that nobody asked for"
  }

  assert {
    condition = (
      google_cloudfunctions2_function.this["api"].service_config[0].environment_variables["RATE_LIMIT_PER_MINUTE"] == "120"
      && google_cloudfunctions2_function.this["api"].service_config[0].environment_variables["WAITING_PER_CLIENT"] == "50"
      && google_cloudfunctions2_function.this["api"].service_config[0].environment_variables["WARM_UPS_AT_ONCE"] == "80"
      && google_cloudfunctions2_function.this["api"].service_config[0].environment_variables["TRUSTED_PROXIES"] == "1"
    )
    error_message = "the api does not limit what one address asks of it, or takes a visitor's word for the address"
  }

  assert {
    condition     = !contains(keys(google_project_service.this), "compute.googleapis.com") && !contains(keys(google_project_service.this), "identitytoolkit.googleapis.com") && !contains(keys(google_project_service.this), "billingbudgets.googleapis.com")
    error_message = "an API is switched on that nothing uses"
  }
}

run "a_domain_with_a_limit" {
  variables {
    domain = { name = "voice.example.com" }
    api    = { rate_limit_per_minute = 30 }
  }

  assert {
    condition = (
      one([for rule in google_compute_security_policy.api[0].rule : rule.rate_limit_options[0].rate_limit_threshold[0].count if rule.action == "throttle"]) == 30
      && google_compute_backend_service.api[0].security_policy == google_compute_security_policy.api[0].id
      && google_compute_target_https_proxy.api[0].certificate_map == "//certificatemanager.googleapis.com/${google_certificate_manager_certificate_map.api[0].id}"
      && keys(output.dns_records) == ["voice.example.com"]
    )
    error_message = "the load balancer has no limit, or no certificate for the domain"
  }

  assert {
    condition     = google_cloudfunctions2_function.this["api"].service_config[0].ingress_settings == "ALLOW_ALL"
    error_message = "the page that is published loses the api before the domain works"
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
    operator                = { name = "Ada's Museum", contact = "ada@example.org" }
  }

  assert {
    condition = (
      google_cloudfunctions2_function.this["api"].service_config[0].environment_variables["FIREBASE_AUTH"] == "on"
      && google_identity_platform_config.this[0].sign_in[0].anonymous[0].enabled
      && google_identity_platform_config.this[0].sign_in[0].email[0].enabled
      && google_identity_platform_config.this[0].authorized_domains == tolist(["voice.example.com"])
      && google_identity_platform_config.this[0].sign_in[0].phone_number[0].enabled == false
    )
    error_message = "signing in is not on, or from other sites, or every plan shows the block that Google adds"
  }

  assert {
    condition     = jsondecode(output.page_configuration).signIn == { anonymous = true, email = true }
    error_message = "the page does not know how visitors sign in"
  }

  assert {
    condition     = jsondecode(output.page_configuration).operator == { contact = "ada@example.org", name = "Ada's Museum", privacy = null }
    error_message = "the page does not know who runs the service"
  }

  # The second one renews a visitor's token after an hour.
  assert {
    condition     = contains(keys(google_project_service.this), "identitytoolkit.googleapis.com") && contains(keys(google_project_service.this), "securetoken.googleapis.com")
    error_message = "an API that a signed-in page calls is off"
  }
}

run "logs_without_voice_ids" {
  assert {
    condition = (
      toset(keys(google_secret_manager_secret_iam_member.reads_log_key)) == setsubtract(keys(local.names), ["live", "train"])
      && alltrue([for function in google_cloudfunctions2_function.this : contains(function.service_config[0].secret_environment_variables[*].key, "LOG_KEY")])
      && length([for env in google_cloud_run_v2_service.convert.template[0].containers[0].env : env if env.name == "LOG_KEY" && length(env.value_source) == 1]) == 1
    )
    error_message = "a service has no key for the pseudonyms of voices in its logs"
  }

  assert {
    condition = (
      can(regex(regex("requestUrl=~\"(.*)\"", google_logging_project_exclusion.voice_ids.filter)[0], "https://api.example.com/api/v1/conversion/1b446ee4-bc77-429e-a367-c0bf7605b3f6"))
      && can(regex(regex("requestUrl=~\"(.*)\"", google_logging_project_exclusion.voice_ids.filter)[0], "https://api.example.com/api/v1/voices/1b446ee4-bc77-429e-a367-c0bf7605b3f6"))
      && !can(regex(regex("requestUrl=~\"(.*)\"", google_logging_project_exclusion.voice_ids.filter)[0], "https://api.example.com/api/v1/voices"))
    )
    error_message = "request logs with a voice_id are kept, or others are not"
  }
}

run "watching" {
  variables {
    monitoring = {
      emails                 = ["operator@example.com"]
      error_rate_objective   = 0.05
      channels               = ["projects/demo-project/notificationChannels/2"]
      wait_objective_seconds = 3
    }
  }

  assert {
    condition = alltrue([
      for policy in concat(values(google_monitoring_alert_policy.metric), values(google_monitoring_alert_policy.log)) :
      toset(policy.notification_channels) == toset(["projects/demo-project/notificationChannels/1", "projects/demo-project/notificationChannels/2"])
      && length(policy.documentation[0].content) > 200
    ])
    error_message = "an alert reaches nobody, or does not say what to do"
  }

  # As many as docs/deploy.md and tools/benchmarks/cost.py say that Google may charge for.
  assert {
    condition     = sum([for policy in google_monitoring_alert_policy.metric : length(policy.conditions)]) == 14
    error_message = "the alerts have another number of conditions on metrics"
  }

  assert {
    condition = (
      google_monitoring_alert_policy.metric["Visitors wait too long"].conditions[0].condition_threshold[0].threshold_value == 3000
      && google_monitoring_alert_policy.metric["Conversions fail"].conditions[0].condition_threshold[0].threshold_value == 0.05
      && google_monitoring_alert_policy.metric["Voices are stuck"].conditions[0].condition_threshold[0].threshold_value == 90
      && [for condition in google_monitoring_alert_policy.metric["Pushes are refused"].conditions : condition.condition_threshold[0].threshold_value] == [0.01, 10]
      && alltrue([for condition in google_monitoring_alert_policy.metric["Pushes are refused"].conditions : condition.condition_threshold[0].aggregations[0].group_by_fields == tolist(["resource.label.subscription_id"])])
      && alltrue([for condition in google_monitoring_alert_policy.metric["Dead letters"].conditions : condition.condition_threshold[0].threshold_value == 0])
    )
    error_message = "an alert has another threshold than the objectives say"
  }

  # Of 5 % that may be late, an hour of nothing but late ones burns 20 times too fast.
  assert {
    condition = (
      google_monitoring_slo.wait.goal == 0.95
      && google_monitoring_slo.wait.request_based_sli[0].distribution_cut[0].range[0].max == 3000
      && google_monitoring_slo.wait.request_based_sli[0].distribution_cut[0].distribution_filter == google_monitoring_alert_policy.metric["Visitors wait too long"].conditions[0].condition_threshold[0].filter
      && { for condition in google_monitoring_alert_policy.metric["The objective is at risk"].conditions : regex("\"([0-9]+s)\"", condition.condition_threshold[0].filter)[0] => floor(10 * condition.condition_threshold[0].threshold_value) } == { "21600s" = 56, "3600s" = 134 }
    )
    error_message = "the objective is another than the variables say, or an alert on it comes too late"
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

  assert {
    condition = (
      google_monitoring_uptime_check_config.api[0].http_check[0].path == "/api/v1/characters"
      && google_monitoring_uptime_check_config.api[0].http_check[0].use_ssl
      && google_monitoring_uptime_check_config.api[0].monitored_resource[0].labels.host == trimprefix(output.api_url, "https://")
      && strcontains(google_monitoring_alert_policy.metric["The api is down"].conditions[0].condition_threshold[0].filter, google_monitoring_uptime_check_config.api[0].uptime_check_id)
    )
    error_message = "nobody notices when the api does not answer"
  }

  assert {
    condition = (
      strcontains(google_monitoring_alert_policy.metric["The api fails"].conditions[0].condition_threshold[0].filter, "service_name = \"voice-avatar-api\"")
      && strcontains(google_monitoring_alert_policy.metric["The api fails"].conditions[0].condition_threshold[0].filter, "response_code_class = \"5xx\"")
      && strcontains(google_monitoring_alert_policy.metric["The api fails"].conditions[0].condition_threshold[0].filter, "response_code != \"504\"")
    )
    error_message = "the api's failures are not counted, or those who waited long enough are counted as failures"
  }

  assert {
    condition = alltrue([
      for policy in [google_monitoring_alert_policy.log["Instances run out of memory"], google_monitoring_alert_policy.log["A revision does not start"], google_monitoring_alert_policy.log["The program has an error"]] :
      alltrue([for name in ["api", "convert", "dead-letter", "on-upload", "sweep"] : strcontains(policy.conditions[0].condition_matched_log[0].filter, "\"voice-avatar-${name}\"")])
      && policy.alert_strategy[0].notification_rate_limit[0].period == "3600s"
    ])
    error_message = "a service may run out of memory fail to start or meet a mistake unseen, or its mails never end"
  }
}

run "a_budget" {
  variables {
    monitoring = {
      emails         = ["a@example.com", "b@example.com", "c@example.com", "d@example.com", "e@example.com", "f@example.com"]
      monthly_budget = 50
    }
  }

  assert {
    condition = (
      google_billing_budget.this[0].billing_account == "012345-6789AB-CDEF01"
      && google_billing_budget.this[0].amount[0].specified_amount[0].units == "50"
      && google_billing_budget.this[0].budget_filter[0].projects == toset(["projects/123456789012"])
      && [for rule in google_billing_budget.this[0].threshold_rules : rule.threshold_percent] == [0.5, 0.9, 1, 1]
      && length(google_billing_budget.this[0].all_updates_rule[0].monitoring_notification_channels) == 5
      && contains(keys(google_project_service.this), "billingbudgets.googleapis.com")
      && contains(keys(google_project_service.this), "cloudbilling.googleapis.com")
    )
    error_message = "the budget is of another amount, account or project, or tells more channels than it may"
  }
}

# What a plan sees before Cloud Billing's API is on, or without an account.
run "a_budget_without_a_known_account" {
  command = plan

  variables {
    monitoring = { monthly_budget = 50 }
  }

  override_data {
    target = data.google_project.this
    values = { billing_account = "", number = "123456789012" }
  }

  expect_failures = [google_billing_budget.this]
}

run "a_domain_in_a_project_without_cloud_armor" {
  variables {
    domain  = { cloud_armor = false, name = "voice.example.com" }
    live    = {}
    convert = { image = var.convert.image, max_instances = 3 }
  }

  assert {
    condition = (
      length(google_compute_security_policy.api) == 0
      && google_compute_backend_service.api[0].security_policy == null
      && google_compute_backend_service.live[0].security_policy == null
      && google_cloudfunctions2_function.this["api"].service_config[0].environment_variables["RATE_LIMIT_PER_MINUTE"] == "120"
    )
    error_message = "Cloud Armor is used although it was switched off, or nobody limits requests any more"
  }
}

run "a_page_under_the_domain" {
  variables {
    allowed_origins = ["https://www.example.com"]
    domain          = { name = "voice.example.com", page_folder = "./tests/page" }
  }

  assert {
    condition = (
      google_compute_url_map.api[0].default_service == google_compute_backend_bucket.page[0].id
      && google_compute_url_map.api[0].path_matcher[0].default_service == google_compute_backend_bucket.page[0].id
      && google_compute_url_map.api[0].path_matcher[0].path_rule[0].service == google_compute_backend_service.api[0].id
      && contains(google_compute_url_map.api[0].path_matcher[0].path_rule[0].paths, "/api/*")
      && one(google_compute_url_map.api[0].host_rule).hosts == toset(["voice.example.com"])
      && google_compute_backend_bucket.page[0].bucket_name == google_storage_bucket.page[0].name
      && google_compute_backend_bucket.page[0].enable_cdn
    )
    error_message = "page and api are not under one origin"
  }

  assert {
    condition = (
      toset(keys(google_storage_bucket_object.page)) == toset(["assets/page-1a2b3c4d.js", "index.html"])
      && google_storage_bucket_object.page["index.html"].content_type == "text/html; charset=utf-8"
      && google_storage_bucket_object.page["index.html"].cache_control == "no-cache"
      && google_storage_bucket_object.page["assets/page-1a2b3c4d.js"].content_type == "text/javascript; charset=utf-8"
      && strcontains(google_storage_bucket_object.page["assets/page-1a2b3c4d.js"].cache_control, "immutable")
      && google_storage_bucket.page[0].website[0].main_page_suffix == "index.html"
    )
    error_message = "a file of the page is missing, of another type, or cached for longer than it is valid"
  }

  assert {
    condition = (
      google_storage_bucket_object.page_configuration[0].content == output.page_configuration
      && jsondecode(google_storage_bucket_object.page_configuration[0].content).api == "https://voice.example.com"
      && output.page_url == "https://voice.example.com/"
    )
    error_message = "the page is told where the build's services were, not where this apply's are"
  }

  assert {
    condition = (
      google_storage_bucket_iam_member.page_readers[0].bucket == google_storage_bucket.page[0].name
      && google_storage_bucket_iam_member.page_readers[0].role == "roles/storage.legacyObjectReader"
      && google_storage_bucket.page[0].uniform_bucket_level_access
    )
    error_message = "the page cannot be read, or its bucket can be listed"
  }

  assert {
    condition = (
      google_compute_url_map.to_https[0].default_url_redirect[0].https_redirect
      && google_compute_global_forwarding_rule.to_https[0].port_range == "80"
      && google_compute_global_forwarding_rule.to_https[0].ip_address == google_compute_global_address.api[0].id
    )
    error_message = "a visitor who types the domain without https finds nothing"
  }

  # What the browser asks of others than its own origin still has to know the page's.
  assert {
    condition = (
      google_storage_bucket.uploads.cors[0].origin == tolist(["https://www.example.com", "https://voice.example.com"])
      && contains(google_apikeys_key.page.restrictions[0].browser_key_restrictions[0].allowed_referrers, "https://voice.example.com/*")
      && google_cloudfunctions2_function.this["api"].service_config[0].environment_variables["ALLOWED_ORIGINS"] == "https://www.example.com,https://voice.example.com"
    )
    error_message = "the hosted page may not upload"
  }
}

run "only_pages_of_the_site" {
  variables {
    app_check = { app_id = "1:123456789012:web:0123456789abcdef", firestore = true, site_key = "6LcAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA" }
  }

  assert {
    condition = (
      google_firebase_app_check_recaptcha_enterprise_config.page[0].token_ttl == "86400s"
      && google_firebase_app_check_service_config.firestore[0].service_id == "firestore.googleapis.com"
      && google_cloudfunctions2_function.this["api"].service_config[0].environment_variables["APP_CHECK_APP"] == var.app_check.app_id
      && jsondecode(output.page_configuration).firebase.appId == var.app_check.app_id
    )
    error_message = "a visit costs more than one assessment a day, or another app or Firestore needs none"
  }

  assert {
    condition = (
      google_cloudfunctions2_function.this["api"].service_config[0].environment_variables["APP_CHECK"] == "on"
      && jsondecode(output.page_configuration).appCheck == { appId = "1:123456789012:web:0123456789abcdef", siteKey = "6LcAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA" }
      && contains(keys(google_project_service.this), "firebaseappcheck.googleapis.com")
      && contains(keys(google_project_service.this), "recaptchaenterprise.googleapis.com")
      && contains([for target in google_apikeys_key.page.restrictions[0].api_targets : target.service], "firebaseappcheck.googleapis.com")
    )
    error_message = "the api does not ask for App Check, or the page cannot get its tokens"
  }
}

run "addresses_signed_with_an_hmac_key" {
  variables {
    signing = { key_rotation = 3, method = "hmac" }
  }

  assert {
    condition = (
      keys(google_storage_hmac_key.signer) == ["2", "3"]
      && local.environment_signing.SIGNING_HMAC_ACCESS_ID == google_storage_hmac_key.signer["3"].access_id
      && local.secrets_signing.SIGNING_HMAC_SECRET.version == google_secret_manager_secret_version.hmac["3"].version
    )
    error_message = "a new key ends the addresses of the one before, or does not sign"
  }

  assert {
    condition = (
      google_storage_hmac_key.signer["3"].service_account_email == google_service_account.this["signer"].email
      && google_cloudfunctions2_function.this["api"].service_config[0].environment_variables["SIGNING_HMAC_ACCESS_ID"] == google_storage_hmac_key.signer["3"].access_id
      && toset(google_cloudfunctions2_function.this["api"].service_config[0].secret_environment_variables[*].key) == toset(["LOG_KEY", "SIGNING_HMAC_SECRET"])
      && google_cloudfunctions2_function.this["on_upload"].service_config[0].secret_environment_variables[*].key == tolist(["LOG_KEY"])
      && length([for env in google_cloud_run_v2_service.convert.template[0].containers[0].env : env if env.name == "SIGNING_HMAC_SECRET" && length(env.value_source) == 1]) == 1
      && join(",", keys(google_secret_manager_secret_iam_member.reads_hmac)) == "api,convert"
    )
    error_message = "api and convert are not given the key, or others are"
  }

  assert {
    condition = (
      google_storage_bucket_iam_member.signer_creates_uploads[0].bucket == google_storage_bucket.uploads.name
      && google_storage_bucket_iam_member.signer_creates_uploads[0].role == "roles/storage.objectCreator"
      && google_storage_bucket_iam_member.signer_reads_results[0].bucket == google_storage_bucket.results.name
      && google_storage_bucket_iam_member.signer_reads_results[0].role == "roles/storage.legacyObjectReader"
    )
    error_message = "the key can do something else than what addresses are for"
  }
}

run "only_images_that_cloud_build_has_signed" {
  command = plan

  variables {
    convert = { image = var.convert.image, max_instances = 3 }
    images  = { attestation = "required" }
    live    = {}
  }

  assert {
    condition = (
      google_binary_authorization_policy.this[0].default_admission_rule[0].enforcement_mode == "ENFORCED_BLOCK_AND_AUDIT_LOG"
      && google_binary_authorization_policy.this[0].default_admission_rule[0].require_attestations_by == toset(["projects/demo-project/attestors/built-by-cloud-build"])
      && google_cloud_run_v2_service.convert.binary_authorization[0].use_default
      && google_cloud_run_v2_service.live[0].binary_authorization[0].use_default
      && contains(keys(google_project_service.this), "binaryauthorization.googleapis.com")
    )
    error_message = "an image that nobody signed can be started"
  }
}

run "images_without_a_signature_are_only_noted" {
  command = plan

  variables {
    images = { attestation = "dry-run" }
  }

  assert {
    condition     = google_binary_authorization_policy.this[0].default_admission_rule[0].enforcement_mode == "DRYRUN_AUDIT_LOG_ONLY"
    error_message = "trying the policy refuses images already"
  }
}

run "several_domains" {
  variables {
    domain = {
      additional       = ["voice.example.org", "koe.example.jp"]
      keep_run_address = false
      name             = "voice.example.com"
      page_folder      = "./tests/page"
    }
  }

  assert {
    condition = (
      { for entry in google_certificate_manager_certificate_map_entry.domain : entry.hostname => entry.certificates[0] } == { for domain, certificate in google_certificate_manager_certificate.domain : domain => certificate.id }
      && alltrue([for domain, certificate in google_certificate_manager_certificate.domain : certificate.managed[0].domains == tolist([domain])])
      && toset(keys(google_certificate_manager_certificate.domain)) == toset(["voice.example.com", "koe.example.jp", "voice.example.org"])
      && google_cloudfunctions2_function.this["api"].service_config[0].ingress_settings == "ALLOW_INTERNAL_AND_GCLB"
      && toset(flatten(google_compute_url_map.api[0].host_rule[*].hosts)) == toset(["voice.example.com", "koe.example.jp", "voice.example.org"])
      && contains(google_storage_bucket.uploads.cors[0].origin, "https://koe.example.jp")
      && output.api_url == "https://voice.example.com"
    )
    error_message = "a domain has no certificate of its own, no page, or may not upload, or the limit can be gone around"
  }
}

run "behind_a_load_balancer_of_ones_own_with_a_repository_that_exists" {
  variables {
    domain  = { name = "voice.example.com", external_load_balancer = true }
    live    = {}
    convert = { image = var.convert.image, max_instances = 3 }
    images  = { repository = "projects/images/locations/europe/repositories/shared" }
  }

  assert {
    condition = (
      output.network_endpoint_groups.api == google_compute_region_network_endpoint_group.api[0].id
      && output.network_endpoint_groups.live == google_compute_region_network_endpoint_group.live[0].id
      && length(google_compute_global_forwarding_rule.api) + length(google_certificate_manager_certificate.domain) + length(google_compute_backend_service.live) == 0
      && output.api_url == "https://voice.example.com"
    )
    error_message = "there is a second load balancer, or nothing to send requests to"
  }

  assert {
    condition = (
      length(google_artifact_registry_repository.this) == 0
      && google_cloudfunctions2_function.this["api"].build_config[0].docker_repository == var.images.repository
      && startswith(local.image_name, "europe-docker.pkg.dev/images/shared/convert:")
      && google_artifact_registry_repository_iam_member.build.project == "images"
    )
    error_message = "images go elsewhere than into the repository that exists"
  }

  assert {
    condition     = output.services.live == "voice-avatar-live" && output.service_accounts.api == google_service_account.this["api"].email && output.subscriptions.work.uploads == "voice-avatar-uploads"
    error_message = "the outputs do not name what another configuration needs"
  }
}
