# The first apply, the tenth, and the one after a destroy.

mock_provider "archive" {}
mock_provider "google" {
  source = "./tests/mocks"
}
mock_provider "google-beta" {
  source = "./tests/mocks-beta"
}
mock_provider "random" {
  mock_resource "random_id" {
    defaults = {
      hex = "1a2b3c4d"
    }
  }
}
mock_provider "time" {}

variables {
  allowed_origins = ["https://voice.example.com"]
  convert         = { image = "europe-west1-docker.pkg.dev/demo-project/voice-avatar/convert@sha256:0000000000000000000000000000000000000000000000000000000000000000" }
  project_id      = "demo-project"
  region          = "europe-west1"
}

run "the_first_and_the_one_after_a_destroy" {
  assert {
    condition = (
      time_sleep.metrics.create_duration == "600s"
      && strcontains(time_sleep.metrics.triggers["metrics"], "wait")
      && strcontains(time_sleep.metrics.triggers["metrics"], "put_back")
      && length(split(",", time_sleep.metrics.triggers["metrics"])) == length(google_logging_metric.counter) + length(google_logging_metric.duration)
    )
    error_message = "the alerts do not wait until their metrics are known, or do not wait again for a new one"
  }

  assert {
    condition = (
      time_sleep.apis.create_duration == "60s"
      && time_sleep.accounts.create_duration == "60s"
      && time_sleep.storage_agent.create_duration == "60s"
      && time_sleep.accounts.triggers["build"] == google_service_account.this["build"].unique_id
      && toset(split(",", time_sleep.apis.triggers["apis"])) == toset(keys(google_project_service.this))
    )
    error_message = "a permission or an API is used before Google knows it everywhere"
  }

  assert {
    condition     = endswith(google_apikeys_key.page.name, "-1a2b3c4d") && endswith(google_project_iam_custom_role.eraser.role_id, "_1a2b3c4d")
    error_message = "a name that Google keeps for a month after a destroy is used again"
  }
}

# What Cloud Monitoring leaves out of the dashboard that it was given would be a difference here.
run "the_second_shows_no_difference_in_the_dashboard" {
  command = plan

  assert {
    condition = alltrue([
      for tile in jsondecode(google_monitoring_dashboard.this.dashboard_json).mosaicLayout.tiles :
      try(tile.xPos, 6) != 0 && try(tile.yPos, 4) != 0
    ])
    error_message = "a tile says a position of zero, which Cloud Monitoring leaves out"
  }

  assert {
    condition     = !can(regex("\\[\\]|:(0|\"\"|false|null)[,}]|\\{\\}", google_monitoring_dashboard.this.dashboard_json))
    error_message = "the dashboard says something empty or zero, which Cloud Monitoring leaves out"
  }

  assert {
    condition = [
      for tile in jsondecode(google_monitoring_dashboard.this.dashboard_json).mosaicLayout.tiles :
      "${try(tile.xPos, 0)} ${try(tile.yPos, 0)}"
    ] == [for index in range(length(local.charts)) : "${6 * (index % 2)} ${4 * floor(index / 2)}"]
    error_message = "two tiles lie on each other, or one lies elsewhere"
  }
}

run "the_longest_name" {
  command = plan

  variables {
    name = "a-name-of-18-chars"
  }

  override_resource {
    target          = random_id.suffix
    override_during = plan
    values          = { hex = "1a2b3c4d" }
  }

  assert {
    condition     = can(regex("^[a-z][a-z0-9-]{0,61}[a-z0-9]$", google_apikeys_key.page.name)) && can(regex("^[a-zA-Z0-9_.]{3,64}$", google_project_iam_custom_role.eraser.role_id))
    error_message = "a name with its suffix is longer than Google accepts"
  }
}

run "an_image_built_elsewhere_in_the_world" {
  command = plan

  variables {
    images  = { build_region = "europe-west1" }
    convert = { image = null }
    region  = "europe-west4"
  }

  assert {
    condition     = strcontains(terraform_data.image[0].triggers_replace[0], "europe-west4-docker.pkg.dev/")
    error_message = "the image does not lie where the service is"
  }
}
