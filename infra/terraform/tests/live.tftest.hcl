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
  convert = {
    image         = "europe-west1-docker.pkg.dev/demo-project/voice-avatar/convert@sha256:0000000000000000000000000000000000000000000000000000000000000000"
    max_instances = 3
  }
  project_id = "demo-project"
  region     = "europe-west1"
}

run "off_by_default" {
  assert {
    condition = (
      length(google_cloud_run_v2_service.live) == 0
      && !contains(keys(google_secret_manager_secret.this), "live-tickets")
      && !contains(keys(google_monitoring_alert_policy.metric), "Live conversions are put off")
      && !contains(keys(google_service_account.this), "live")
      && !contains(keys(google_cloudfunctions2_function.this["api"].service_config[0].environment_variables), "LIVE_URL")
      && jsondecode(output.page_configuration).live == null
    )
    error_message = "something of live is there although nobody asked for it"
  }
}

run "on" {
  variables {
    live = { sockets = 30, max_instances = 3 }
  }

  assert {
    condition = (
      google_cloud_run_v2_service.live[0].template[0].containers[0].ports[0].name == "http1"
      && google_cloud_run_v2_service.live[0].template[0].containers[0].command == tolist(["python", "-m", "functions.live"])
      && google_cloud_run_v2_service.live[0].template[0].containers[0].image == google_cloud_run_v2_service.convert.template[0].containers[0].image
    )
    error_message = "live is not the image of convert with another entry, over HTTP/1.1"
  }

  assert {
    condition = (
      google_cloud_run_v2_service.live[0].invoker_iam_disabled
      && google_cloud_run_v2_service.live[0].ingress == "INGRESS_TRAFFIC_ALL"
      && google_cloud_run_v2_service.live[0].template[0].service_account == google_service_account.this["live"].email
    )
    error_message = "browsers cannot reach live, or it runs as somebody else"
  }

  # The runbook switches it off in an incident, and a protected service would refuse that.
  assert {
    condition     = !google_cloud_run_v2_service.live[0].deletion_protection
    error_message = "live cannot be switched off"
  }

  assert {
    condition = (
      google_cloud_run_v2_service.live[0].template[0].max_instance_request_concurrency == 30
      && google_cloud_run_v2_service.live[0].template[0].scaling[0].max_instance_count == 3
      && google_cloud_run_v2_service.live[0].template[0].timeout == "115s"
      && one([for env in google_cloud_run_v2_service.live[0].template[0].containers[0].env : env.value if env.name == "SOCKETS"]) == "30"
      && one([for env in google_cloud_run_v2_service.live[0].template[0].containers[0].env : env.value if env.name == "HEARINGS"]) == "8"
    )
    error_message = "the limits of live are not those of the variables"
  }

  assert {
    condition = alltrue([
      for name in ["LIVE_TICKET_KEYS", "LOG_KEY"] :
      length([for env in google_cloud_run_v2_service.live[0].template[0].containers[0].env : env if env.name == name && length(env.value_source) == 1]) == 1
    ])
    error_message = "a secret of live does not come from Secret Manager"
  }

  assert {
    condition = (
      startswith(google_cloudfunctions2_function.this["api"].service_config[0].environment_variables["LIVE_URL"], "wss://")
      && endswith(google_cloudfunctions2_function.this["api"].service_config[0].environment_variables["LIVE_URL"], "/live")
      && length([for secret in google_cloudfunctions2_function.this["api"].service_config[0].secret_environment_variables : secret if secret.key == "LIVE_TICKET_KEYS"]) == 1
    )
    error_message = "the api does not offer live"
  }

  assert {
    condition = (
      google_storage_bucket_iam_member.live_creates_uploads[0].bucket == google_storage_bucket.uploads.name
      && contains(keys(google_storage_bucket_iam_member.reads_uploads), "live")
      && contains(keys(google_project_iam_member.firestore), "live")
      && contains(keys(google_service_account_iam_member.signs_for_itself), "live")
      && contains(keys(google_storage_bucket_iam_member.eraser), "live_results")
    )
    error_message = "live lacks a right that it needs"
  }
}

run "behind_the_load_balancer" {
  variables {
    domain = { keep_run_address = false, name = "voice.example.com" }
    live   = {}
  }

  assert {
    condition = (
      google_cloud_run_v2_service.live[0].ingress == "INGRESS_TRAFFIC_INTERNAL_LOAD_BALANCER"
      && google_cloudfunctions2_function.this["api"].service_config[0].environment_variables["LIVE_URL"] == "wss://voice.example.com/live"
      && jsondecode(output.page_configuration).live == "wss://voice.example.com/live"
    )
    error_message = "live is not reached through the domain, or can be reached past the load balancer"
  }

  assert {
    condition = anytrue([
      for rule in google_compute_url_map.api[0].path_matcher[0].path_rule :
      rule.service == google_compute_backend_service.live[0].id && rule.paths == toset(["/live"])
    ])
    error_message = "the domain's path /live does not lead to live"
  }

  assert {
    condition     = google_compute_url_map.api[0].path_matcher[0].default_service == google_compute_backend_service.api[0].id
    error_message = "without a page the other paths do not lead to the api"
  }
}

run "nobody_hears_themselves" {
  variables {
    live = { hearings = 0 }
  }

  assert {
    condition     = one([for env in google_cloud_run_v2_service.live[0].template[0].containers[0].env : env.value if env.name == "HEARINGS"]) == "0"
    error_message = "HEARINGS is not what live.hearings says"
  }
}

run "a_new_key_keeps_the_old_one" {
  variables {
    live = { key_rotation = 4 }
  }

  assert {
    condition = (
      local.keys["live-tickets"] == ["live-tickets-5", "live-tickets-4"]
      && { for name, key in local.secret_variables["live-tickets"] : name => key.version } == {
        LIVE_TICKET_KEYS   = google_secret_manager_secret_version.key["live-tickets-5"].version
        LIVE_TICKET_KEYS_1 = google_secret_manager_secret_version.key["live-tickets-4"].version
      }
    )
    error_message = "not the key of this rotation and the one before"
  }
}

run "with_the_apis_of_other_clients" {
  variables {
    domain     = { name = "voice.example.com" }
    characters = { default = "ned", max_bundle_bytes = 2147483648 }
    live       = { max_instances = 1 }
    compat = {
      characters_per_day = 20000
      keys               = ["bot", "home"]
      openai_voices      = { alloy = "mei" }
      voicevox_alone     = true
      voicevox_speakers  = { "1" = "mei", "3" = "ned" }
    }
  }

  assert {
    condition = { for env in google_cloud_run_v2_service.live[0].template[0].containers[0].env : env.name => env.value
      if contains(["KEY_CHARACTERS_PER_DAY", "KEY_SECONDS_PER_DAY", "OPENAI_VOICES", "VOICEVOX_ALONE", "VOICEVOX_SPEAKERS"], env.name) } == {
      KEY_CHARACTERS_PER_DAY = "20000"
      OPENAI_VOICES          = "alloy=mei"
      VOICEVOX_ALONE         = "on"
      VOICEVOX_SPEAKERS      = "1=mei,3=ned"
    }
    error_message = "the APIs of other clients are not told who speaks for which number or name, or what a key may have"
  }

  assert {
    condition     = google_cloudfunctions2_function.this["api"].service_config[0].environment_variables["DEFAULT_CHARACTER"] == "ned"
    error_message = "the api is not told who speaks for visitors who name nobody"
  }

  assert {
    condition = length([
      for rule in google_compute_url_map.api[0].path_matcher[0].path_rule : rule
      if rule.service == google_compute_backend_service.live[0].id
      && length(setintersection(rule.paths, ["/live", "/audio_query", "/synthesis", "/user_dict_word/*", "/v1/audio/speech", "/speech"])) == 6
    ]) == 1
    error_message = "the domain's paths of VOICEVOX do not lead to live"
  }

  assert {
    condition     = output.compat_url == "https://voice.example.com"
    error_message = "other clients are not told the domain"
  }

  assert {
    condition = alltrue([
      for service in [google_cloud_run_v2_service.convert, google_cloud_run_v2_service.live[0]] :
      one([for env in service.template[0].containers[0].env : env.value if env.name == "MAX_BUNDLE_BYTES"]) == "2147483648"
    ])
    error_message = "not every service that loads characters is told how large they may be"
  }

  assert {
    condition = (
      google_cloud_run_v2_service.live[0].template[0].containers[0].command == tolist(["python", "-m", "functions.live_and_compat"])
      && length([for env in google_cloud_run_v2_service.live[0].template[0].containers[0].env : env if contains(["VOICEVOX_KEY", "API_KEYS"], env.name) && length(env.value_source) == 1]) == 2
    )
    error_message = "the routes are off, or their keys do not come from Secret Manager"
  }

  assert {
    condition = (
      can(regex(regex("requestUrl=~\"(.*)\"", google_logging_project_exclusion.texts[0].filter)[0], "https://live.example.com/audio_query?speaker=0&text=secret"))
      && !can(regex(regex("requestUrl=~\"(.*)\"", google_logging_project_exclusion.texts[0].filter)[0], "https://live.example.com/live"))
      && strcontains(google_logging_project_exclusion.texts[0].filter, "service_name=\"${google_cloud_run_v2_service.live[0].name}\"")
      && strcontains(google_logging_project_exclusion.texts[0].filter, "url_map_name=\"${google_compute_url_map.api[0].name}\"")
    )
    error_message = "the project's log keeps addresses that contain texts, or loses connections"
  }
}

run "characters_that_do_not_fit_into_its_memory" {
  command = plan

  variables {
    characters = { bucket = {} }
    convert    = { image = var.convert.image, max_instances = 3, memory = "6Gi" }
    live       = { memory = "5296Mi" }
  }

  expect_failures = [google_cloud_run_v2_service.live]
}

run "characters_that_fit" {
  command = plan

  variables {
    characters = { bucket = {} }
    convert    = { image = var.convert.image, max_instances = 3, memory = "6Gi" }
    live       = { memory = "5297Mi" }
  }

  assert {
    condition     = google_cloud_run_v2_service.live[0].template[0].containers[0].resources[0].limits["memory"] == "5297Mi"
    error_message = "live does not get its memory"
  }
}

run "eight_cpus_without_their_memory" {
  command = plan

  variables {
    live  = { cpu = "8", max_instances = 1, memory = "4095Mi" }
    quota = { cpus = 40, memory_gib = 40 }
  }

  expect_failures = [google_cloud_run_v2_service.live]
}
