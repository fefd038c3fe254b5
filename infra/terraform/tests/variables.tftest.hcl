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

run "bad_values" {
  command = plan

  variables {
    alert_emails                = ["operator"]
    allowed_origins             = []
    api_concurrency             = 0
    app_check                   = { app_id = "page", site_key = "" }
    build_region                = "global"
    busy_hours                  = { "Bad Name" = { from = 1, to = 2, min_instances = 1 } }
    characters                  = { memory_mib = 0.5 }
    conversion_deadline_seconds = 9
    convert_concurrency         = 0
    convert_cpu                 = "3"
    convert_image               = "europe-west1-docker.pkg.dev/demo-project/voice-avatar/convert:latest"
    convert_memory              = "1"
    custom_domain               = "https://voice.example.com"
    delivery_attempts           = 4
    error_rate_objective        = 0
    firebase_authentication     = { anonymous = false }
    firestore_location          = "eu"
    function_min_instances      = { api = -1 }
    gpu_regions                 = ["us-central1-a"]
    labels                      = { "Cost Center" = "1" }
    log_level                   = "verbose"
    max_instances               = { api = 0 }
    max_text_characters         = 2001
    max_upload_bytes            = 1024
    min_instances               = -1
    monthly_budget              = 0
    name                        = "Voice Avatar"
    notification_channels       = ["operator@example.com"]
    project_id                  = "Demo Project"
    quota                       = { cpus = 0 }
    rate_limit_per_minute       = 0
    recording_seconds           = { min = 0 }
    region                      = "europe-west1-b"
    result_url_seconds          = 59
    upload_shards               = 0
    upload_url_seconds          = 59
    wait_objective_seconds      = 0
    wait_objective_share        = 0.9
    wait_seconds                = 4
    waiting_per_client          = 0
    warm_ups_at_once            = 0
  }

  expect_failures = [
    var.alert_emails,
    var.allowed_origins,
    var.api_concurrency,
    var.app_check,
    var.build_region,
    var.busy_hours,
    var.characters,
    var.conversion_deadline_seconds,
    var.convert_concurrency,
    var.convert_cpu,
    var.convert_image,
    var.convert_memory,
    var.custom_domain,
    var.delivery_attempts,
    var.error_rate_objective,
    var.firebase_authentication,
    var.firestore_location,
    var.function_min_instances,
    var.gpu_regions,
    var.labels,
    var.log_level,
    var.max_instances,
    var.max_text_characters,
    var.max_upload_bytes,
    var.min_instances,
    var.monthly_budget,
    var.name,
    var.notification_channels,
    var.project_id,
    var.quota,
    var.rate_limit_per_minute,
    var.recording_seconds,
    var.region,
    var.result_url_seconds,
    var.upload_shards,
    var.upload_url_seconds,
    var.wait_objective_seconds,
    var.wait_objective_share,
    var.wait_seconds,
    var.waiting_per_client,
    var.warm_ups_at_once,
  ]
}

run "more_bad_values" {
  command = plan

  variables {
    allowed_origins             = ["*"]
    api_concurrency             = 1001
    busy_hours                  = { night = { from = 22, to = 6, min_instances = 1 } }
    characters                  = { memory_mib = 512 }
    conversion_deadline_seconds = 501
    convert_concurrency         = 65
    convert_memory              = "256Mi"
    custom_domain               = "localhost"
    delivery_attempts           = 101
    error_rate_objective        = 1
    max_instances               = { convert = 1001 }
    max_upload_bytes            = 104857601
    min_instances               = 1.5
    name                        = "a-name-that-is-too-long"
    project_id                  = "123456789012"
    recording_seconds           = { max = 61 }
    region                      = "eu"
    result_url_seconds          = 86401
    upload_url_seconds          = 3601
    wait_seconds                = 3001
  }

  expect_failures = [
    var.allowed_origins,
    var.api_concurrency,
    var.busy_hours,
    var.characters,
    var.conversion_deadline_seconds,
    var.convert_concurrency,
    var.convert_memory,
    var.custom_domain,
    var.delivery_attempts,
    var.error_rate_objective,
    var.max_instances,
    var.max_upload_bytes,
    var.min_instances,
    var.name,
    var.project_id,
    var.recording_seconds,
    var.region,
    var.result_url_seconds,
    var.upload_url_seconds,
    var.wait_seconds,
  ]
}

run "still_more_bad_values" {
  command = plan

  variables {
    kms_key                     = "key"
    allowed_origins             = ["http://voice.example.com"]
    busy_hours                  = { noon = { days = "weekdays", from = 11, to = 13, min_instances = 1 } }
    conversion_deadline_seconds = 60.5
    max_bundle_bytes            = 1048575
    recording_seconds           = { min = 10, max = 5 }
  }

  expect_failures = [
    var.kms_key,
    var.allowed_origins,
    var.busy_hours,
    var.conversion_deadline_seconds,
    var.max_bundle_bytes,
    var.recording_seconds,
  ]
}

run "the_last_bad_values" {
  command = plan

  variables {
    kms_key         = "projects/demo-project/locations/us-east1/keyRings/ring/cryptoKeys/key"
    allowed_origins = ["https://voice.example.com/page"]
    busy_hours      = { noon = { from = 11, to = 13, min_instances = -1 } }
  }

  expect_failures = [
    var.kms_key,
    var.allowed_origins,
    var.busy_hours,
  ]
}

run "a_key_for_one_place_and_a_database_in_another" {
  command = plan

  variables {
    firestore_location = "eur3"
    kms_key            = "projects/demo-project/locations/europe-west1/keyRings/ring/cryptoKeys/key"
  }

  expect_failures = [
    var.kms_key,
  ]
}

run "a_page_that_was_not_built" {
  command = plan

  variables {
    custom_domain = "voice.example.com"
    page          = { folder = "./tests" }
  }

  expect_failures = [
    var.page,
  ]
}

run "a_page_without_a_domain" {
  command = plan

  variables {
    page = { folder = "./tests/page" }
  }

  expect_failures = [
    var.page,
  ]
}

run "a_public_page_where_nothing_may_be_public" {
  command = plan

  variables {
    custom_domain             = "voice.example.com"
    domain_restricted_sharing = true
    page                      = { folder = "./tests/page" }
  }

  expect_failures = [
    var.page,
  ]
}

run "a_way_of_signing_that_there_is_not" {
  command = plan

  variables {
    signing = "rsa"
  }

  expect_failures = [
    var.signing,
  ]
}

run "cpus_that_live_cannot_have" {
  command = plan

  variables {
    live = { cpu = "3" }
  }

  expect_failures = [
    var.live,
  ]
}

run "memory_of_live_without_a_unit" {
  command = plan

  variables {
    live = { memory = "2" }
  }

  expect_failures = [
    var.live,
  ]
}

run "half_a_connection_to_live" {
  command = plan

  variables {
    live = { sockets = 0.5 }
  }

  expect_failures = [
    var.live,
  ]
}

run "more_who_hear_themselves_than_connections" {
  command = plan

  variables {
    live = { sockets = 10, hearings = 11 }
  }

  expect_failures = [
    var.live,
  ]
}

run "half_a_visitor_who_hears_themselves" {
  command = plan

  variables {
    live = { hearings = 0.5 }
  }

  expect_failures = [
    var.live,
  ]
}

run "a_rotation_of_keys_backwards" {
  command = plan

  variables {
    live = { key_rotation = -1 }
  }

  expect_failures = [
    var.live,
  ]
}

run "domains_that_are_none" {
  command = plan

  variables {
    additional_domains = ["https://voice.example.org"]
    custom_domain      = "voice.example.com"
  }

  expect_failures = [
    var.additional_domains,
  ]
}

run "more_domains_without_the_first" {
  command = plan

  variables {
    additional_domains = ["voice.example.org"]
  }

  expect_failures = [
    var.additional_domains,
  ]
}

run "more_domains_than_a_certificate_has" {
  command = plan

  variables {
    additional_domains = [for number in range(100) : "voice${number}.example.org"]
    custom_domain      = "voice.example.com"
  }

  expect_failures = [
    var.additional_domains,
  ]
}

run "a_canary_that_is_everything" {
  command = plan

  variables {
    canary = { percent = 100, stable_revision = "voice-avatar-convert-00012-abc" }
  }

  expect_failures = [
    var.canary,
  ]
}

run "a_canary_beside_another_service" {
  command = plan

  variables {
    canary = { percent = 10, stable_revision = "another-00012-abc" }
  }

  expect_failures = [
    var.canary,
  ]
}

run "traffic_that_goes_nowhere" {
  command = plan

  variables {
    vpc = { egress = "NONE", network = "office", subnetwork = "voices" }
  }

  expect_failures = [
    var.vpc,
  ]
}

run "a_network_without_a_name" {
  command = plan

  variables {
    vpc = { network = "", subnetwork = "voices" }
  }

  expect_failures = [
    var.vpc,
  ]
}

run "a_gpu_that_there_is_not" {
  command = plan

  variables {
    convert_gpu   = "nvidia-h100"
    min_instances = 0
  }

  expect_failures = [
    var.convert_gpu,
  ]
}

run "a_gpu_that_is_paid_for_unasked" {
  command = plan

  variables {
    convert_gpu = "nvidia-l4"
  }

  expect_failures = [
    var.min_instances,
  ]
}

run "certificates_that_are_none" {
  command = plan

  variables {
    content_credentials = { certificates = "signer.pem" }
  }

  expect_failures = [
    var.content_credentials,
  ]
}

run "a_key_without_its_version" {
  command = plan

  variables {
    content_credentials = {
      certificates    = "-----BEGIN CERTIFICATE-----"
      kms_key_version = "projects/p/locations/l/keyRings/r/cryptoKeys/k"
    }
  }

  expect_failures = [
    var.content_credentials,
  ]
}

run "a_signature_that_is_waited_for_too_long" {
  command = plan

  variables {
    content_credentials = {
      certificates = "-----BEGIN CERTIFICATE-----"
      seconds      = 11
    }
  }

  expect_failures = [
    var.content_credentials,
  ]
}

run "a_time_stamp_authority_without_a_scheme" {
  command = plan

  variables {
    content_credentials = {
      certificates   = "-----BEGIN CERTIFICATE-----"
      time_stamp_url = "timestamp.example"
    }
  }

  expect_failures = [
    var.content_credentials,
  ]
}

run "a_private_key_that_is_none" {
  command = plan

  variables {
    content_credentials_key = "signer.key"
  }

  expect_failures = [
    var.content_credentials_key,
  ]
}

run "more_than_sixteen_bits" {
  command = plan

  variables {
    watermark = { character_bits = { mei = 65536 } }
  }

  expect_failures = [
    var.watermark,
  ]
}

run "a_notice_in_the_middle" {
  command = plan

  variables {
    notice = "within"
  }

  expect_failures = [
    var.notice,
  ]
}

run "a_notice_in_a_language_that_nobody_speaks" {
  command = plan

  variables {
    notice_languages = ["fr"]
  }

  expect_failures = [
    var.notice_languages,
  ]
}

run "half_a_rotation" {
  command = plan

  variables {
    watermark = { key_rotation = 0.5 }
  }

  expect_failures = [
    var.watermark,
  ]
}

run "a_default_character_with_a_name_for_an_id" {
  command = plan

  variables {
    default_character = "Mei Takahashi"
  }

  expect_failures = [
    var.default_character,
  ]
}

run "the_apis_of_other_clients_without_live" {
  command = plan

  variables {
    compat = {}
  }

  expect_failures = [
    var.compat,
  ]
}

run "presets_in_one_of_two_instances" {
  command = plan

  variables {
    live   = {}
    compat = { voicevox_alone = true }
  }

  expect_failures = [
    var.compat,
  ]
}

run "a_word_for_a_number_of_voicevox" {
  command = plan

  variables {
    live   = {}
    compat = { voicevox_speakers = { one = "mei" } }
  }

  expect_failures = [
    var.compat,
  ]
}

run "a_name_that_would_be_two" {
  command = plan

  variables {
    live   = {}
    compat = { openai_voices = { "a,b" = "mei" } }
  }

  expect_failures = [
    var.compat,
  ]
}

run "a_key_whose_name_would_be_two" {
  command = plan

  variables {
    live   = {}
    compat = { keys = ["a=b"] }
  }

  expect_failures = [
    var.compat,
  ]
}

run "a_key_that_may_have_nothing" {
  command = plan

  variables {
    live   = {}
    compat = { characters_per_day = 0 }
  }

  expect_failures = [
    var.compat,
  ]
}

run "own_characters_without_a_place" {
  command = plan

  variables {
    own_characters = { pytorch_index = "https://packages.example/cpu" }
  }

  expect_failures = [
    var.own_characters,
  ]
}

run "own_characters_without_a_number" {
  command = plan

  variables {
    characters     = {}
    own_characters = { per_day = 0, pytorch_index = "https://packages.example/cpu" }
  }

  expect_failures = [
    var.own_characters,
  ]
}

run "trainings_without_an_end" {
  command = plan

  variables {
    characters     = {}
    own_characters = { training_seconds = 100000, pytorch_index = "https://packages.example/cpu" }
  }

  expect_failures = [
    var.own_characters,
  ]
}

run "a_trainer_that_could_be_another_one_tomorrow" {
  command = plan

  variables {
    characters     = {}
    own_characters = { image = "europe-west1-docker.pkg.dev/demo-project/voice-avatar/train:latest" }
  }

  expect_failures = [
    var.own_characters,
  ]
}

run "a_trainer_whose_packages_are_nowhere" {
  command = plan

  variables {
    characters     = {}
    own_characters = { per_day = 20 }
  }

  expect_failures = [
    var.own_characters,
  ]
}

run "traces_of_more_than_all_voices" {
  command = plan

  variables {
    traces = { ratio = 2 }
  }

  expect_failures = [
    var.traces,
  ]
}
