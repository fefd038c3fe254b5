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
  convert         = { cpu = "4", image = "europe-west1-docker.pkg.dev/demo-project/voice-avatar/convert@sha256:0000000000000000000000000000000000000000000000000000000000000000", max_instances = 3, memory = "16Gi", min_instances = 0 }
  project_id      = "demo-project"
  quota           = { cpus = 100, memory_gib = 200 }
  region          = "europe-west1"
}

run "state_01" {
  variables {
    monitoring              = { emails = ["operator@example.com"], monthly_budget = 50 }
    app_check               = { app_id = "1:123456789012:web:0123456789abcdef", site_key = "6LcAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA" }
    convert                 = merge(var.convert, { busy_hours = { noon = { from = 11, to = 13, min_instances = 2 } }, gpu = "nvidia-l4" })
    characters              = { bucket = {}, own = { image = "europe-west1-docker.pkg.dev/demo-project/voice-avatar/train@sha256:1111111111111111111111111111111111111111111111111111111111111111" } }
    compat                  = { keys = ["bot"] }
    content_credentials     = { certificates = "-----BEGIN CERTIFICATE-----", kms_key_version = "projects/demo-project/locations/europe-west1/keyRings/r/cryptoKeys/k/cryptoKeyVersions/1" }
    domain                  = { name = "voice.example.com", page_folder = "../tests/page" }
    firebase_authentication = {}
    images                  = { attestation = "dry-run" }
    live                    = { cpu = "4", memory = "16Gi" }
    signing                 = { method = "hmac" }
    traces                  = { ratio = 0.1 }
    watermark               = { key_rotation = 1 }
  }
}

run "state_02" {}

run "state_03" {
  variables {
    monitoring              = { emails = ["operator@example.com"], monthly_budget = 50 }
    app_check               = { app_id = "1:123456789012:web:0123456789abcdef", site_key = "6LcAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA" }
    characters              = { bucket = {}, own = { image = "europe-west1-docker.pkg.dev/demo-project/voice-avatar/train@sha256:1111111111111111111111111111111111111111111111111111111111111111" } }
    content_credentials     = { certificates = "-----BEGIN CERTIFICATE-----", kms_key_version = "projects/demo-project/locations/europe-west1/keyRings/r/cryptoKeys/k/cryptoKeyVersions/1" }
    convert                 = merge(var.convert, { gpu = "nvidia-l4" })
    firebase_authentication = {}
    images                  = { attestation = "dry-run" }
    live                    = { cpu = "4", memory = "16Gi" }
    signing                 = { method = "hmac" }
    traces                  = { ratio = 0.1 }
  }
}

run "state_04" {
  variables {
    monitoring = { emails = ["operator@example.com"] }
    convert    = merge(var.convert, { busy_hours = { noon = { from = 11, to = 13, min_instances = 2 } } })
    characters = { bucket = {}, own = { image = "europe-west1-docker.pkg.dev/demo-project/voice-avatar/train@sha256:1111111111111111111111111111111111111111111111111111111111111111" } }
    compat     = { keys = ["bot"] }
    domain     = { name = "voice.example.com", page_folder = "../tests/page" }
    live       = { cpu = "4", memory = "16Gi" }
    signing    = { method = "hmac" }
    traces     = { ratio = 0.1 }
    watermark  = { key_rotation = 1 }
  }
}

run "state_05" {
  variables {
    app_check               = { app_id = "1:123456789012:web:0123456789abcdef", site_key = "6LcAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA" }
    convert                 = merge(var.convert, { busy_hours = { noon = { from = 11, to = 13, min_instances = 2 } }, gpu = "nvidia-l4" })
    compat                  = { keys = ["bot"] }
    content_credentials     = { certificates = "-----BEGIN CERTIFICATE-----", kms_key_version = "projects/demo-project/locations/europe-west1/keyRings/r/cryptoKeys/k/cryptoKeyVersions/1" }
    domain                  = { name = "voice.example.com" }
    firebase_authentication = {}
    images                  = { attestation = "dry-run" }
    live                    = { cpu = "4", memory = "16Gi" }
    monitoring              = { monthly_budget = 50 }
    watermark               = { key_rotation = 1 }
  }
}

run "state_06" {
  variables {
    monitoring              = { emails = ["operator@example.com"] }
    app_check               = { app_id = "1:123456789012:web:0123456789abcdef", site_key = "6LcAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA" }
    characters              = { bucket = {}, own = { image = "europe-west1-docker.pkg.dev/demo-project/voice-avatar/train@sha256:1111111111111111111111111111111111111111111111111111111111111111" } }
    content_credentials     = { certificates = "-----BEGIN CERTIFICATE-----", kms_key_version = "projects/demo-project/locations/europe-west1/keyRings/r/cryptoKeys/k/cryptoKeyVersions/1" }
    domain                  = { name = "voice.example.com", page_folder = "../tests/page" }
    firebase_authentication = {}
    images                  = { attestation = "dry-run" }
    live                    = { cpu = "4", memory = "16Gi" }
    signing                 = { method = "hmac" }
    traces                  = { ratio = 0.1 }
  }
}

run "state_07" {
  variables {
    monitoring              = { emails = ["operator@example.com"], monthly_budget = 50 }
    app_check               = { app_id = "1:123456789012:web:0123456789abcdef", site_key = "6LcAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA" }
    convert                 = merge(var.convert, { busy_hours = { noon = { from = 11, to = 13, min_instances = 2 } }, gpu = "nvidia-l4" })
    characters              = { bucket = {} }
    content_credentials     = { certificates = "-----BEGIN CERTIFICATE-----", kms_key_version = "projects/demo-project/locations/europe-west1/keyRings/r/cryptoKeys/k/cryptoKeyVersions/1" }
    firebase_authentication = {}
    traces                  = { ratio = 0.1 }
    watermark               = { key_rotation = 1 }
  }
}

run "state_08" {
  variables {
    app_check  = { app_id = "1:123456789012:web:0123456789abcdef", site_key = "6LcAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA" }
    characters = { bucket = {}, own = { image = "europe-west1-docker.pkg.dev/demo-project/voice-avatar/train@sha256:1111111111111111111111111111111111111111111111111111111111111111" } }
    compat     = { keys = ["bot"] }
    convert    = merge(var.convert, { gpu = "nvidia-l4" })
    domain     = { name = "voice.example.com", page_folder = "../tests/page" }
    images     = { attestation = "dry-run" }
    live       = { cpu = "4", memory = "16Gi" }
    monitoring = { monthly_budget = 50 }
    signing    = { method = "hmac" }
  }
}

run "state_09" {
  variables {
    monitoring              = { emails = ["operator@example.com"], monthly_budget = 50 }
    convert                 = merge(var.convert, { busy_hours = { noon = { from = 11, to = 13, min_instances = 2 } }, gpu = "nvidia-l4" })
    characters              = { bucket = {}, own = { image = "europe-west1-docker.pkg.dev/demo-project/voice-avatar/train@sha256:1111111111111111111111111111111111111111111111111111111111111111" } }
    content_credentials     = { certificates = "-----BEGIN CERTIFICATE-----", kms_key_version = "projects/demo-project/locations/europe-west1/keyRings/r/cryptoKeys/k/cryptoKeyVersions/1" }
    domain                  = { name = "voice.example.com", page_folder = "../tests/page" }
    firebase_authentication = {}
    signing                 = { method = "hmac" }
    watermark               = { key_rotation = 1 }
  }
}

run "state_10" {
  variables {
    app_check           = { app_id = "1:123456789012:web:0123456789abcdef", site_key = "6LcAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA" }
    convert             = merge(var.convert, { busy_hours = { noon = { from = 11, to = 13, min_instances = 2 } }, gpu = "nvidia-l4" })
    compat              = { keys = ["bot"] }
    content_credentials = { certificates = "-----BEGIN CERTIFICATE-----", kms_key_version = "projects/demo-project/locations/europe-west1/keyRings/r/cryptoKeys/k/cryptoKeyVersions/1" }
    domain              = { name = "voice.example.com", page_folder = "../tests/page" }
    images              = { attestation = "dry-run" }
    live                = { cpu = "4", memory = "16Gi" }
    signing             = { method = "hmac" }
    traces              = { ratio = 0.1 }
    watermark           = { key_rotation = 1 }
  }
}

run "state_11" {
  variables {
    monitoring              = { emails = ["operator@example.com"], monthly_budget = 50 }
    convert                 = merge(var.convert, { busy_hours = { noon = { from = 11, to = 13, min_instances = 2 } } })
    characters              = { bucket = {}, own = { image = "europe-west1-docker.pkg.dev/demo-project/voice-avatar/train@sha256:1111111111111111111111111111111111111111111111111111111111111111" } }
    firebase_authentication = {}
    traces                  = { ratio = 0.1 }
    watermark               = { key_rotation = 1 }
  }
}

run "state_12" {
  variables {
    monitoring              = { emails = ["operator@example.com"], monthly_budget = 50 }
    app_check               = { app_id = "1:123456789012:web:0123456789abcdef", site_key = "6LcAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA" }
    convert                 = merge(var.convert, { busy_hours = { noon = { from = 11, to = 13, min_instances = 2 } }, gpu = "nvidia-l4" })
    characters              = { bucket = {}, own = { image = "europe-west1-docker.pkg.dev/demo-project/voice-avatar/train@sha256:1111111111111111111111111111111111111111111111111111111111111111" } }
    compat                  = { keys = ["bot"] }
    content_credentials     = { certificates = "-----BEGIN CERTIFICATE-----", kms_key_version = "projects/demo-project/locations/europe-west1/keyRings/r/cryptoKeys/k/cryptoKeyVersions/1" }
    domain                  = { name = "voice.example.com", page_folder = "../tests/page" }
    firebase_authentication = {}
    images                  = { attestation = "dry-run" }
    live                    = { cpu = "4", memory = "16Gi" }
    signing                 = { method = "hmac" }
    traces                  = { ratio = 0.1 }
  }
}

run "state_13" {
  variables {
    compat     = { keys = ["bot"] }
    convert    = merge(var.convert, { gpu = "nvidia-l4" })
    images     = { attestation = "dry-run" }
    live       = { cpu = "4", memory = "16Gi" }
    monitoring = { monthly_budget = 50 }
    signing    = { method = "hmac" }
    traces     = { ratio = 0.1 }
    watermark  = { key_rotation = 1 }
  }
}

run "state_14" {
  variables {
    monitoring              = { emails = ["operator@example.com"], monthly_budget = 50 }
    convert                 = merge(var.convert, { busy_hours = { noon = { from = 11, to = 13, min_instances = 2 } } })
    characters              = { bucket = {}, own = { image = "europe-west1-docker.pkg.dev/demo-project/voice-avatar/train@sha256:1111111111111111111111111111111111111111111111111111111111111111" } }
    compat                  = { keys = ["bot"] }
    content_credentials     = { certificates = "-----BEGIN CERTIFICATE-----", kms_key_version = "projects/demo-project/locations/europe-west1/keyRings/r/cryptoKeys/k/cryptoKeyVersions/1" }
    domain                  = { name = "voice.example.com", page_folder = "../tests/page" }
    firebase_authentication = {}
    images                  = { attestation = "dry-run" }
    live                    = { cpu = "4", memory = "16Gi" }
    signing                 = { method = "hmac" }
  }
}

run "state_15" {
  variables {
    monitoring = { emails = ["operator@example.com"], monthly_budget = 50 }
    app_check  = { app_id = "1:123456789012:web:0123456789abcdef", site_key = "6LcAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA" }
    characters = { bucket = {}, own = { image = "europe-west1-docker.pkg.dev/demo-project/voice-avatar/train@sha256:1111111111111111111111111111111111111111111111111111111111111111" } }
    convert    = merge(var.convert, { gpu = "nvidia-l4" })
    traces     = { ratio = 0.1 }
    watermark  = { key_rotation = 1 }
  }
}

run "state_16" {
  variables {
    monitoring              = { emails = ["operator@example.com"] }
    app_check               = { app_id = "1:123456789012:web:0123456789abcdef", site_key = "6LcAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA" }
    convert                 = merge(var.convert, { busy_hours = { noon = { from = 11, to = 13, min_instances = 2 } } })
    compat                  = { keys = ["bot"] }
    content_credentials     = { certificates = "-----BEGIN CERTIFICATE-----", kms_key_version = "projects/demo-project/locations/europe-west1/keyRings/r/cryptoKeys/k/cryptoKeyVersions/1" }
    domain                  = { name = "voice.example.com", page_folder = "../tests/page" }
    firebase_authentication = {}
    live                    = { cpu = "4", memory = "16Gi" }
    signing                 = { method = "hmac" }
    traces                  = { ratio = 0.1 }
    watermark               = { key_rotation = 1 }
  }
}

run "state_17" {
  variables {
    monitoring = { emails = ["operator@example.com"], monthly_budget = 50 }
    characters = { bucket = {}, own = { image = "europe-west1-docker.pkg.dev/demo-project/voice-avatar/train@sha256:1111111111111111111111111111111111111111111111111111111111111111" } }
    convert    = merge(var.convert, { gpu = "nvidia-l4" })
    domain     = { name = "voice.example.com", page_folder = "../tests/page" }
    images     = { attestation = "dry-run" }
    live       = { cpu = "4", memory = "16Gi" }
    signing    = { method = "hmac" }
  }
}

run "state_18" {
  variables {
    app_check           = { app_id = "1:123456789012:web:0123456789abcdef", site_key = "6LcAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA" }
    convert             = merge(var.convert, { busy_hours = { noon = { from = 11, to = 13, min_instances = 2 } } })
    characters          = { bucket = {}, own = { image = "europe-west1-docker.pkg.dev/demo-project/voice-avatar/train@sha256:1111111111111111111111111111111111111111111111111111111111111111" } }
    compat              = { keys = ["bot"] }
    content_credentials = { certificates = "-----BEGIN CERTIFICATE-----", kms_key_version = "projects/demo-project/locations/europe-west1/keyRings/r/cryptoKeys/k/cryptoKeyVersions/1" }
    images              = { attestation = "dry-run" }
    live                = { cpu = "4", memory = "16Gi" }
    watermark           = { key_rotation = 1 }
  }
}

run "state_19" {
  variables {
    monitoring              = { emails = ["operator@example.com"], monthly_budget = 50 }
    characters              = { bucket = {} }
    content_credentials     = { certificates = "-----BEGIN CERTIFICATE-----", kms_key_version = "projects/demo-project/locations/europe-west1/keyRings/r/cryptoKeys/k/cryptoKeyVersions/1" }
    convert                 = merge(var.convert, { gpu = "nvidia-l4" })
    domain                  = { name = "voice.example.com", page_folder = "../tests/page" }
    firebase_authentication = {}
    signing                 = { method = "hmac" }
    traces                  = { ratio = 0.1 }
    watermark               = { key_rotation = 1 }
  }
}

run "state_20" {
  variables {
    convert                 = merge(var.convert, { busy_hours = { noon = { from = 11, to = 13, min_instances = 2 } }, gpu = "nvidia-l4" })
    compat                  = { keys = ["bot"] }
    firebase_authentication = {}
    images                  = { attestation = "dry-run" }
    live                    = { cpu = "4", memory = "16Gi" }
  }
}

run "state_21" {
  variables {
    monitoring          = { emails = ["operator@example.com"], monthly_budget = 50 }
    app_check           = { app_id = "1:123456789012:web:0123456789abcdef", site_key = "6LcAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA" }
    characters          = { bucket = {}, own = { image = "europe-west1-docker.pkg.dev/demo-project/voice-avatar/train@sha256:1111111111111111111111111111111111111111111111111111111111111111" } }
    content_credentials = { certificates = "-----BEGIN CERTIFICATE-----", kms_key_version = "projects/demo-project/locations/europe-west1/keyRings/r/cryptoKeys/k/cryptoKeyVersions/1" }
    convert             = merge(var.convert, { gpu = "nvidia-l4" })
    domain              = { name = "voice.example.com", page_folder = "../tests/page" }
    images              = { attestation = "dry-run" }
    signing             = { method = "hmac" }
    traces              = { ratio = 0.1 }
    watermark           = { key_rotation = 1 }
  }
}

run "state_22" {
  variables {
    monitoring          = { emails = ["operator@example.com"], monthly_budget = 50 }
    convert             = merge(var.convert, { busy_hours = { noon = { from = 11, to = 13, min_instances = 2 } } })
    characters          = { bucket = {}, own = { image = "europe-west1-docker.pkg.dev/demo-project/voice-avatar/train@sha256:1111111111111111111111111111111111111111111111111111111111111111" } }
    compat              = { keys = ["bot"] }
    content_credentials = { certificates = "-----BEGIN CERTIFICATE-----", kms_key_version = "projects/demo-project/locations/europe-west1/keyRings/r/cryptoKeys/k/cryptoKeyVersions/1" }
    domain              = { name = "voice.example.com", page_folder = "../tests/page" }
    images              = { attestation = "dry-run" }
    live                = { cpu = "4", memory = "16Gi" }
    watermark           = { key_rotation = 1 }
  }
}

run "state_23" {
  variables {
    convert    = merge(var.convert, { busy_hours = { noon = { from = 11, to = 13, min_instances = 2 } }, gpu = "nvidia-l4" })
    characters = { bucket = {}, own = { image = "europe-west1-docker.pkg.dev/demo-project/voice-avatar/train@sha256:1111111111111111111111111111111111111111111111111111111111111111" } }
    compat     = { keys = ["bot"] }
    live       = { cpu = "4", memory = "16Gi" }
    signing    = { method = "hmac" }
    traces     = { ratio = 0.1 }
  }
}

run "state_24" {
  variables {
    app_check           = { app_id = "1:123456789012:web:0123456789abcdef", site_key = "6LcAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA" }
    convert             = merge(var.convert, { busy_hours = { noon = { from = 11, to = 13, min_instances = 2 } }, gpu = "nvidia-l4" })
    characters          = { bucket = {}, own = { image = "europe-west1-docker.pkg.dev/demo-project/voice-avatar/train@sha256:1111111111111111111111111111111111111111111111111111111111111111" } }
    content_credentials = { certificates = "-----BEGIN CERTIFICATE-----", kms_key_version = "projects/demo-project/locations/europe-west1/keyRings/r/cryptoKeys/k/cryptoKeyVersions/1" }
    domain              = { name = "voice.example.com", page_folder = "../tests/page" }
    images              = { attestation = "dry-run" }
    monitoring          = { monthly_budget = 50 }
    watermark           = { key_rotation = 1 }
  }
}

run "state_25" {
  variables {
    monitoring              = { emails = ["operator@example.com"] }
    compat                  = { keys = ["bot"] }
    convert                 = merge(var.convert, { gpu = "nvidia-l4" })
    domain                  = { name = "voice.example.com", page_folder = "../tests/page" }
    firebase_authentication = {}
    live                    = { cpu = "4", memory = "16Gi" }
    signing                 = { method = "hmac" }
  }
}

run "state_26" {
  variables {
    app_check               = { app_id = "1:123456789012:web:0123456789abcdef", site_key = "6LcAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA" }
    convert                 = merge(var.convert, { busy_hours = { noon = { from = 11, to = 13, min_instances = 2 } } })
    characters              = { bucket = {}, own = { image = "europe-west1-docker.pkg.dev/demo-project/voice-avatar/train@sha256:1111111111111111111111111111111111111111111111111111111111111111" } }
    compat                  = { keys = ["bot"] }
    domain                  = { name = "voice.example.com", page_folder = "../tests/page" }
    firebase_authentication = {}
    images                  = { attestation = "dry-run" }
    live                    = { cpu = "4", memory = "16Gi" }
    monitoring              = { monthly_budget = 50 }
    watermark               = { key_rotation = 1 }
  }
}

run "state_27" {
  variables {
    convert                 = merge(var.convert, { busy_hours = { noon = { from = 11, to = 13, min_instances = 2 } }, gpu = "nvidia-l4" })
    characters              = { bucket = {}, own = { image = "europe-west1-docker.pkg.dev/demo-project/voice-avatar/train@sha256:1111111111111111111111111111111111111111111111111111111111111111" } }
    content_credentials     = { certificates = "-----BEGIN CERTIFICATE-----", kms_key_version = "projects/demo-project/locations/europe-west1/keyRings/r/cryptoKeys/k/cryptoKeyVersions/1" }
    domain                  = { name = "voice.example.com", page_folder = "../tests/page" }
    firebase_authentication = {}
    images                  = { attestation = "dry-run" }
    signing                 = { method = "hmac" }
    traces                  = { ratio = 0.1 }
    watermark               = { key_rotation = 1 }
  }
}
