# What numbers and texts in the settings of variables.tf may be: [least, most] of whole numbers, with "any" as
# third of all numbers, or [pattern, what it must be]. The validations there read it.

locals {
  rules = {
    api = {
      concurrency           = [1, 1000] # the most that Cloud Run gives one instance
      max_instances         = [1, 1000]
      min_instances         = [0, 1000]
      rate_limit_per_minute = [1, 10000]
      wait_seconds          = [5, 3000]
      waiting_per_client    = [1, 1000]
      warm_ups_at_once      = [1, 1000]
    }
    characters = {
      default          = ["^[a-z][a-z0-9-]{0,31}$", "a character's id, such as \"mei\": lower-case letters, digits and -, at most 32, the first one a letter"]
      max_bundle_bytes = [1048576, 17179869184]
    }
    compat = {
      characters_per_day = [1, 1000000000]
      keys               = ["^[a-z][a-z0-9-]{0,31}$", "names of clients: lower-case letters, digits and -, at most 32, beginning with a letter"]
      seconds_per_day    = [1, 1000000000, "any"]
    }
    content_credentials = {
      certificates    = ["-----BEGIN CERTIFICATE-----", "certificates as PEM, the signer's first"]
      kms_key_version = ["^projects/[^/]+/locations/[^/]+/keyRings/[^/]+/cryptoKeys/[^/]+/cryptoKeyVersions/[0-9]+$", "projects/…/locations/…/keyRings/…/cryptoKeys/…/cryptoKeyVersions/NUMBER, or null"]
      seconds         = [0.1, 10, "any"]
      time_stamp_url  = ["^https?://", "an address that begins with http:// or https://, or null"]
    }
    convert = {
      concurrency      = [1, 64]
      cpu              = ["^[1248]$", "\"1\", \"2\", \"4\" or \"8\", the sizes that Cloud Run has"]
      deadline_seconds = [10, 500] # Pub/Sub waits at most 600 s, and a request takes longer than its conversion
      gpu              = ["^nvidia-l4$", "\"nvidia-l4\", or null for none"]
      gpu_regions      = [local.of_region, "regions such as \"europe-west4\""]
      image            = [local.of_image, "an image with its digest, NAME@sha256:64 hexadecimal digits: a tag can be moved to another image"]
      max_instances    = [1, 1000]
      memory           = ["^(51[2-9]|5[2-9][0-9]|[6-9][0-9]{2}|[1-9][0-9]{3,})Mi$|^[1-9][0-9]*Gi$", "a size such as \"1Gi\" or \"1536Mi\", and at least 512Mi, the least that Cloud Run gives a second generation instance"]
      min_instances    = [0, 1000]
    }
    dead_letter = {
      delivery_attempts = [5, 100]
      max_instances     = [1, 1000]
    }
    domain = {
      additional = [local.of_domain, "domain names such as \"voice.example.org\", without https:// and without a path"]
      name       = [local.of_domain, "a domain name such as \"voice.example.com\", without https:// and without a path"]
    }
    images = {
      attestation  = ["^(off|dry-run|required)$", "\"off\", \"dry-run\" or \"required\""]
      build_region = [local.of_region, "a region of Cloud Build such as \"europe-west1\", or null for the region of everything else"]
      repository   = ["^projects/[^/]+/locations/[^/]+/repositories/[^/]+$", "projects/P/locations/L/repositories/R, or null for one of the module's own"]
    }
    limits = {
      result_url_seconds = [60, 86400] # after a day the result itself is deleted
      text_characters    = [1, 2000]
      upload_bytes       = [65536, 104857600]
      upload_url_seconds = [60, 3600]
    }
    live = {
      cpu           = ["^[1248]$", "\"1\", \"2\", \"4\" or \"8\""]
      key_rotation  = [0, 1000]
      max_instances = [1, 1000]
      memory        = ["^[1-9][0-9]*(Mi|Gi)$", "a number with Mi or Gi, such as \"2Gi\""]
      sockets       = [1, 1000]
    }
    monitoring = {
      channels               = ["^projects/[^/]+/notificationChannels/[0-9]+$", "projects/P/notificationChannels/N; gcloud beta monitoring channels list shows them"]
      emails                 = ["^[^@\\s]+@[^@\\s]+\\.[^@\\s]+$", "e-mail addresses such as \"operator@example.com\""]
      error_rate_objective   = [0.0001, 0.9999, "any"]
      log_level              = ["^(DEBUG|INFO|WARNING|ERROR)$", "DEBUG, INFO, WARNING or ERROR; the dashboard and the alerts need INFO"]
      monthly_budget         = [1, 1000000000]
      wait_objective_seconds = [0.1, 600, "any"]
      # With a smaller share, not even a month of late results would be seen as too many.
      wait_objective_share = [0.93, 0.9999, "any"]
    }
    notice = {
      languages = ["^(ja|en)$", "ja, en or both"]
      position  = ["^(off|before|after)$", "\"off\", \"before\" or \"after\""]
    }
    on_upload = {
      max_instances = [1, 1000]
      min_instances = [0, 1000]
    }
    operator = {
      privacy = ["^https://", "the https address of your privacy policy, such as \"https://example.com/privacy\""]
    }
    own_characters = {
      at_once          = [1, 20]
      backup_days      = [0, 98] # the 14 weeks that Google keeps a backup at most
      image            = [local.of_image, "an image with its digest, NAME@sha256:64 hexadecimal digits"]
      per_day          = [1, 1000]
      per_owner        = [1, 100]
      pytorch_index    = ["^https://[^,\\s]+$", "the https address of PyTorch's packages for CPUs, which https://pytorch.org/get-started/locally/ shows after --index-url (Linux, Pip, CPU)"]
      training_seconds = [300, 43200]
    }
    signing = {
      key_rotation = [0, 1000]
      method       = ["^(iam|hmac)$", "\"iam\", which needs no secret, or \"hmac\", which needs no call for each address"]
    }
    storage = {
      database_id        = ["^(\\(default\\)|[a-z][a-z0-9-]{2,61}[a-z0-9])$", "\"(default)\", or 4 to 63 lower-case letters, digits and hyphens, beginning with a letter and not ending with a hyphen"]
      firestore_location = ["^(eur3|nam[57]|[a-z]+-[a-z]+[0-9]+)$", "a region such as \"europe-west1\" or a multi-region (\"eur3\", \"nam5\", \"nam7\")"]
      kms_key            = ["^projects/[^/]+/locations/[^/]+/keyRings/[^/]+/cryptoKeys/[^/]+$", "projects/P/locations/REGION/keyRings/R/cryptoKeys/K"]
      shards             = [1, 32]
    }
    traces = {
      ratio = [0.0001, 1, "any"]
    }
    vpc = {
      egress     = ["^(ALL_TRAFFIC|PRIVATE_RANGES_ONLY)$", "\"PRIVATE_RANGES_ONLY\" or \"ALL_TRAFFIC\""]
      network    = [".", "the name of a network"]
      subnetwork = [".", "the name of a subnetwork in the region"]
    }
    watermark = {
      bits         = [0, 65535]
      key_rotation = [0, 20]
    }
  }

  must = { for group, rules in local.rules : group => { for name, rule in rules :
    name => can(tonumber(rule[0])) ? "a ${length(rule) == 3 ? "" : "whole "}number from ${rule[0]} to ${rule[1]}" : rule[1]
  } }

  of_region = "^[a-z]+-[a-z]+[0-9]+$"
  of_domain = "^([a-z0-9]([a-z0-9-]*[a-z0-9])?\\.)+[a-z]{2,}$"
  of_image  = "^[^@\\s]+@sha256:[0-9a-f]{64}$"
}
