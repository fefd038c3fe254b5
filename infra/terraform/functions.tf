locals {
  # The source that the functions and the container share, at its paths in the repository.
  shared_patterns = [
    "functions/__init__.py",
    "shared/*.py",
    "shared/characters/__init__.py",
    "shared/characters/bucket.py",
    "shared/characters/consent.py",
    "shared/characters/manifest.py",
    "shared/characters/manifest_fields.py",
    "shared/characters/manifest_schema.py",
    "shared/characters/own/**/*.py",
    "shared/google/**/*.py",
    "shared/runtime/**/*.py",
    "shared/speech/__init__.py",
    "shared/speech/text/__init__.py",
    "shared/speech/text/function_words.tsv",
    "shared/speech/text/languages.py",
    "shared/speech/text/normalisation.py",
    "shared/speech/text/read_kanji.txt",
    "shared/voices/**/*.py",
  ]

  # What a function's archive holds besides. A test imports each function from exactly these files.
  archive_patterns = {
    api         = ["characters/*/character.json", "characters/*/portrait.svg", "functions/api/**/*.py"]
    dead_letter = ["functions/dead_letter/**/*.py"]
    on_upload   = ["functions/on_upload/**/*.py"]
    sweep       = ["functions/sweep/**/*.py"]
  }
  archive_files = {
    for name, own in local.archive_patterns : name => {
      for path in setunion([for pattern in concat(local.shared_patterns, own) : fileset(local.source_root, pattern)]...) :
      path => file("${local.source_root}/${path}")
    }
  }

  # Imports leave hardly any garbage: without the collector a start takes a tenth less. The code turns
  # it on (shared/runtime/function.py).
  archive_mains = {
    for name in keys(local.archive_patterns) :
    name => "import gc\n\ngc.disable()\nfrom functions.${name}.main import ${name} as ${name}  # noqa: E402\n"
  }

  # Known in the plan, while the archive itself is not made yet.
  archive_hashes = {
    for name, files in local.archive_files : name => sha256(jsonencode([
      files,
      local.archive_mains[name],
      file("${local.source_root}/functions/${name}/requirements.txt"),
    ]))
  }

  # Cloud Functions sets LOG_EXECUTION_ID to true by default. The framework then writes an empty line
  # after each log entry. Pydantic looks for plugins in every installed package, and there are none.
  environment_functions = {
    FUNCTION_USE_ASGI        = "true"
    LOG_EXECUTION_ID         = "false"
    PYDANTIC_DISABLE_PLUGINS = "__all__"
  }

  functions = {
    api = {
      concurrency   = var.api.concurrency
      description   = "HTTP API: voices, upload addresses, results"
      environment   = merge(local.environment_common, local.environment_api, local.environment_characters, local.environment_own_characters_api, local.environment_traces)
      ingress       = local.is_open ? "ALLOW_ALL" : "ALLOW_INTERNAL_AND_GCLB"
      max_instances = var.api.max_instances
      memory        = "512Mi"
      min_instances = var.api.min_instances
      timeout       = local.api_timeout
    }
    dead_letter = {
      concurrency   = 20
      description   = "Gives up on a voice, visibly"
      environment   = merge(local.environment_common, local.environment_dead_letter)
      ingress       = "ALLOW_INTERNAL_ONLY"
      max_instances = var.dead_letter.max_instances
      memory        = "512Mi"
      min_instances = 0
      timeout       = local.timeouts.request
    }
    on_upload = {
      concurrency   = 40
      description   = "Turns a finished upload into a conversion message"
      environment   = merge(local.environment_common, local.environment_on_upload, local.environment_traces)
      ingress       = "ALLOW_INTERNAL_ONLY"
      max_instances = var.on_upload.max_instances
      memory        = "512Mi"
      min_instances = var.on_upload.min_instances
      timeout       = local.timeouts.request
    }
    # One at a time: a second sweep would find the same voices and publish the same messages.
    sweep = {
      concurrency   = 1
      description   = "Puts voices back whose event or message was lost"
      environment   = merge(local.environment_common, local.environment_sweep, local.environment_own_characters_sweep)
      ingress       = "ALLOW_INTERNAL_ONLY"
      max_instances = 1
      memory        = "512Mi"
      min_instances = 0
      timeout       = 120
    }
  }
}

# A resource and not a data source: the apply makes it, so that a plan that was saved on one machine can
# be applied on another.
resource "archive_file" "function" {
  for_each = local.archive_files

  type        = "zip"
  output_path = "${path.root}/.build/${each.key}.zip"

  dynamic "source" {
    for_each = each.value
    content {
      filename = source.key
      content  = source.value
    }
  }

  source {
    filename = "main.py"
    content  = local.archive_mains[each.key]
  }

  source {
    filename = "requirements.txt"
    content  = file("${local.source_root}/functions/${each.key}/requirements.txt")
  }
}

# Named by its content: a changed source is a new object, and a new object is a new deployment.
resource "google_storage_bucket_object" "function" {
  for_each = local.archive_files

  name   = "functions/${each.key}-${local.archive_hashes[each.key]}.zip"
  bucket = google_storage_bucket.sources.name
  source = archive_file.function[each.key].output_path

  # Another checkout has no archive yet that the provider could compare with the object.
  lifecycle {
    ignore_changes = [detect_md5hash]
  }
}

resource "google_cloudfunctions2_function" "this" {
  # checkov:skip=CKV_GCP_124:on_upload, dead_letter and sweep are internal; api is what the visitors call
  for_each = local.functions

  name         = local.names[each.key]
  project      = var.project_id
  location     = var.region
  description  = each.value.description
  kms_key_name = var.storage.kms_key
  labels       = var.labels

  build_config {
    docker_repository = local.repository.id
    entry_point       = each.key
    runtime           = "python${replace(local.python_version, ".", "")}"
    service_account   = google_service_account.this["build"].id

    source {
      storage_source {
        bucket = google_storage_bucket.sources.name
        object = google_storage_bucket_object.function[each.key].name
      }
    }
  }

  service_config {
    all_traffic_on_latest_revision   = true
    available_cpu                    = "1"
    available_memory                 = each.value.memory
    environment_variables            = merge(each.value.environment, local.environment_functions, each.key == "api" ? merge(local.environment_app_check, local.environment_signing, local.environment_live_offer, local.environment_default_character) : {})
    ingress_settings                 = each.value.ingress
    max_instance_count               = each.value.max_instances
    max_instance_request_concurrency = each.value.concurrency
    min_instance_count               = each.value.min_instances
    service_account_email            = google_service_account.this[each.key].email
    timeout_seconds                  = each.value.timeout

    dynamic "secret_environment_variables" {
      for_each = merge(local.secret_variables["log-key"], each.key == "api" ? merge(local.secret_variables["live-tickets"], local.secrets_signing) : {})
      content {
        key        = secret_environment_variables.key
        project_id = var.project_id
        secret     = secret_environment_variables.value.secret
        version    = secret_environment_variables.value.version
      }
    }
  }

  depends_on = [
    google_secret_manager_secret_iam_member.reads_hmac,
    google_secret_manager_secret_iam_member.reads_live_tickets,
    google_secret_manager_secret_iam_member.reads_log_key,
    time_sleep.accounts,
    time_sleep.key_users,
  ]
}

resource "google_cloud_scheduler_job" "sweep" {
  name             = local.names.sweep
  project          = var.project_id
  region           = var.region
  description      = "Starts a sweep"
  schedule         = "*/5 * * * *"
  time_zone        = "Etc/UTC"
  attempt_deadline = "${local.functions.sweep.timeout + 60}s"

  http_target {
    http_method = "POST"
    uri         = "${google_cloudfunctions2_function.this["sweep"].service_config[0].uri}/"

    oidc_token {
      audience              = local.audiences.sweep
      service_account_email = google_service_account.this["sweep_timer"].email
    }
  }

  # Not more often: the next sweep looks at everything again.
  retry_config {
    retry_count = 1
  }

  depends_on = [
    google_cloud_run_v2_service_iam_member.sweep_timer,
    google_firestore_index.sweep,
  ]
}
