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

run "nothing_is_traced_by_default" {
  assert {
    condition = (
      length(google_project_iam_member.traces) == 0
      && !contains(keys(google_project_service.this), "telemetry.googleapis.com")
      && !anytrue([for variable in google_cloud_run_v2_service.convert.template[0].containers[0].env : variable.name == "TRACES"])
      && !contains(keys(google_cloudfunctions2_function.this["api"].service_config[0].environment_variables), "TRACES")
    )
    error_message = "voices are traced, and nobody asked for it"
  }
}

run "the_services_on_a_voices_way_may_write_traces_and_are_told_to" {
  variables {
    live    = {}
    convert = { image = var.convert.image, max_instances = 3 }
    traces  = { ratio = 0.1 }
  }

  assert {
    condition     = toset(keys(google_project_iam_member.traces)) == toset(["api", "convert", "live", "on_upload"])
    error_message = "another account than those of the voice's way may write traces"
  }

  assert {
    condition     = alltrue([for api in ["cloudtrace.googleapis.com", "telemetry.googleapis.com"] : contains(keys(google_project_service.this), api)])
    error_message = "an API that takes traces is not enabled"
  }

  assert {
    condition = alltrue([
      for service in concat([google_cloud_run_v2_service.convert], google_cloud_run_v2_service.live) : alltrue([
        for name, value in { TRACES = "google", TRACE_RATIO = "0.1" } :
        anytrue([for variable in service.template[0].containers[0].env : variable.name == name && variable.value == value])
      ])
    ])
    error_message = "a converter is not told where traces go"
  }

  assert {
    condition = alltrue([
      for name in ["api", "on_upload"] :
      google_cloudfunctions2_function.this[name].service_config[0].environment_variables["TRACES"] == "google"
    ])
    error_message = "a function is not told where traces go"
  }
}
