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

run "defaults" {
  assert {
    condition     = google_cloud_run_v2_service.convert.scaling[0].min_instance_count == 1
    error_message = "min_instances does not reach the service"
  }

  # A service that failed to start is replaced by the next apply, which a protected one refuses.
  assert {
    condition     = !google_cloud_run_v2_service.convert.deletion_protection
    error_message = "a failed first deployment of the converter could not be repaired"
  }

  assert {
    condition     = google_cloud_run_v2_service.convert.template[0].scaling[0].min_instance_count == null
    error_message = "minimum instances are set at the revision too"
  }

  assert {
    condition = (
      google_cloud_run_v2_service.convert.template[0].scaling[0].max_instance_count == 6
      && google_cloud_run_v2_service.convert.template[0].max_instance_request_concurrency == 8
      && one([for env in google_cloud_run_v2_service.convert.template[0].containers[0].env : env.value if env.name == "CONCURRENCY"]) == "4"
      && google_cloud_run_v2_service.convert.template[0].containers[0].resources[0].limits == tomap({ cpu = "2", memory = "1Gi" })
    )
    error_message = "the size of an instance is not what the variables say, or the container is told another one"
  }

  assert {
    condition     = google_cloud_run_v2_service.convert.traffic[0].percent == 100 && google_cloud_run_v2_service.convert.traffic[0].type == "TRAFFIC_TARGET_ALLOCATION_TYPE_LATEST"
    error_message = "a new revision gets no traffic"
  }

  assert {
    condition = (
      google_cloud_run_v2_service.convert.template[0].containers[0].resources[0].startup_cpu_boost
      && google_cloud_run_v2_service.convert.template[0].containers[0].resources[0].cpu_idle
      && google_cloud_run_v2_service.convert.template[0].containers[0].ports[0].name == "h2c"
    )
    error_message = "no startup CPU boost, CPU paid for while idle, or no HTTP/2 to the container"
  }

  assert {
    condition = (
      google_cloud_run_v2_service.convert.template[0].containers[0].startup_probe[0].tcp_socket[0].port == 8080
      && google_cloud_run_v2_service.convert.template[0].containers[0].startup_probe[0].failure_threshold == 1
      && google_cloud_run_v2_service.convert.template[0].containers[0].liveness_probe[0].http_get[0].path == "/healthz"
    )
    error_message = "the probes are not those of the container"
  }

  assert {
    condition     = google_cloud_run_v2_service.convert.template[0].containers[0].image == var.convert.image && length(terraform_data.image) == 0
    error_message = "an image that is built already is built again"
  }

  assert {
    condition     = length(google_cloud_scheduler_job.min_instances) == 0 && length(google_cloud_run_v2_service_iam_member.schedule) == 0 && length(google_artifact_registry_repository_iam_member.schedule) == 0
    error_message = "there is a schedule without busy hours"
  }

  assert {
    condition = alltrue([
      for name, function in google_cloudfunctions2_function.this :
      function.build_config[0].entry_point == name
      && function.build_config[0].runtime == "python311"
      && function.build_config[0].service_account == google_service_account.this["build"].id
      && function.service_config[0].environment_variables["FUNCTION_USE_ASGI"] == "true"
      && function.service_config[0].environment_variables["LOG_EXECUTION_ID"] == "false"
      && function.build_config[0].source[0].storage_source[0].object == google_storage_bucket_object.function[name].name
      && strcontains(google_storage_bucket_object.function[name].name, local.archive_hashes[name])
    ])
    error_message = "a function is not built from its own archive, named by its content"
  }

  assert {
    condition = (
      google_cloudfunctions2_function.this["api"].service_config[0].min_instance_count == 0
      && google_cloudfunctions2_function.this["on_upload"].service_config[0].min_instance_count == 1
      && google_cloudfunctions2_function.this["api"].service_config[0].timeout_seconds > var.api.wait_seconds
    )
    error_message = "function_min_instances does not reach the functions, or the api is cut off before it has waited"
  }

  assert {
    condition     = output.api_url == google_cloudfunctions2_function.this["api"].service_config[0].uri && jsondecode(output.page_configuration).api == output.api_url
    error_message = "the page is told another address than the api's"
  }

  assert {
    condition     = output.topics.uploads == "voice-avatar-uploads" && output.buckets.uploads == "demo-project-voice-avatar-uploads"
    error_message = "the outputs do not name the topics and the buckets"
  }

  assert {
    condition     = local.most_cpus == 20 && local.most_memory_mib == 10240
    error_message = "the defaults do not just fit into 20 CPUs and 40 GiB"
  }
}

run "scaled_to_zero" {
  variables {
    convert = { image = var.convert.image, min_instances = 0 }
  }

  assert {
    condition     = google_cloud_run_v2_service.convert.scaling[0].min_instance_count == 0
    error_message = "min_instances = 0 leaves warm instances"
  }
}

run "larger_instances" {
  command = plan

  variables {
    convert = { image = var.convert.image, cpu = "8", memory = "4Gi", max_instances = 12 }
    quota   = { cpus = 104, memory_gib = 64 }
  }

  assert {
    condition = (
      google_cloud_run_v2_service.convert.template[0].max_instance_request_concurrency == 32
      && one([for env in google_cloud_run_v2_service.convert.template[0].containers[0].env : env.value if env.name == "CONCURRENCY"]) == "16"
    )
    error_message = "the conversions at once do not grow with the CPUs"
  }
}

run "fewer_conversions_at_once" {
  command = plan

  variables {
    convert = { image = var.convert.image, concurrency = 3 }
  }

  assert {
    condition = (
      google_cloud_run_v2_service.convert.template[0].max_instance_request_concurrency == 6
      && one([for env in google_cloud_run_v2_service.convert.template[0].containers[0].env : env.value if env.name == "CONCURRENCY"]) == "3"
    )
    error_message = "convert_concurrency reaches only one of Cloud Run and the container"
  }
}

run "busy_hours" {
  variables {
    convert = {
      image         = var.convert.image
      min_instances = 1
      busy_hours = {
        evening = { days = "MON-FRI", from = 17, to = 23, min_instances = 4, time_zone = "Asia/Tokyo" }
        weekend = { days = "SAT,SUN", from = 23, to = 24, min_instances = 6 }
      }
    }
  }

  assert {
    condition = (
      google_cloud_run_v2_service.convert.scaling[0].min_instance_count == 1
      && google_cloud_scheduler_job.min_instances["evening-begin"].schedule == "0 17-22 * * MON-FRI"
      && google_cloud_scheduler_job.min_instances["evening-begin"].time_zone == "Asia/Tokyo"
      && google_cloud_scheduler_job.min_instances["evening-end"].schedule == "0 23 * * MON-FRI"
      && google_cloud_scheduler_job.min_instances["weekend-begin"].schedule == "0 23 * * SAT,SUN"
      && google_cloud_scheduler_job.min_instances["weekend-end"].schedule == "59 23 * * SAT,SUN"
    )
    error_message = "busy hours begin or end at another time than they say"
  }

  assert {
    condition = (
      jsondecode(base64decode(google_cloud_scheduler_job.min_instances["evening-begin"].http_target[0].body)).scaling.minInstanceCount == 4
      && jsondecode(base64decode(google_cloud_scheduler_job.min_instances["evening-end"].http_target[0].body)).scaling.minInstanceCount == 1
      && google_cloud_scheduler_job.min_instances["evening-begin"].http_target[0].http_method == "PATCH"
      && google_cloud_scheduler_job.min_instances["evening-begin"].http_target[0].uri == "https://run.googleapis.com/v2/projects/demo-project/locations/europe-west1/services/voice-avatar-convert?updateMask=scaling.minInstanceCount"
      && google_cloud_scheduler_job.min_instances["evening-begin"].http_target[0].oauth_token[0].service_account_email == google_service_account.this["schedule"].email
    )
    error_message = "busy hours do not set the service's minimum instances"
  }

  assert {
    condition = (
      google_cloud_run_v2_service_iam_member.schedule[0].name == google_cloud_run_v2_service.convert.name
      && google_cloud_run_v2_service_iam_member.schedule[0].role == google_project_iam_custom_role.scaler[0].id
      && google_project_iam_custom_role.scaler[0].permissions == toset(["run.services.get", "run.services.update"])
      && google_service_account_iam_member.schedule_acts_as_convert[0].service_account_id == google_service_account.this["convert"].name
    )
    error_message = "the schedule may not change the service, or may change others"
  }

  assert {
    condition = (
      google_artifact_registry_repository_iam_member.schedule[0].repository == google_artifact_registry_repository.this[0].repository_id
      && google_artifact_registry_repository_iam_member.schedule[0].role == "roles/artifactregistry.reader"
      && google_artifact_registry_repository_iam_member.schedule[0].member == google_service_account.this["schedule"].member
    )
    error_message = "the schedule may not read the service's image, without which Cloud Run lets nobody change the service"
  }
}

run "more_minimum_than_maximum" {
  command = plan

  variables {
    convert = { image = var.convert.image, min_instances = 3, max_instances = 2 }
  }

  expect_failures = [google_cloud_run_v2_service.convert]
}

run "more_minimum_in_busy_hours_than_maximum" {
  command = plan

  variables {
    convert = {
      image         = var.convert.image
      busy_hours    = { noon = { from = 11, to = 13, min_instances = 9 } }
      max_instances = 2
    }
  }

  expect_failures = [google_cloud_run_v2_service.convert]
}

run "too_little_memory_for_the_cpus" {
  command = plan

  variables {
    convert = { image = var.convert.image, cpu = "4", memory = "2047Mi" }
    quota   = { cpus = 32 }
  }

  expect_failures = [google_cloud_run_v2_service.convert]
}

run "too_much_memory_for_the_cpus" {
  command = plan

  variables {
    convert = { image = var.convert.image, cpu = "1", memory = "5Gi" }
  }

  expect_failures = [google_cloud_run_v2_service.convert]
}

run "just_enough_memory_for_the_cpus" {
  command = plan

  variables {
    convert = { image = var.convert.image, cpu = "4", memory = "2048Mi" }
    quota   = { cpus = 32 }
  }

  assert {
    condition     = google_cloud_run_v2_service.convert.template[0].containers[0].resources[0].limits == tomap({ cpu = "4", memory = "2048Mi" })
    error_message = "the size of an instance is not what the variables say"
  }
}

run "too_little_memory_for_kokoro" {
  command = plan

  variables {
    convert = { image = var.convert.image, memory = "988Mi" }
  }

  expect_failures = [google_cloud_run_v2_service.convert]
}

run "without_kokoro" {
  # Only planned: the build really runs gcloud.
  command = plan

  variables {
    convert = { image = null, kokoro = false, max_instances = 3, memory = "640Mi" }
    live    = { memory = "640Mi" }
  }

  assert {
    condition = [
      for told in [local.environment_api, local.environment_convert, local.environment_live] : told.KOKORO
    ] == ["off", "off", "off"] && endswith(local.image_tag, "-without-kokoro")
    error_message = "the image has Kokoro, or not all services know that it is left out"
  }
}

run "more_cpus_than_the_quota" {
  command = plan

  variables {
    convert = { image = var.convert.image, max_instances = 7 }
  }

  expect_failures = [google_cloud_run_v2_service.convert]
}

run "more_memory_than_the_quota" {
  command = plan

  variables {
    convert = { image = var.convert.image, memory = "8Gi" }
  }

  expect_failures = [google_cloud_run_v2_service.convert]
}

run "an_image_of_ones_own_source" {
  # Only planned: the build really runs gcloud.
  command = plan

  variables {
    convert = { image = null }
  }

  assert {
    condition     = length(terraform_data.image) == 1 && strcontains(terraform_data.image[0].triggers_replace[0], "europe-west1-docker.pkg.dev/demo-project/") && endswith(terraform_data.image[0].triggers_replace[0], "/convert:${local.image_tag}")
    error_message = "the content of the source does not decide whether the image is built"
  }

  assert {
    condition     = can(regex("^[0-9a-f]{32}$", local.image_tag)) && contains(local.image_files, "functions/convert/Dockerfile") && !anytrue([for path in local.image_files : strcontains(path, "__pycache__")])
    error_message = "the image's tag is not made of what the image is made of"
  }
}

run "hostile_recordings_need_more_memory_than_there_is" {
  command = plan

  variables {
    convert = { image = var.convert.image, cpu = "2", memory = "1Gi" }
    limits  = { upload_bytes = 100000000 }
  }

  expect_failures = [google_cloud_run_v2_service.convert]
}

run "a_gpu" {
  variables {
    convert = {
      image         = var.convert.image
      cpu           = "4"
      gpu           = "nvidia-l4"
      memory        = "16Gi"
      max_instances = 2
      min_instances = 0
    }
  }

  assert {
    condition = (
      google_cloud_run_v2_service.convert.template[0].node_selector[0].accelerator == "nvidia-l4"
      && google_cloud_run_v2_service.convert.template[0].gpu_zonal_redundancy_disabled
      && google_cloud_run_v2_service.convert.template[0].containers[0].resources[0].limits["nvidia.com/gpu"] == "1"
      && !google_cloud_run_v2_service.convert.template[0].containers[0].resources[0].cpu_idle
      && one([for env in google_cloud_run_v2_service.convert.template[0].containers[0].env : env.value if env.name == "PROVIDER"]) == "cuda"
    )
    error_message = "instances have no GPU, or are not told to use it"
  }
}

run "no_gpu" {
  assert {
    condition = (
      length(google_cloud_run_v2_service.convert.template[0].node_selector) == 0
      && one([for env in google_cloud_run_v2_service.convert.template[0].containers[0].env : env.value if env.name == "PROVIDER"]) == "cpu"
    )
    error_message = "there is a GPU that nobody asked for"
  }
}

run "a_gpu_beside_too_few_cpus" {
  command = plan

  variables {
    convert = { image = var.convert.image, gpu = "nvidia-l4", max_instances = 2, min_instances = 0 }
  }

  expect_failures = [google_cloud_run_v2_service.convert]
}

run "a_gpu_where_there_is_none" {
  command = plan

  variables {
    convert = {
      image         = var.convert.image
      cpu           = "4"
      gpu           = "nvidia-l4"
      memory        = "16Gi"
      gpu_regions   = ["us-central1"]
      max_instances = 2
      min_instances = 0
    }
  }

  expect_failures = [google_cloud_run_v2_service.convert]
}

run "more_gpus_than_the_quota" {
  command = plan

  variables {
    convert = {
      image         = var.convert.image
      cpu           = "4"
      gpu           = "nvidia-l4"
      memory        = "16Gi"
      max_instances = 4
      min_instances = 0
    }
    quota = { cpus = 100, memory_gib = 100 }
  }

  expect_failures = [google_cloud_run_v2_service.convert]
}

run "a_tenth_of_the_conversions_for_the_next_revision" {
  command = plan

  variables {
    canary = { percent = 10, stable_revision = "voice-avatar-convert-00012-abc" }
  }

  assert {
    condition = join(", ", [
      for one in google_cloud_run_v2_service.convert.traffic : "${one.type} ${one.percent} ${try(coalesce(one.revision), "-")}"
    ]) == "TRAFFIC_TARGET_ALLOCATION_TYPE_LATEST 10 -, TRAFFIC_TARGET_ALLOCATION_TYPE_REVISION 90 voice-avatar-convert-00012-abc"
    error_message = "the newest revision gets more or less than its share"
  }
}

run "through_a_network_of_ones_own" {
  command = plan

  variables {
    live    = {}
    convert = { image = var.convert.image, max_instances = 3 }
    vpc     = { egress = "ALL_TRAFFIC", network = "office", subnetwork = "voices", tags = ["voice"] }
  }

  assert {
    condition = alltrue([
      for service in [google_cloud_run_v2_service.convert, google_cloud_run_v2_service.live[0]] :
      service.template[0].vpc_access[0].egress == "ALL_TRAFFIC"
      && service.template[0].vpc_access[0].network_interfaces[0].network == "office"
      && service.template[0].vpc_access[0].network_interfaces[0].subnetwork == "voices"
      && service.template[0].vpc_access[0].network_interfaces[0].tags == tolist(["voice"])
    ])
    error_message = "converter or live go past the network"
  }
}
