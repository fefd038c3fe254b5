# Written by python -m infra.terraform.generation; infra/terraform/generation.py says what it tries.

mock_provider "archive" {}
mock_provider "google" {
  source = "./tests/mocks"
}
mock_provider "google-beta" {
  source = "../tests/mocks-beta"
}
mock_provider "random" {}
mock_provider "time" {}

variables {
  allowed_origins = ["https://www.example.com"]
  convert_cpu     = "4"
  convert_image   = "europe-west1-docker.pkg.dev/demo-project/voice-avatar/convert@sha256:0000000000000000000000000000000000000000000000000000000000000000"
  convert_memory  = "16Gi"
  max_instances   = { convert = 3 }
  min_instances   = 0
  project_id      = "demo-project"
  quota           = { cpus = 100, memory_gib = 200 }
  region          = "europe-west1"
}

run "state_01" {
  variables {
    alert_emails            = ["operator@example.com"]
    app_check               = { app_id = "1:123456789012:web:0123456789abcdef", site_key = "6LcAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA" }
    busy_hours              = { noon = { from = 11, to = 13, min_instances = 2 } }
    characters              = {}
    compat                  = { keys = ["bot"] }
    content_credentials     = { certificates = "-----BEGIN CERTIFICATE-----", kms_key_version = "projects/demo-project/locations/europe-west1/keyRings/r/cryptoKeys/k/cryptoKeyVersions/1" }
    convert_gpu             = "nvidia-l4"
    custom_domain           = "voice.example.com"
    firebase_authentication = {}
    live                    = { cpu = "4", memory = "16Gi" }
    monthly_budget          = 50
    own_characters          = { image = "europe-west1-docker.pkg.dev/demo-project/voice-avatar/train@sha256:1111111111111111111111111111111111111111111111111111111111111111" }
    page                    = { folder = "../tests/page" }
    signing                 = "hmac"
    traces                  = { ratio = 0.1 }
    watermark               = { key_rotation = 1 }
  }
}

run "state_02" {}

run "state_03" {
  variables {
    alert_emails            = ["operator@example.com"]
    app_check               = { app_id = "1:123456789012:web:0123456789abcdef", site_key = "6LcAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA" }
    busy_hours              = { noon = { from = 11, to = 13, min_instances = 2 } }
    characters              = {}
    compat                  = { keys = ["bot"] }
    convert_gpu             = "nvidia-l4"
    firebase_authentication = {}
    live                    = { cpu = "4", memory = "16Gi" }
    monthly_budget          = 50
    own_characters          = { image = "europe-west1-docker.pkg.dev/demo-project/voice-avatar/train@sha256:1111111111111111111111111111111111111111111111111111111111111111" }
    signing                 = "hmac"
  }
}

run "state_04" {
  variables {
    busy_hours              = { noon = { from = 11, to = 13, min_instances = 2 } }
    characters              = {}
    compat                  = { keys = ["bot"] }
    content_credentials     = { certificates = "-----BEGIN CERTIFICATE-----", kms_key_version = "projects/demo-project/locations/europe-west1/keyRings/r/cryptoKeys/k/cryptoKeyVersions/1" }
    custom_domain           = "voice.example.com"
    firebase_authentication = {}
    live                    = { cpu = "4", memory = "16Gi" }
    monthly_budget          = 50
    page                    = { folder = "../tests/page" }
    traces                  = { ratio = 0.1 }
    watermark               = { key_rotation = 1 }
  }
}

run "state_05" {
  variables {
    alert_emails   = ["operator@example.com"]
    app_check      = { app_id = "1:123456789012:web:0123456789abcdef", site_key = "6LcAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA" }
    busy_hours     = { noon = { from = 11, to = 13, min_instances = 2 } }
    characters     = {}
    compat         = { keys = ["bot"] }
    convert_gpu    = "nvidia-l4"
    custom_domain  = "voice.example.com"
    live           = { cpu = "4", memory = "16Gi" }
    own_characters = { image = "europe-west1-docker.pkg.dev/demo-project/voice-avatar/train@sha256:1111111111111111111111111111111111111111111111111111111111111111" }
    signing        = "hmac"
  }
}

run "state_06" {
  variables {
    alert_emails            = ["operator@example.com"]
    app_check               = { app_id = "1:123456789012:web:0123456789abcdef", site_key = "6LcAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA" }
    characters              = {}
    content_credentials     = { certificates = "-----BEGIN CERTIFICATE-----", kms_key_version = "projects/demo-project/locations/europe-west1/keyRings/r/cryptoKeys/k/cryptoKeyVersions/1" }
    convert_gpu             = "nvidia-l4"
    custom_domain           = "voice.example.com"
    firebase_authentication = {}
    monthly_budget          = 50
    own_characters          = { image = "europe-west1-docker.pkg.dev/demo-project/voice-avatar/train@sha256:1111111111111111111111111111111111111111111111111111111111111111" }
    page                    = { folder = "../tests/page" }
    traces                  = { ratio = 0.1 }
    watermark               = { key_rotation = 1 }
  }
}

run "state_07" {
  variables {
    app_check           = { app_id = "1:123456789012:web:0123456789abcdef", site_key = "6LcAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA" }
    busy_hours          = { noon = { from = 11, to = 13, min_instances = 2 } }
    compat              = { keys = ["bot"] }
    content_credentials = { certificates = "-----BEGIN CERTIFICATE-----", kms_key_version = "projects/demo-project/locations/europe-west1/keyRings/r/cryptoKeys/k/cryptoKeyVersions/1" }
    live                = { cpu = "4", memory = "16Gi" }
    monthly_budget      = 50
    signing             = "hmac"
    traces              = { ratio = 0.1 }
    watermark           = { key_rotation = 1 }
  }
}

run "state_08" {
  variables {
    alert_emails            = ["operator@example.com"]
    app_check               = { app_id = "1:123456789012:web:0123456789abcdef", site_key = "6LcAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA" }
    characters              = {}
    convert_gpu             = "nvidia-l4"
    custom_domain           = "voice.example.com"
    firebase_authentication = {}
    monthly_budget          = 50
    own_characters          = { image = "europe-west1-docker.pkg.dev/demo-project/voice-avatar/train@sha256:1111111111111111111111111111111111111111111111111111111111111111" }
    page                    = { folder = "../tests/page" }
    signing                 = "hmac"
    traces                  = { ratio = 0.1 }
  }
}

run "state_09" {
  variables {
    alert_emails            = ["operator@example.com"]
    busy_hours              = { noon = { from = 11, to = 13, min_instances = 2 } }
    compat                  = { keys = ["bot"] }
    content_credentials     = { certificates = "-----BEGIN CERTIFICATE-----", kms_key_version = "projects/demo-project/locations/europe-west1/keyRings/r/cryptoKeys/k/cryptoKeyVersions/1" }
    convert_gpu             = "nvidia-l4"
    custom_domain           = "voice.example.com"
    firebase_authentication = {}
    live                    = { cpu = "4", memory = "16Gi" }
    page                    = { folder = "../tests/page" }
    signing                 = "hmac"
  }
}

run "state_10" {
  variables {
    alert_emails   = ["operator@example.com"]
    app_check      = { app_id = "1:123456789012:web:0123456789abcdef", site_key = "6LcAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA" }
    busy_hours     = { noon = { from = 11, to = 13, min_instances = 2 } }
    characters     = {}
    compat         = { keys = ["bot"] }
    convert_gpu    = "nvidia-l4"
    live           = { cpu = "4", memory = "16Gi" }
    monthly_budget = 50
    own_characters = { image = "europe-west1-docker.pkg.dev/demo-project/voice-avatar/train@sha256:1111111111111111111111111111111111111111111111111111111111111111" }
    signing        = "hmac"
    traces         = { ratio = 0.1 }
    watermark      = { key_rotation = 1 }
  }
}

run "state_11" {
  variables {
    busy_hours              = { noon = { from = 11, to = 13, min_instances = 2 } }
    characters              = {}
    content_credentials     = { certificates = "-----BEGIN CERTIFICATE-----", kms_key_version = "projects/demo-project/locations/europe-west1/keyRings/r/cryptoKeys/k/cryptoKeyVersions/1" }
    convert_gpu             = "nvidia-l4"
    custom_domain           = "voice.example.com"
    firebase_authentication = {}
    live                    = { cpu = "4", memory = "16Gi" }
    own_characters          = { image = "europe-west1-docker.pkg.dev/demo-project/voice-avatar/train@sha256:1111111111111111111111111111111111111111111111111111111111111111" }
    page                    = { folder = "../tests/page" }
    watermark               = { key_rotation = 1 }
  }
}

run "state_12" {
  variables {
    alert_emails            = ["operator@example.com"]
    app_check               = { app_id = "1:123456789012:web:0123456789abcdef", site_key = "6LcAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA" }
    characters              = {}
    compat                  = { keys = ["bot"] }
    custom_domain           = "voice.example.com"
    firebase_authentication = {}
    live                    = { cpu = "4", memory = "16Gi" }
    monthly_budget          = 50
    own_characters          = { image = "europe-west1-docker.pkg.dev/demo-project/voice-avatar/train@sha256:1111111111111111111111111111111111111111111111111111111111111111" }
    page                    = { folder = "../tests/page" }
    traces                  = { ratio = 0.1 }
  }
}

run "state_13" {
  variables {
    app_check               = { app_id = "1:123456789012:web:0123456789abcdef", site_key = "6LcAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA" }
    busy_hours              = { noon = { from = 11, to = 13, min_instances = 2 } }
    characters              = {}
    content_credentials     = { certificates = "-----BEGIN CERTIFICATE-----", kms_key_version = "projects/demo-project/locations/europe-west1/keyRings/r/cryptoKeys/k/cryptoKeyVersions/1" }
    convert_gpu             = "nvidia-l4"
    custom_domain           = "voice.example.com"
    firebase_authentication = {}
    own_characters          = { image = "europe-west1-docker.pkg.dev/demo-project/voice-avatar/train@sha256:1111111111111111111111111111111111111111111111111111111111111111" }
    page                    = { folder = "../tests/page" }
    signing                 = "hmac"
    traces                  = { ratio = 0.1 }
    watermark               = { key_rotation = 1 }
  }
}

run "state_14" {
  variables {
    alert_emails            = ["operator@example.com"]
    characters              = {}
    compat                  = { keys = ["bot"] }
    content_credentials     = { certificates = "-----BEGIN CERTIFICATE-----", kms_key_version = "projects/demo-project/locations/europe-west1/keyRings/r/cryptoKeys/k/cryptoKeyVersions/1" }
    convert_gpu             = "nvidia-l4"
    firebase_authentication = {}
    live                    = { cpu = "4", memory = "16Gi" }
    monthly_budget          = 50
    own_characters          = { image = "europe-west1-docker.pkg.dev/demo-project/voice-avatar/train@sha256:1111111111111111111111111111111111111111111111111111111111111111" }
    traces                  = { ratio = 0.1 }
  }
}

run "state_15" {
  variables {
    alert_emails        = ["operator@example.com"]
    app_check           = { app_id = "1:123456789012:web:0123456789abcdef", site_key = "6LcAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA" }
    content_credentials = { certificates = "-----BEGIN CERTIFICATE-----", kms_key_version = "projects/demo-project/locations/europe-west1/keyRings/r/cryptoKeys/k/cryptoKeyVersions/1" }
    custom_domain       = "voice.example.com"
    monthly_budget      = 50
    page                = { folder = "../tests/page" }
    signing             = "hmac"
    traces              = { ratio = 0.1 }
    watermark           = { key_rotation = 1 }
  }
}

run "state_16" {
  variables {
    alert_emails            = ["operator@example.com"]
    busy_hours              = { noon = { from = 11, to = 13, min_instances = 2 } }
    characters              = {}
    compat                  = { keys = ["bot"] }
    content_credentials     = { certificates = "-----BEGIN CERTIFICATE-----", kms_key_version = "projects/demo-project/locations/europe-west1/keyRings/r/cryptoKeys/k/cryptoKeyVersions/1" }
    convert_gpu             = "nvidia-l4"
    custom_domain           = "voice.example.com"
    firebase_authentication = {}
    live                    = { cpu = "4", memory = "16Gi" }
    own_characters          = { image = "europe-west1-docker.pkg.dev/demo-project/voice-avatar/train@sha256:1111111111111111111111111111111111111111111111111111111111111111" }
    page                    = { folder = "../tests/page" }
    watermark               = { key_rotation = 1 }
  }
}

run "state_17" {
  variables {
    app_check      = { app_id = "1:123456789012:web:0123456789abcdef", site_key = "6LcAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA" }
    convert_gpu    = "nvidia-l4"
    custom_domain  = "voice.example.com"
    monthly_budget = 50
    page           = { folder = "../tests/page" }
    signing        = "hmac"
    traces         = { ratio = 0.1 }
    watermark      = { key_rotation = 1 }
  }
}

run "state_18" {
  variables {
    app_check               = { app_id = "1:123456789012:web:0123456789abcdef", site_key = "6LcAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA" }
    busy_hours              = { noon = { from = 11, to = 13, min_instances = 2 } }
    compat                  = { keys = ["bot"] }
    content_credentials     = { certificates = "-----BEGIN CERTIFICATE-----", kms_key_version = "projects/demo-project/locations/europe-west1/keyRings/r/cryptoKeys/k/cryptoKeyVersions/1" }
    firebase_authentication = {}
    live                    = { cpu = "4", memory = "16Gi" }
    monthly_budget          = 50
    signing                 = "hmac"
  }
}

run "state_19" {
  variables {
    app_check               = { app_id = "1:123456789012:web:0123456789abcdef", site_key = "6LcAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA" }
    characters              = {}
    compat                  = { keys = ["bot"] }
    content_credentials     = { certificates = "-----BEGIN CERTIFICATE-----", kms_key_version = "projects/demo-project/locations/europe-west1/keyRings/r/cryptoKeys/k/cryptoKeyVersions/1" }
    convert_gpu             = "nvidia-l4"
    custom_domain           = "voice.example.com"
    firebase_authentication = {}
    live                    = { cpu = "4", memory = "16Gi" }
    own_characters          = { image = "europe-west1-docker.pkg.dev/demo-project/voice-avatar/train@sha256:1111111111111111111111111111111111111111111111111111111111111111" }
    page                    = { folder = "../tests/page" }
    traces                  = { ratio = 0.1 }
  }
}

run "state_20" {
  variables {
    alert_emails   = ["operator@example.com"]
    busy_hours     = { noon = { from = 11, to = 13, min_instances = 2 } }
    compat         = { keys = ["bot"] }
    convert_gpu    = "nvidia-l4"
    custom_domain  = "voice.example.com"
    live           = { cpu = "4", memory = "16Gi" }
    monthly_budget = 50
    page           = { folder = "../tests/page" }
    signing        = "hmac"
  }
}

run "state_21" {
  variables {
    app_check           = { app_id = "1:123456789012:web:0123456789abcdef", site_key = "6LcAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA" }
    busy_hours          = { noon = { from = 11, to = 13, min_instances = 2 } }
    characters          = {}
    content_credentials = { certificates = "-----BEGIN CERTIFICATE-----", kms_key_version = "projects/demo-project/locations/europe-west1/keyRings/r/cryptoKeys/k/cryptoKeyVersions/1" }
    custom_domain       = "voice.example.com"
    own_characters      = { image = "europe-west1-docker.pkg.dev/demo-project/voice-avatar/train@sha256:1111111111111111111111111111111111111111111111111111111111111111" }
    traces              = { ratio = 0.1 }
    watermark           = { key_rotation = 1 }
  }
}

run "state_22" {
  variables {
    alert_emails            = ["operator@example.com"]
    app_check               = { app_id = "1:123456789012:web:0123456789abcdef", site_key = "6LcAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA" }
    busy_hours              = { noon = { from = 11, to = 13, min_instances = 2 } }
    compat                  = { keys = ["bot"] }
    convert_gpu             = "nvidia-l4"
    firebase_authentication = {}
    live                    = { cpu = "4", memory = "16Gi" }
    monthly_budget          = 50
    signing                 = "hmac"
    watermark               = { key_rotation = 1 }
  }
}

run "state_23" {
  variables {
    alert_emails        = ["operator@example.com"]
    app_check           = { app_id = "1:123456789012:web:0123456789abcdef", site_key = "6LcAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA" }
    characters          = {}
    compat              = { keys = ["bot"] }
    content_credentials = { certificates = "-----BEGIN CERTIFICATE-----", kms_key_version = "projects/demo-project/locations/europe-west1/keyRings/r/cryptoKeys/k/cryptoKeyVersions/1" }
    custom_domain       = "voice.example.com"
    live                = { cpu = "4", memory = "16Gi" }
    own_characters      = { image = "europe-west1-docker.pkg.dev/demo-project/voice-avatar/train@sha256:1111111111111111111111111111111111111111111111111111111111111111" }
    page                = { folder = "../tests/page" }
    signing             = "hmac"
    traces              = { ratio = 0.1 }
  }
}

run "state_24" {
  variables {
    app_check               = { app_id = "1:123456789012:web:0123456789abcdef", site_key = "6LcAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA" }
    characters              = {}
    compat                  = { keys = ["bot"] }
    custom_domain           = "voice.example.com"
    firebase_authentication = {}
    live                    = { cpu = "4", memory = "16Gi" }
    own_characters          = { image = "europe-west1-docker.pkg.dev/demo-project/voice-avatar/train@sha256:1111111111111111111111111111111111111111111111111111111111111111" }
    page                    = { folder = "../tests/page" }
    signing                 = "hmac"
    watermark               = { key_rotation = 1 }
  }
}

run "state_25" {
  variables {
    characters          = {}
    compat              = { keys = ["bot"] }
    content_credentials = { certificates = "-----BEGIN CERTIFICATE-----", kms_key_version = "projects/demo-project/locations/europe-west1/keyRings/r/cryptoKeys/k/cryptoKeyVersions/1" }
    custom_domain       = "voice.example.com"
    live                = { cpu = "4", memory = "16Gi" }
    monthly_budget      = 50
    own_characters      = { image = "europe-west1-docker.pkg.dev/demo-project/voice-avatar/train@sha256:1111111111111111111111111111111111111111111111111111111111111111" }
  }
}
