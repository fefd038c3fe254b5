locals {
  # Everything the image is made of beside shared_patterns; its content decides whether there is a new image.
  image_patterns = [
    ".dockerignore",
    ".gcloudignore",
    "characters/**",
    "functions/compat/**",
    "functions/convert/**",
    "functions/live/**",
    "functions/live_and_compat/**",
    "shared/characters/bundle_files.py",
    "shared/container/**/*.py",
    "shared/conversion/**/*.py",
    "shared/speech/**",
  ]
  image_files = [
    for path in sort(setunion([for pattern in concat(local.shared_patterns, local.image_patterns) : fileset(local.source_root, pattern)]...)) :
    path if !strcontains(path, "__pycache__/")
  ]
  image_tag = "${substr(sha256(join("\n", [
    for path in local.image_files : "${filesha256("${local.source_root}/${path}")} ${path}"
  ])), 0, 32)}${var.convert.gpu == null ? "" : "-${local.provider}"}${var.convert.kokoro ? "" : "-without-kokoro"}"
  image_name = "${local.repository_host}/convert:${local.image_tag}"
  image      = var.convert.image == null ? one(data.google_artifact_registry_docker_image.convert[*].self_link) : var.convert.image

  port = 8080

  # What api, converter and live are told, and how the image is built.
  kokoro = var.convert.kokoro ? "on" : "off"

  # Where the characters' networks run, and which variant of the image that needs.
  provider = var.convert.gpu == null ? "cpu" : "cuda"

  # One warm instance costs little without a GPU; with one, the operator says the number.
  min_instances = coalesce(var.convert.min_instances, var.convert.gpu == null ? 1 : 0)

  # What Cloud Run gives to so many CPUs, in a second generation instance.
  memory_mib_of_cpus = {
    "1" = { least = 512, most = 4096 }
    "2" = { least = 512, most = 8192 }
    "4" = { least = 2048, most = 16384 }
    "8" = { least = 4096, most = 32768 }
  }
  # The CPUs and the memory of all services at their maximum number of instances. An instance of a
  # function has one CPU and 512 MiB; the sweep has one instance; a training has 2 CPUs and 4 GiB. Cloud Run checks one service against
  # the quota when the service is deployed, and all services together when it starts an instance.
  function_instances = var.api.max_instances + var.dead_letter.max_instances + var.on_upload.max_instances + 1
  live_instances     = try(var.live.max_instances, 0)
  trainings          = try(var.characters.own.at_once, 0)
  live_memory_mib    = try(tonumber(regex("^[0-9]+", var.live.memory)) * (endswith(var.live.memory, "Gi") ? 1024 : 1), 0)
  most_cpus          = var.convert.max_instances * tonumber(var.convert.cpu) + 2 * local.trainings + local.live_instances * try(tonumber(var.live.cpu), 0) + local.function_instances
  most_memory_mib    = var.convert.max_instances * local.convert_memory_mib + 4096 * local.trainings + local.live_instances * local.live_memory_mib + local.function_instances * 512
  # The processes, with several of them one more that replaces another, and their conversions at
  # once, each with the most that decoding any recording may take; shared/container/process_plan.py and shared/speech/decoding/recording.py calculate the same.
  conversion_mib     = max(75, local.fetched_conversion_mib, ceil((33554432 + 3 * var.limits.upload_bytes + 1536000 * (var.limits.recording_seconds.max + 0.5)) / 1048576))
  process_mib        = 285 + (var.convert.kokoro ? 404 : 0) + local.fetched_mib
  conversions_mib    = local.process_mib * (ceil(tonumber(var.convert.cpu) / 4) + (tonumber(var.convert.cpu) > 4 ? 1 : 0)) + local.conversion_mib * local.convert_concurrency
  convert_memory_mib = tonumber(regex("^[0-9]+", var.convert.memory)) * (endswith(var.convert.memory, "Gi") ? 1024 : 1)
}

# The repository of the images: one of the module's own, or one that exists.
locals {
  repository_parts = var.images.repository == null ? [] : split("/", var.images.repository)
  repository = var.images.repository == null ? {
    id       = google_artifact_registry_repository.this[0].id
    location = var.region
    name     = google_artifact_registry_repository.this[0].repository_id
    project  = var.project_id
    } : {
    id       = var.images.repository
    location = local.repository_parts[3]
    name     = local.repository_parts[5]
    project  = local.repository_parts[1]
  }
  repository_host = "${local.repository.location}-docker.pkg.dev/${local.repository.project}/${local.repository.name}"
}

resource "google_artifact_registry_repository" "this" {
  count = var.images.repository == null ? 1 : 0

  repository_id = var.name
  project       = var.project_id
  location      = var.region
  description   = "Images of the conversion container and of the functions"
  format        = "DOCKER"
  kms_key_name  = var.storage.kms_key
  labels        = var.labels

  cleanup_policies {
    id     = "delete-old"
    action = "DELETE"
    condition {
      older_than = "2592000s"
    }
  }

  cleanup_policies {
    id     = "keep-recent"
    action = "KEEP"
    most_recent_versions {
      keep_count = 5
    }
  }

  depends_on = [time_sleep.apis, time_sleep.key_users]
}

# The provider has no resource that runs a build, and an operator who can apply has gcloud, which
# uploads what .gcloudignore lets through, waits for the build, and fails when it fails.
resource "terraform_data" "image" {
  count = var.convert.image == null ? 1 : 0

  triggers_replace = concat([local.image_name], local.attested)

  provisioner "local-exec" {
    working_dir = local.source_root
    command     = "sh infra/terraform/build-image.sh"
    environment = {
      IMAGE           = local.image_name
      KOKORO          = local.kokoro
      PROJECT_ID      = var.project_id
      PROVIDER        = local.provider
      REGION          = coalesce(var.images.build_region, var.region)
      SERVICE_ACCOUNT = google_service_account.this["build"].id
      STAGING         = "gs://${google_storage_bucket.sources.name}/staged"
    }
  }

  depends_on = [time_sleep.accounts]
}

# Turns the tag into the digest of what was built.
data "google_artifact_registry_docker_image" "convert" {
  count = var.convert.image == null ? 1 : 0

  project       = local.repository.project
  location      = local.repository.location
  repository_id = local.repository.name
  image_name    = "convert:${local.image_tag}"

  depends_on = [terraform_data.image]
}

resource "google_cloud_run_v2_service" "convert" {
  name             = local.names.convert
  project          = var.project_id
  location         = var.region
  custom_audiences = [local.audiences.convert]
  # It holds no data, and a protected service that failed to start could not be replaced.
  deletion_protection = false
  description         = "Converts voices"
  # The api warms it up from outside any network of the project, so IAM alone keeps the door.
  ingress              = "INGRESS_TRAFFIC_ALL"
  invoker_iam_disabled = false
  labels               = var.labels

  # At the service, not at the revision: a new revision then replaces warm instances one by one,
  # and the busy hours can raise it without one.
  scaling {
    min_instance_count = local.min_instances
  }

  # Said outright, so that an apply undoes a rollback that was made by hand.
  traffic {
    percent = var.canary == null ? 100 : var.canary.percent
    type    = "TRAFFIC_TARGET_ALLOCATION_TYPE_LATEST"
  }

  dynamic "traffic" {
    for_each = var.canary[*]
    content {
      percent  = 100 - traffic.value.percent
      revision = traffic.value.stable_revision
      type     = "TRAFFIC_TARGET_ALLOCATION_TYPE_REVISION"
    }
  }

  dynamic "binary_authorization" {
    for_each = google_binary_authorization_policy.this
    content {
      use_default = true
    }
  }

  template {
    encryption_key        = var.storage.kms_key
    execution_environment = "EXECUTION_ENVIRONMENT_GEN2"
    # Two places for each conversion: a message waits for its turn in the instance, whose queue is
    # fair, and is not refused, which would slow down the delivery of everybody's (push backoff).
    # Cloud Run starts the next instance when 60 % of the places or of the CPUs are in use.
    max_instance_request_concurrency = 2 * local.convert_concurrency
    service_account                  = google_service_account.this["convert"].email
    timeout                          = "${local.timeouts.request}s"
    # Messages wait and come again, so that a GPU need not be kept free in a second zone.
    gpu_zonal_redundancy_disabled = var.convert.gpu == null ? null : true

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

    dynamic "node_selector" {
      for_each = var.convert.gpu[*]
      content {
        accelerator = node_selector.value
      }
    }

    scaling {
      max_instance_count = var.convert.max_instances
    }

    containers {
      image = local.image

      ports {
        name           = "h2c"
        container_port = local.port
      }

      resources {
        # With a GPU, Cloud Run bills an instance for as long as it lives and gives it a CPU all the time.
        cpu_idle          = var.convert.gpu == null
        limits            = merge({ cpu = var.convert.cpu, memory = var.convert.memory }, var.convert.gpu == null ? {} : { "nvidia.com/gpu" = "1" })
        startup_cpu_boost = true
      }

      # What Cloud Run does unasked: one probe, which lasts until the port is open. An HTTP probe is
      # repeated once a second at most, so an instance that starts in one would be seen late. The
      # container listens only when it can convert; where it has several processes, Gunicorn listens
      # a moment sooner, and requests wait with it instead of in front of the instance.
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
        for_each = merge(local.environment_common, local.environment_convert, local.environment_characters, local.environment_fetching, local.environment_origin, local.environment_signing, local.environment_traces)
        content {
          name  = env.key
          value = env.value
        }
      }

      dynamic "env" {
        for_each = merge(local.secret_variables["log-key"], local.secrets_origin, local.secrets_signing)
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
      condition     = var.convert.max_instances >= max(concat([local.min_instances], [for hours in values(var.convert.busy_hours) : hours.min_instances])...)
      error_message = "convert.max_instances is smaller than convert.min_instances or than the min_instances of some convert.busy_hours: raise it, or lower those."
    }

    precondition {
      condition     = local.convert_memory_mib >= local.memory_mib_of_cpus[var.convert.cpu].least && local.convert_memory_mib <= local.memory_mib_of_cpus[var.convert.cpu].most
      error_message = "Cloud Run does not give ${var.convert.memory} to ${var.convert.cpu} CPUs: set convert.memory to ${local.memory_mib_of_cpus[var.convert.cpu].least}Mi to ${local.memory_mib_of_cpus[var.convert.cpu].most}Mi, or change convert.cpu."
    }

    precondition {
      condition     = var.convert.gpu == null || (tonumber(var.convert.cpu) >= 4 && local.convert_memory_mib >= 16384)
      error_message = "Cloud Run gives a GPU only to 4 CPUs and 16Gi or more: raise convert.cpu and convert.memory, or set convert.gpu to null."
    }

    precondition {
      condition     = var.convert.gpu == null || contains(var.convert.gpu_regions, var.region)
      error_message = "Cloud Run has no ${coalesce(var.convert.gpu, "GPU")} in ${var.region} that this module knows of, only in ${join(", ", var.convert.gpu_regions)}: choose one of these regions, add the region to convert.gpu_regions if Google offers it there by now, or set convert.gpu to null."
    }

    precondition {
      condition     = var.convert.gpu == null || var.convert.max_instances <= var.quota.gpus
      error_message = "convert.max_instances would let the converter have ${var.convert.max_instances} GPUs in ${var.region}, and quota says that the project has ${var.quota.gpus}. Lower convert.max_instances, or let Google grant more (NvidiaL4GpuAllocNoZonalRedundancyPerProjectRegion of run.googleapis.com) and write that into quota.gpus."
    }

    precondition {
      condition     = local.convert_memory_mib >= local.conversions_mib
      error_message = "${local.convert_concurrency} conversions at once may need ${local.conversions_mib} MiB, ${local.conversion_mib} MiB each with this limits.upload_bytes, limits.recording_seconds.max and characters, and convert.memory is ${var.convert.memory}: raise convert.memory, or lower convert.concurrency, the sizes in characters or what a recording may be${var.convert.kokoro ? ", or set convert.kokoro to false, which takes 404 MiB less for each process" : ""}."
    }

    precondition {
      condition     = local.most_cpus <= var.quota.cpus && local.most_memory_mib <= var.quota.memory_gib * 1024
      error_message = "max_instances of all services would let them together have ${local.most_cpus} CPUs and ${ceil(local.most_memory_mib / 1024)} GiB in ${var.region}, and quota says that the project has ${var.quota.cpus} CPUs and ${var.quota.memory_gib} GiB. Lower max_instances of a service, or let Google grant more and write that into quota; gcloud beta quotas info describe CpuAllocPerProjectRegion --service=run.googleapis.com --project=${var.project_id} shows what the project has (in thousandths of a CPU), MemAllocPerProjectRegion its memory in bytes."
    }
  }

  # A revision that may not read its secrets does not start.
  depends_on = [
    google_secret_manager_secret_iam_member.reads_c2pa,
    google_secret_manager_secret_iam_member.reads_hmac,
    google_secret_manager_secret_iam_member.reads_log_key,
    google_secret_manager_secret_iam_member.reads_watermark,
    time_sleep.accounts,
    time_sleep.key_users,
  ]
}

locals {
  # Said again each hour, so that an apply in the middle of busy hours is put right soon.
  schedule = merge(
    {
      for name, hours in var.convert.busy_hours : "${name}-begin" => {
        cron          = "0 ${hours.to - hours.from == 1 ? "${hours.from}" : "${hours.from}-${hours.to - 1}"} * * ${hours.days}"
        min_instances = hours.min_instances
        time_zone     = hours.time_zone
      }
    },
    {
      for name, hours in var.convert.busy_hours : "${name}-end" => {
        cron          = hours.to == 24 ? "59 23 * * ${hours.days}" : "0 ${hours.to} * * ${hours.days}"
        min_instances = local.min_instances
        time_zone     = hours.time_zone
      }
    },
  )
}

resource "google_cloud_scheduler_job" "min_instances" {
  for_each = local.schedule

  name        = "${var.name}-${each.key}"
  project     = var.project_id
  region      = var.region
  description = "Sets the minimum instances of ${local.names.convert} to ${each.value.min_instances}"
  schedule    = each.value.cron
  time_zone   = each.value.time_zone

  http_target {
    http_method = "PATCH"
    uri         = "https://run.googleapis.com/v2/${google_cloud_run_v2_service.convert.id}?updateMask=scaling.minInstanceCount"
    headers     = { "Content-Type" = "application/json" }
    body        = base64encode(jsonencode({ scaling = { minInstanceCount = each.value.min_instances } }))

    oauth_token {
      service_account_email = google_service_account.this["schedule"].email
      scope                 = "https://www.googleapis.com/auth/cloud-platform"
    }
  }

  retry_config {
    retry_count = 3
  }

  depends_on = [
    google_artifact_registry_repository_iam_member.schedule,
    google_cloud_run_v2_service_iam_member.schedule,
    google_service_account_iam_member.schedule_acts_as_convert,
  ]
}
