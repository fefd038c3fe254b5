locals {
  # The chain of timeouts, derived here and in shared/runtime/settings.py from the same number:
  # conversion deadline < request timeout <= acknowledgement deadline.
  timeouts = {
    conversion_deadline = var.convert.deadline_seconds
    request             = var.convert.deadline_seconds + 25
    acknowledgement     = var.convert.deadline_seconds + 30
  }

  # A waiting client is answered before its request is cut off.
  api_timeout = var.api.wait_seconds + 15

  # A message that is refused again and again reaches dead_letter before it counts as lost:
  # redeliveries come at most `maximum_backoff` apart, the first ones closer.
  patience = max(300, 10 * (var.dead_letter.delivery_attempts - 3))

  # Whether api and live answer at their run.app addresses.
  is_open = var.domain.name == null || var.domain.keep_run_address

  # Who writes into X-Forwarded-For, after what the visitor has sent: Cloud Run the visitor's address, or
  # a load balancer that address and its own. At a run.app address it is one in any case
  # (shared/runtime/limits.py).
  trusted_proxies = var.domain.name == null ? 1 : 2

  # One conversion computes while another waits; shared/container/process_plan.py says the same. The
  # least memory that Cloud Run gives so many CPUs is enough for all of them.
  conversions_per_cpu = 2
  convert_concurrency = coalesce(var.convert.concurrency, local.conversions_per_cpu * tonumber(var.convert.cpu))

  # The origins of the pages: those of the variable, and those of the page that the module hosts.
  origins = distinct(concat(var.allowed_origins, var.domain.page_folder == null ? [] : [for domain in local.domains : "https://${domain}"]))

  python_version = "3.11"
  source_root    = "${path.module}/../.."

  # What the four functions and the container are told. A test compares the names with the
  # settings that the code reads. PUSH_VERIFICATION is "platform" because only IAM's invokers reach
  # these services: Cloud Run checks a token's signature and hands it on without it.
  environment_common = {
    CONVERSION_DEADLINE_SECONDS = tostring(local.timeouts.conversion_deadline)
    ENVIRONMENT                 = "production"
    FIRESTORE_DATABASE          = google_firestore_database.this.name
    LOG_LEVEL                   = var.monitoring.log_level
    PROJECT_ID                  = var.project_id
    UPLOADS_BUCKET              = google_storage_bucket.uploads.name
    UPLOAD_SHARDS               = tostring(var.storage.shards)
  }
  environment_api = {
    ALLOWED_ORIGINS         = join(",", local.origins)
    APP_CHECK               = var.app_check == null ? "off" : "on"
    CONVERSIONS_TOPIC       = google_pubsub_topic.work["conversions"].name
    CONVERT_URL             = google_cloud_run_v2_service.convert.uri
    FIREBASE_AUTH           = var.firebase_authentication == null ? "off" : "on"
    KOKORO                  = local.kokoro
    MAX_SECONDS             = tostring(var.limits.recording_seconds.max)
    MAX_TEXT_CHARACTERS     = tostring(var.limits.text_characters)
    MAX_UPLOAD_BYTES        = tostring(var.limits.upload_bytes)
    MIN_SECONDS             = tostring(var.limits.recording_seconds.min)
    RATE_LIMIT_PER_MINUTE   = tostring(var.api.rate_limit_per_minute)
    RESULTS_BUCKET          = google_storage_bucket.results.name
    SIGNING_SERVICE_ACCOUNT = google_service_account.this["api"].email
    TRUSTED_PROXIES         = tostring(local.trusted_proxies)
    UPLOAD_URL_SECONDS      = tostring(var.limits.upload_url_seconds)
    WAITING_PER_CLIENT      = tostring(var.api.waiting_per_client)
    WAIT_SECONDS            = tostring(var.api.wait_seconds)
    WARM_UPS_AT_ONCE        = tostring(var.api.warm_ups_at_once)
  }
  environment_app_check = var.app_check == null ? {} : { APP_CHECK_APP = var.app_check.app_id }
  environment_convert = {
    BACKLOG                 = tostring(local.convert_concurrency)
    CONCURRENCY             = tostring(local.convert_concurrency)
    KOKORO                  = local.kokoro
    MAX_BUNDLE_BYTES        = tostring(var.characters.max_bundle_bytes)
    MAX_SECONDS             = tostring(var.limits.recording_seconds.max)
    MAX_UPLOAD_BYTES        = tostring(var.limits.upload_bytes)
    MIN_SECONDS             = tostring(var.limits.recording_seconds.min)
    PROVIDER                = local.provider
    PUSH_AUDIENCE           = local.audiences.convert
    PUSH_SERVICE_ACCOUNT    = google_service_account.this["push"].email
    PUSH_VERIFICATION       = "platform"
    RESULTS_BUCKET          = google_storage_bucket.results.name
    RESULT_URL_SECONDS      = tostring(var.limits.result_url_seconds)
    SIGNING_SERVICE_ACCOUNT = google_service_account.this["convert"].email
  }
  environment_dead_letter = {
    CONVERSIONS_TOPIC    = google_pubsub_topic.work["conversions"].name
    PUSH_AUDIENCE        = local.audiences.dead_letter
    PUSH_SERVICE_ACCOUNT = google_service_account.this["push"].email
    PUSH_VERIFICATION    = "platform"
    RESULTS_BUCKET       = google_storage_bucket.results.name
  }
  environment_on_upload = {
    CONVERSIONS_TOPIC    = google_pubsub_topic.work["conversions"].name
    PUSH_AUDIENCE        = local.audiences.on_upload
    PUSH_SERVICE_ACCOUNT = google_service_account.this["push"].email
    PUSH_VERIFICATION    = "platform"
  }
  environment_sweep = {
    CONVERSIONS_TOPIC    = google_pubsub_topic.work["conversions"].name
    PATIENCE_SECONDS     = tostring(local.patience)
    PUSH_AUDIENCE        = local.audiences.sweep
    PUSH_SERVICE_ACCOUNT = google_service_account.this["sweep_timer"].email
    PUSH_VERIFICATION    = "platform"
    UPLOAD_URL_SECONDS   = tostring(var.limits.upload_url_seconds)
  }

  # A receiver is told its audience before it has an address, so the audience is made of what is
  # known beforehand: the functions' well-known address, and a custom audience of the container.
  audiences = {
    convert     = "https://${local.names.convert}-${data.google_project.this.number}.${var.region}.run.app"
    dead_letter = "https://${var.region}-${var.project_id}.cloudfunctions.net/${local.names.dead_letter}"
    on_upload   = "https://${var.region}-${var.project_id}.cloudfunctions.net/${local.names.on_upload}"
    sweep       = "https://${var.region}-${var.project_id}.cloudfunctions.net/${local.names.sweep}"
  }

  names = {
    api         = "${var.name}-api"
    convert     = "${var.name}-convert"
    dead_letter = "${var.name}-dead-letter"
    live        = "${var.name}-live"
    on_upload   = "${var.name}-on-upload"
    sweep       = "${var.name}-sweep"
    train       = "${var.name}-train"
  }
}
