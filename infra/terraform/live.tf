# The service `live`: conversions over WebSockets while visitors speak. Off unless `live` is set.
locals {
  has_live   = var.live != null
  live       = local.has_live ? 1 : 0
  has_compat = var.compat != null

  # A load balancer sends this path of the domain to it; functions/live/protocol.py names it.
  live_path = "/live"
  live_host = local.has_live ? coalesce(var.domain.name, trimprefix(google_cloud_run_v2_service.live[0].uri, "https://")) : null
  live_url  = local.has_live ? "wss://${local.live_host}${local.live_path}" : null

  # Clients of VOICEVOX know nothing but a host and these paths, so they lie beside those of the api
  # and the page's files; a test compares them with the routes and with both.
  voicevox_paths = [
    "/accent_phrases",
    "/add_preset",
    "/audio_query",
    "/audio_query_from_preset",
    "/cancellable_synthesis",
    "/connect_waves",
    "/core_versions",
    "/delete_preset",
    "/engine_manifest",
    "/frame_synthesis",
    "/import_user_dict",
    "/initialize_speaker",
    "/is_initialized_speaker",
    "/mora_data",
    "/mora_length",
    "/mora_pitch",
    "/multi_synthesis",
    "/presets",
    "/sing_frame_audio_query",
    "/sing_frame_volume",
    "/singer_info",
    "/singers",
    "/speaker_info",
    "/speakers",
    "/streaming_synthesis",
    "/supported_devices",
    "/synthesis",
    "/synthesis_morphing",
    "/update_preset",
    "/user_dict",
    "/user_dict_word",
    "/user_dict_word/*",
    "/validate_kana",
    "/version",
  ]

  # The other APIs of functions/compat, likewise.
  compat_paths = [
    "/speech",
    "/v1/audio/models",
    "/v1/audio/speech",
    "/v1/audio/voices",
    "/v1/models",
    "/v1/models/*",
    "/v1/speech-to-speech/*",
    "/v1/text-to-speech/*",
    "/v1/voice-changer/*",
    "/v1/voices",
    "/v1/voices/*",
    "/v2/voices",
  ]

  # One process, whatever the number of CPUs: a recording comes to the memory of one.
  live_concurrency     = local.conversions_per_cpu * try(tonumber(var.live.cpu), 1)
  live_conversions_mib = local.process_mib + local.conversion_mib * local.live_concurrency

  compat_url = local.has_compat ? "https://${local.live_host}" : null

  # How many visitors may hear the character for each CPU, unless `live.hearings` says how many; the
  # same as in functions/live/settings.py.
  hearings_per_cpu = 4

  # What the api tells its clients of it.
  environment_live_offer = local.has_live ? { LIVE_URL = local.live_url } : {}

  environment_live = {
    ALLOWED_ORIGINS         = join(",", local.origins)
    CONCURRENCY             = tostring(local.live_concurrency)
    HEARINGS                = tostring(coalesce(try(var.live.hearings, null), local.hearings_per_cpu * try(tonumber(var.live.cpu), 1)))
    KOKORO                  = local.kokoro
    MAX_BUNDLE_BYTES        = tostring(var.characters.max_bundle_bytes)
    MAX_SECONDS             = tostring(var.limits.recording_seconds.max)
    MAX_UPLOAD_BYTES        = tostring(var.limits.upload_bytes)
    MIN_SECONDS             = tostring(var.limits.recording_seconds.min)
    RESULTS_BUCKET          = google_storage_bucket.results.name
    RESULT_URL_SECONDS      = tostring(var.limits.result_url_seconds)
    SIGNING_SERVICE_ACCOUNT = try(google_service_account.this["live"].email, "")
    SOCKETS                 = tostring(try(var.live.sockets, 1))
    TRUSTED_PROXIES         = tostring(local.trusted_proxies)
  }
  # What only the APIs of other clients are told.
  environment_compat = merge(
    local.has_compat ? {
      OPENAI_VOICES     = join(",", [for name, character in var.compat.openai_voices : "${name}=${character}"])
      VOICEVOX_ALONE    = var.compat.voicevox_alone ? "on" : "off"
      VOICEVOX_SPEAKERS = join(",", [for number, character in var.compat.voicevox_speakers : "${number}=${character}"])
    } : {},
    try({ KEY_CHARACTERS_PER_DAY = tostring(floor(var.compat.characters_per_day)) }, {}),
    try({ KEY_SECONDS_PER_DAY = tostring(floor(var.compat.seconds_per_day)) }, {}),
  )
  compat_keys = toset(local.has_compat ? var.compat.keys : [])
  live_secrets = merge(
    local.secret_variables.compat,
    local.secret_variables["compat-keys"],
    local.secret_variables["live-tickets"],
    local.secret_variables["log-key"],
    local.secrets_origin,
    local.secrets_signing,
  )

  # A connection lasts from its opening until its answer: the recording, time to catch up, and the
  # conversion. functions/live/settings.py says how long it may take until the end.
  live_timeout = ceil(var.limits.recording_seconds.max) + 20 + local.timeouts.request
}

resource "google_secret_manager_secret_iam_member" "reads_live_tickets" {
  for_each = toset(local.has_live ? ["api", "live"] : [])

  project   = var.project_id
  secret_id = google_secret_manager_secret.this["live-tickets"].secret_id
  role      = "roles/secretmanager.secretAccessor"
  member    = google_service_account.this[each.key].member
}

resource "google_secret_manager_secret_iam_member" "reads_compat" {
  for_each = toset(concat(local.has_compat ? ["compat"] : [], length(local.compat_keys) > 0 ? ["compat-keys"] : []))

  project   = var.project_id
  secret_id = google_secret_manager_secret.this[each.key].secret_id
  role      = "roles/secretmanager.secretAccessor"
  member    = google_service_account.this["live"].member
}

moved {
  from = google_secret_manager_secret_iam_member.reads_voicevox[0]
  to   = google_secret_manager_secret_iam_member.reads_compat["compat"]
}

# It stores the recordings that come to it.
resource "google_storage_bucket_iam_member" "live_creates_uploads" {
  count = local.live

  bucket = google_storage_bucket.uploads.name
  role   = "roles/storage.objectCreator"
  member = google_service_account.this["live"].member
}

resource "google_storage_bucket_iam_member" "live_creates_results" {
  count = local.live

  bucket = google_storage_bucket.results.name
  role   = "roles/storage.objectCreator"
  member = google_service_account.this["live"].member
}

resource "google_cloud_run_v2_service" "live" {
  count = local.live

  name     = local.names.live
  project  = var.project_id
  location = var.region
  # As for convert. A service that can be replaced can be switched off in an incident, too.
  deletion_protection = false
  description         = "Converts voices while visitors speak"
  ingress             = local.is_open ? "INGRESS_TRAFFIC_ALL" : "INGRESS_TRAFFIC_INTERNAL_LOAD_BALANCER"
  # Visitors' browsers open the connections: a ticket of the api is what lets them in.
  invoker_iam_disabled = true
  labels               = var.labels

  traffic {
    percent = 100
    type    = "TRAFFIC_TARGET_ALLOCATION_TYPE_LATEST"
  }

  dynamic "binary_authorization" {
    for_each = google_binary_authorization_policy.this
    content {
      use_default = true
    }
  }

  template {
    encryption_key                   = var.storage.kms_key
    execution_environment            = "EXECUTION_ENVIRONMENT_GEN2"
    max_instance_request_concurrency = var.live.sockets
    service_account                  = google_service_account.this["live"].email
    timeout                          = "${local.live_timeout}s"

    dynamic "vpc_access" {
      for_each = var.vpc[*]
      content {
        egress = var.vpc.egress

        network_interfaces {
          network    = var.vpc.network
          subnetwork = var.vpc.subnetwork
          tags       = var.vpc.tags
        }
      }
    }

    scaling {
      max_instance_count = var.live.max_instances
    }

    containers {
      image   = local.image
      command = ["python", "-m", local.has_compat ? "functions.live_and_compat" : "functions.live"]

      # Cloud Run carries no WebSocket over HTTP/2 to the container.
      ports {
        name           = "http1"
        container_port = local.port
      }

      resources {
        cpu_idle          = true
        limits            = { cpu = var.live.cpu, memory = var.live.memory }
        startup_cpu_boost = true
      }

      # As for the conversion container: the port is open when recordings can be converted.
      startup_probe {
        failure_threshold = 1
        period_seconds    = 240
        timeout_seconds   = 240

        tcp_socket {
          port = local.port
        }
      }

      liveness_probe {
        failure_threshold = 3
        period_seconds    = 10
        timeout_seconds   = 5

        http_get {
          path = "/healthz"
          port = local.port
        }
      }

      dynamic "env" {
        for_each = merge(local.environment_common, local.environment_live, local.environment_compat, local.environment_signing, local.environment_characters, local.environment_fetching, local.environment_origin, local.environment_traces)
        content {
          name  = env.key
          value = env.value
        }
      }

      dynamic "env" {
        for_each = local.live_secrets
        content {
          name = env.key

          value_source {
            secret_key_ref {
              secret  = env.value.secret
              version = env.value.version
            }
          }
        }
      }
    }
  }

  lifecycle {
    precondition {
      condition     = local.live_memory_mib >= local.memory_mib_of_cpus[var.live.cpu].least && local.live_memory_mib <= local.memory_mib_of_cpus[var.live.cpu].most
      error_message = "Cloud Run does not give ${var.live.memory} to ${var.live.cpu} CPUs: set live.memory to ${local.memory_mib_of_cpus[var.live.cpu].least}Mi to ${local.memory_mib_of_cpus[var.live.cpu].most}Mi, or change live.cpu."
    }

    precondition {
      condition     = local.live_memory_mib >= local.live_conversions_mib
      error_message = "${local.live_concurrency} conversions at once in an instance of live may need ${local.live_conversions_mib} MiB, ${local.conversion_mib} MiB each with this limits.upload_bytes, limits.recording_seconds.max and characters, and live.memory is ${var.live.memory}: raise live.memory, or lower live.cpu, the sizes in characters or what a recording may be${var.convert.kokoro ? ", or set convert.kokoro to false, which takes 404 MiB less" : ""}."
    }
  }

  depends_on = [
    google_secret_manager_secret_iam_member.reads_hmac,
    google_secret_manager_secret_iam_member.reads_live_tickets,
    google_secret_manager_secret_iam_member.reads_c2pa,
    google_secret_manager_secret_iam_member.reads_log_key,
    google_secret_manager_secret_iam_member.reads_compat,
    google_secret_manager_secret_iam_member.reads_watermark,
    time_sleep.accounts,
    time_sleep.key_users,
  ]
}

resource "google_compute_region_network_endpoint_group" "live" {
  count = local.live * local.domain

  name                  = local.names.live
  project               = var.project_id
  region                = var.region
  network_endpoint_type = "SERVERLESS"

  # Its name only: if this waited for the service, the service would also go after the URL map's change,
  # and a failed one could not be replaced, because Terraform would create the new one first.
  cloud_run {
    service = local.names.live
  }

  depends_on = [time_sleep.apis]
}

resource "google_compute_backend_service" "live" {
  count = local.live * local.load_balancer

  name                  = local.names.live
  project               = var.project_id
  load_balancing_scheme = "EXTERNAL_MANAGED"
  security_policy       = one(google_compute_security_policy.api[*].id)

  backend {
    group = google_compute_region_network_endpoint_group.live[0].id
  }

  log_config {
    enable      = true
    sample_rate = 0.1
  }

  # Google refuses to delete what the URL map still names: it goes after the map's change.
  lifecycle {
    create_before_destroy = true
  }
}
