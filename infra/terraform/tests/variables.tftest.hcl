# Values that an operator might well type, each refused by its own variable.

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

run "bad_values_1" {
  command = plan

  variables {
    alert_emails                = ["operator"]
    allowed_origins             = []
    api_concurrency             = 0
    app_check                   = { app_id = "page", site_key = "" }
    build_region                = "global"
    busy_hours                  = { "Bad Name" = { from = 1, to = 2, min_instances = 1 } }
    characters                  = { memory_mib = 0.5 }
    content_credentials         = { certificates = "signer.pem" }
    content_credentials_key     = "signer.key"
    conversion_deadline_seconds = 9
    convert_concurrency         = 0
    convert_cpu                 = "3"
    convert_image               = "europe-west1-docker.pkg.dev/demo-project/voice-avatar/convert:latest"
    convert_memory              = "1"
    custom_domain               = "https://voice.example.com"
    database_id                 = "A Database"
    default_character           = "Mei Takahashi"
    delivery_attempts           = 4
    error_rate_objective        = 0
    firebase_authentication     = { anonymous = false }
    firestore_location          = "eu"
    function_min_instances      = { api = -1 }
    gpu_regions                 = ["us-central1-a"]
    hmac_key_rotation           = -1
    labels                      = { "Cost Center" = "1" }
    live                        = { cpu = "3" }
    log_level                   = "verbose"
    max_instances               = { api = 0 }
    max_text_characters         = 2001
    max_upload_bytes            = 1024
    min_instances               = -1
    monthly_budget              = 0
    name                        = "Voice Avatar"
    notice                      = "within"
    notice_languages            = ["fr"]
    notification_channels       = ["operator@example.com"]
    operator                    = { name = "Ada's Museum", privacy = "museum.example/privacy" }
    project_id                  = "Demo Project"
    quota                       = { cpus = 0 }
    rate_limit_per_minute       = 0
    recording_seconds           = { min = 0 }
    region                      = "europe-west1-b"
    repository                  = "shared"
    result_url_seconds          = 59
    signing                     = "rsa"
    traces                      = { ratio = 2 }
    upload_shards               = 0
    upload_url_seconds          = 59
    vpc                         = { egress = "NONE", network = "office", subnetwork = "voices" }
    wait_objective_seconds      = 0
    wait_objective_share        = 0.9
    wait_seconds                = 4
    waiting_per_client          = 0
    warm_ups_at_once            = 0
    watermark                   = { character_bits = { mei = 65536 } }
  }

  expect_failures = [
    var.alert_emails,
    var.allowed_origins,
    var.api_concurrency,
    var.app_check,
    var.build_region,
    var.busy_hours,
    var.characters,
    var.content_credentials,
    var.content_credentials_key,
    var.conversion_deadline_seconds,
    var.convert_concurrency,
    var.convert_cpu,
    var.convert_image,
    var.convert_memory,
    var.custom_domain,
    var.database_id,
    var.default_character,
    var.delivery_attempts,
    var.error_rate_objective,
    var.firebase_authentication,
    var.firestore_location,
    var.function_min_instances,
    var.gpu_regions,
    var.hmac_key_rotation,
    var.labels,
    var.live,
    var.log_level,
    var.max_instances,
    var.max_text_characters,
    var.max_upload_bytes,
    var.min_instances,
    var.monthly_budget,
    var.name,
    var.notice,
    var.notice_languages,
    var.notification_channels,
    var.operator,
    var.project_id,
    var.quota,
    var.rate_limit_per_minute,
    var.recording_seconds,
    var.region,
    var.repository,
    var.result_url_seconds,
    var.signing,
    var.traces,
    var.upload_shards,
    var.upload_url_seconds,
    var.vpc,
    var.wait_objective_seconds,
    var.wait_objective_share,
    var.wait_seconds,
    var.waiting_per_client,
    var.warm_ups_at_once,
    var.watermark,
  ]
}

run "bad_values_2" {
  command = plan

  variables {
    allowed_origins = ["*"]
    api_concurrency = 1001
    busy_hours      = { night = { from = 22, to = 6, min_instances = 1 } }
    characters      = { memory_mib = 512 }
    content_credentials = {
      certificates    = "-----BEGIN CERTIFICATE-----"
      kms_key_version = "projects/p/locations/l/keyRings/r/cryptoKeys/k"
    }
    conversion_deadline_seconds = 501
    convert_concurrency         = 65
    convert_memory              = "256Mi"
    custom_domain               = "localhost"
    delivery_attempts           = 101
    error_rate_objective        = 1
    live                        = { memory = "2" }
    max_instances               = { convert = 1001 }
    max_upload_bytes            = 104857601
    min_instances               = 1.5
    name                        = "a-name-that-is-too-long"
    project_id                  = "123456789012"
    recording_seconds           = { max = 61 }
    region                      = "eu"
    result_url_seconds          = 86401
    upload_url_seconds          = 3601
    vpc                         = { network = "", subnetwork = "voices" }
    wait_seconds                = 3001
    watermark                   = { key_rotation = 0.5 }
  }

  expect_failures = [
    var.allowed_origins,
    var.api_concurrency,
    var.busy_hours,
    var.characters,
    var.content_credentials,
    var.conversion_deadline_seconds,
    var.convert_concurrency,
    var.convert_memory,
    var.custom_domain,
    var.delivery_attempts,
    var.error_rate_objective,
    var.live,
    var.max_instances,
    var.max_upload_bytes,
    var.min_instances,
    var.name,
    var.project_id,
    var.recording_seconds,
    var.region,
    var.result_url_seconds,
    var.upload_url_seconds,
    var.vpc,
    var.wait_seconds,
    var.watermark,
  ]
}

run "bad_values_3" {
  command = plan

  variables {
    additional_domains = ["https://voice.example.org"]
    allowed_origins    = ["http://voice.example.com"]
    busy_hours         = { noon = { days = "weekdays", from = 11, to = 13, min_instances = 1 } }
    canary             = { percent = 100, stable_revision = "voice-avatar-convert-00012-abc" }
    content_credentials = {
      certificates = "-----BEGIN CERTIFICATE-----"
      seconds      = 11
    }
    conversion_deadline_seconds = 60.5
    convert_gpu                 = "nvidia-h100"
    custom_domain               = "voice.example.com"
    kms_key                     = "key"
    live                        = { sockets = 0.5 }
    max_bundle_bytes            = 1048575
    min_instances               = 0
    page                        = { folder = "./tests" }
    recording_seconds           = { min = 10, max = 5 }
  }

  expect_failures = [
    var.additional_domains,
    var.allowed_origins,
    var.busy_hours,
    var.canary,
    var.content_credentials,
    var.conversion_deadline_seconds,
    var.convert_gpu,
    var.kms_key,
    var.live,
    var.max_bundle_bytes,
    var.page,
    var.recording_seconds,
  ]
}

run "bad_values_4" {
  command = plan

  variables {
    additional_domains = ["voice.example.org"]
    allowed_origins    = ["https://voice.example.com/page"]
    busy_hours         = { noon = { from = 11, to = 13, min_instances = -1 } }
    canary             = { percent = 10, stable_revision = "another-00012-abc" }
    content_credentials = {
      certificates   = "-----BEGIN CERTIFICATE-----"
      time_stamp_url = "timestamp.example"
    }
    convert_gpu    = "nvidia-l4"
    kms_key        = "projects/demo-project/locations/us-east1/keyRings/ring/cryptoKeys/key"
    live           = { sockets = 10, hearings = 11 }
    own_characters = { pytorch_index = "https://packages.example/cpu" }
    page           = { folder = "./tests/page" }
  }

  expect_failures = [
    var.additional_domains,
    var.allowed_origins,
    var.busy_hours,
    var.canary,
    var.content_credentials,
    var.kms_key,
    var.live,
    var.min_instances,
    var.own_characters,
    var.page,
  ]
}

run "bad_values_5" {
  command = plan

  variables {
    additional_domains        = [for number in range(100) : "voice${number}.example.org"]
    characters                = {}
    custom_domain             = "voice.example.com"
    domain_restricted_sharing = true
    firestore_location        = "eur3"
    kms_key                   = "projects/demo-project/locations/europe-west1/keyRings/ring/cryptoKeys/key"
    live                      = { hearings = 0.5 }
    own_characters            = { per_day = 0, pytorch_index = "https://packages.example/cpu" }
    page                      = { folder = "./tests/page" }
  }

  expect_failures = [
    var.additional_domains,
    var.kms_key,
    var.live,
    var.own_characters,
    var.page,
  ]
}

run "bad_values_6" {
  command = plan

  variables {
    characters     = {}
    live           = { key_rotation = -1 }
    own_characters = { training_seconds = 100000, pytorch_index = "https://packages.example/cpu" }
  }

  expect_failures = [
    var.live,
    var.own_characters,
  ]
}

run "bad_values_7" {
  command = plan

  variables {
    characters     = {}
    compat         = {}
    own_characters = { image = "europe-west1-docker.pkg.dev/demo-project/voice-avatar/train:latest" }
  }

  expect_failures = [
    var.compat,
    var.own_characters,
  ]
}

run "bad_values_8" {
  command = plan

  variables {
    characters     = {}
    compat         = { voicevox_alone = true }
    live           = {}
    own_characters = { per_day = 20 }
  }

  expect_failures = [
    var.compat,
    var.own_characters,
  ]
}

run "bad_values_9" {
  command = plan

  variables {
    own_characters = { backup_days = 0.5, pytorch_index = "https://packages.example/cpu" }
    characters     = {}
    compat         = { voicevox_speakers = { one = "mei" } }
    live           = {}
  }

  expect_failures = [
    var.own_characters,
    var.compat,
  ]
}

run "bad_values_10" {
  command = plan

  variables {
    compat = { openai_voices = { "a,b" = "mei" } }
    live   = {}
  }

  expect_failures = [
    var.compat,
  ]
}

run "bad_values_11" {
  command = plan

  variables {
    compat = { keys = ["a=b"] }
    live   = {}
  }

  expect_failures = [
    var.compat,
  ]
}

run "bad_values_12" {
  command = plan

  variables {
    compat = { characters_per_day = 0 }
    live   = {}
  }

  expect_failures = [
    var.compat,
  ]
}

run "a_page_behind_another_load_balancer" {
  command = plan

  variables {
    custom_domain          = "voice.example.com"
    external_load_balancer = true
    page                   = { folder = "./tests/page" }
  }

  expect_failures = [var.page]
}
