# Written by python -m infra.terraform.generation; change the module's variables.tf instead.

locals {
  earlier = ["api_concurrency", "domain_restricted_sharing", "public_api", "rate_limit_per_minute", "wait_seconds", "waiting_per_client", "warm_ups_at_once", "default_character", "max_bundle_bytes", "own_characters", "busy_hours", "conversion_deadline_seconds", "convert_concurrency", "convert_cpu", "convert_gpu", "convert_image", "convert_memory", "gpu_regions", "max_instances", "min_instances", "delivery_attempts", "additional_domains", "cloud_armor", "custom_domain", "external_load_balancer", "keep_run_address", "build_region", "repository", "max_text_characters", "max_upload_bytes", "recording_seconds", "result_url_seconds", "upload_url_seconds", "alert_emails", "error_rate_objective", "log_level", "monthly_budget", "notification_channels", "wait_objective_seconds", "wait_objective_share", "notice_languages", "function_min_instances", "hmac_key_rotation", "database_id", "firestore_location", "kms_key", "upload_shards"]
  settings = {
    api                     = ["concurrency", "domain_restricted_sharing", "max_instances", "min_instances", "public", "rate_limit_per_minute", "wait_seconds", "waiting_per_client", "warm_ups_at_once"]
    app_check               = ["app_id", "firestore", "site_key"]
    canary                  = ["percent", "stable_revision"]
    characters              = ["bucket", "bucket.memory_mib", "default", "max_bundle_bytes", "own", "own.at_once", "own.backup_days", "own.image", "own.per_day", "own.per_owner", "own.public", "own.pytorch_index", "own.training_seconds"]
    compat                  = ["characters_per_day", "keys", "openai_voices", "seconds_per_day", "voicevox_alone", "voicevox_speakers"]
    content_credentials     = ["certificates", "earlier_certificates", "kms_key_version", "seconds", "time_stamp_url"]
    convert                 = ["busy_hours", "busy_hours.*.days", "busy_hours.*.from", "busy_hours.*.min_instances", "busy_hours.*.time_zone", "busy_hours.*.to", "concurrency", "cpu", "deadline_seconds", "gpu", "gpu_regions", "image", "kokoro", "max_instances", "memory", "min_instances"]
    dead_letter             = ["delivery_attempts", "max_instances"]
    domain                  = ["additional", "cloud_armor", "external_load_balancer", "keep_run_address", "name", "page_folder"]
    firebase_authentication = ["anonymous", "email"]
    images                  = ["attestation", "build_region", "repository"]
    limits                  = ["recording_seconds", "recording_seconds.max", "recording_seconds.min", "result_url_seconds", "text_characters", "upload_bytes", "upload_url_seconds"]
    live                    = ["cpu", "hearings", "key_rotation", "max_instances", "memory", "sockets"]
    monitoring              = ["channels", "emails", "error_rate_objective", "log_level", "monthly_budget", "wait_objective_seconds", "wait_objective_share"]
    notice                  = ["languages", "position"]
    on_upload               = ["max_instances", "min_instances"]
    operator                = ["contact", "name", "privacy"]
    quota                   = ["cpus", "gpus", "memory_gib"]
    signing                 = ["key_rotation", "method"]
    storage                 = ["database_id", "firestore_location", "kms_key", "shards"]
    traces                  = ["ratio"]
    vpc                     = ["egress", "network", "subnetwork", "tags"]
    watermark               = ["bits", "character_bits", "key_rotation"]
  }
}

variable "allowed_origins" {
  description = "Origins of the sites that may call the api, upload and play results, such as \"https://example.com\"."
  type        = list(string)
}

variable "api" {
  description = "The function that browsers call."
  type        = any
  default     = null

  validation {
    condition     = length(setsubtract(try(keys(var.api), []), local.settings.api)) == 0
    error_message = "api has no ${join(", ", setsubtract(try(keys(var.api), []), local.settings.api))}; it has ${join(", ", local.settings.api)}."
  }
}

variable "app_check" {
  description = "Lets only your own pages use the api: requests about voices must carry a token of Firebase App Check with reCAPTCHA Enterprise, which costs US$ 1 per 1000 visitors beyond 10 000 a month (docs/deploy.md). The Firebase console shows app_id and site_key when you register the page there. null: off."
  type        = any
  default     = null

  validation {
    condition     = length(setsubtract(try(keys(var.app_check), []), local.settings.app_check)) == 0
    error_message = "app_check has no ${join(", ", setsubtract(try(keys(var.app_check), []), local.settings.app_check))}; it has ${join(", ", local.settings.app_check)}."
  }
}

variable "canary" {
  description = "Sends only a part of the conversions to the converter's newest revision, and the others to one that exists. null: all to the newest."
  type        = any
  default     = null

  validation {
    condition     = length(setsubtract(try(keys(var.canary), []), local.settings.canary)) == 0
    error_message = "canary has no ${join(", ", setsubtract(try(keys(var.canary), []), local.settings.canary))}; it has ${join(", ", local.settings.canary)}."
  }
}

variable "characters" {
  description = "Who speaks."
  type        = any
  default     = null

  validation {
    condition     = length(setsubtract(concat(try(keys(var.characters), []), [for name in try(keys(var.characters.bucket), []) : "bucket.${name}"], [for name in try(keys(var.characters.own), []) : "own.${name}"]), local.settings.characters)) == 0
    error_message = "characters has no ${join(", ", setsubtract(concat(try(keys(var.characters), []), [for name in try(keys(var.characters.bucket), []) : "bucket.${name}"], [for name in try(keys(var.characters.own), []) : "own.${name}"]), local.settings.characters))}; it has ${join(", ", local.settings.characters)}."
  }
}

variable "compat" {
  description = "Serves the APIs of OpenAI, ElevenLabs and VOICEVOX, and text in pieces, beside live, which it needs. null: off. Their key is the secret NAME-compat, their address the output compat_url. They speak with the characters of the image, not with those of the bucket."
  type        = any
  default     = null

  validation {
    condition     = length(setsubtract(try(keys(var.compat), []), local.settings.compat)) == 0
    error_message = "compat has no ${join(", ", setsubtract(try(keys(var.compat), []), local.settings.compat))}; it has ${join(", ", local.settings.compat)}."
  }
}

variable "content_credentials" {
  description = "Signs results with Content Credentials (C2PA): made by this software, synthetic speech, the character with its owner's licence and credit, and when. null: off. docs/deploy.md says how to get a certificate that others trust."
  type        = any
  default     = null

  validation {
    condition     = length(setsubtract(try(keys(var.content_credentials), []), local.settings.content_credentials)) == 0
    error_message = "content_credentials has no ${join(", ", setsubtract(try(keys(var.content_credentials), []), local.settings.content_credentials))}; it has ${join(", ", local.settings.content_credentials)}."
  }
}

variable "content_credentials_key" {
  description = "The private key of content_credentials as PEM (PKCS 8, curve P-256), where it is not in Cloud KMS. It goes into Secret Manager when certificates change, and not into the state. A saved plan has it, as it has every variable."
  type        = string
  default     = null
  sensitive   = true
}

variable "convert" {
  description = "The container that converts."
  type        = any
  default     = null

  validation {
    condition     = length(setsubtract(concat(try(keys(var.convert), []), flatten([for each in try(values(var.convert.busy_hours), []) : [for name in try(keys(each), []) : "busy_hours.*.${name}"]])), local.settings.convert)) == 0
    error_message = "convert has no ${join(", ", setsubtract(concat(try(keys(var.convert), []), flatten([for each in try(values(var.convert.busy_hours), []) : [for name in try(keys(each), []) : "busy_hours.*.${name}"]])), local.settings.convert))}; it has ${join(", ", local.settings.convert)}."
  }
}

variable "dead_letter" {
  description = "The function that decides about messages which were delivered too often."
  type        = any
  default     = null

  validation {
    condition     = length(setsubtract(try(keys(var.dead_letter), []), local.settings.dead_letter)) == 0
    error_message = "dead_letter has no ${join(", ", setsubtract(try(keys(var.dead_letter), []), local.settings.dead_letter))}; it has ${join(", ", local.settings.dead_letter)}."
  }
}

variable "deletion_protection" {
  description = "Whether a destroy is refused for the database and for buckets that are not empty. The services hold no data and are never protected."
  type        = bool
  default     = null
}

variable "domain" {
  description = "A domain for the api, and for the page, through a load balancer."
  type        = any
  default     = null

  validation {
    condition     = length(setsubtract(try(keys(var.domain), []), local.settings.domain)) == 0
    error_message = "domain has no ${join(", ", setsubtract(try(keys(var.domain), []), local.settings.domain))}; it has ${join(", ", local.settings.domain)}."
  }
}

variable "firebase_authentication" {
  description = "Lets signed-in visitors own their voices, and chooses the ways to sign in. null: no owners."
  type        = any
  default     = null

  validation {
    condition     = length(setsubtract(try(keys(var.firebase_authentication), []), local.settings.firebase_authentication)) == 0
    error_message = "firebase_authentication has no ${join(", ", setsubtract(try(keys(var.firebase_authentication), []), local.settings.firebase_authentication))}; it has ${join(", ", local.settings.firebase_authentication)}."
  }
}

variable "images" {
  description = "Where the images of the containers are built and kept."
  type        = any
  default     = null

  validation {
    condition     = length(setsubtract(try(keys(var.images), []), local.settings.images)) == 0
    error_message = "images has no ${join(", ", setsubtract(try(keys(var.images), []), local.settings.images))}; it has ${join(", ", local.settings.images)}."
  }
}

variable "labels" {
  description = "Labels of all resources that can have some."
  type        = map(string)
  default     = null
}

variable "limits" {
  description = "What visitors may send, and how long addresses work."
  type        = any
  default     = null

  validation {
    condition     = length(setsubtract(concat(try(keys(var.limits), []), [for name in try(keys(var.limits.recording_seconds), []) : "recording_seconds.${name}"]), local.settings.limits)) == 0
    error_message = "limits has no ${join(", ", setsubtract(concat(try(keys(var.limits), []), [for name in try(keys(var.limits.recording_seconds), []) : "recording_seconds.${name}"]), local.settings.limits))}; it has ${join(", ", local.settings.limits)}."
  }
}

variable "live" {
  description = "Converts recordings over WebSockets while visitors speak: the result is there when they stop. null: off. An instance is paid for as long as a connection is open: a visitor who speaks for 5 s alone costs about US$ 0.33 per 1000 with 2 CPUs, ten at a time a tenth of that. The instances count towards the quota: lower convert.max_instances, or raise quota."
  type        = any
  default     = null

  validation {
    condition     = length(setsubtract(try(keys(var.live), []), local.settings.live)) == 0
    error_message = "live has no ${join(", ", setsubtract(try(keys(var.live), []), local.settings.live))}; it has ${join(", ", local.settings.live)}."
  }
}

variable "monitoring" {
  description = "Alerts, their thresholds, the log and the budget."
  type        = any
  default     = null

  validation {
    condition     = length(setsubtract(try(keys(var.monitoring), []), local.settings.monitoring)) == 0
    error_message = "monitoring has no ${join(", ", setsubtract(try(keys(var.monitoring), []), local.settings.monitoring))}; it has ${join(", ", local.settings.monitoring)}."
  }
}

variable "name" {
  description = "Prefix of all names, so that a project can hold other things too."
  type        = string
  default     = null
}

variable "notice" {
  description = "A short spoken notice in each result that it is synthetic, in the character's own voice. Not in what is heard while somebody speaks, nor in the APIs of other programs."
  type        = any
  default     = null

  validation {
    condition     = length(setsubtract(try(keys(var.notice), []), local.settings.notice)) == 0
    error_message = "notice has no ${join(", ", setsubtract(try(keys(var.notice), []), local.settings.notice))}; it has ${join(", ", local.settings.notice)}."
  }
}

variable "on_upload" {
  description = "The function that Cloud Storage tells about recordings."
  type        = any
  default     = null

  validation {
    condition     = length(setsubtract(try(keys(var.on_upload), []), local.settings.on_upload)) == 0
    error_message = "on_upload has no ${join(", ", setsubtract(try(keys(var.on_upload), []), local.settings.on_upload))}; it has ${join(", ", local.settings.on_upload)}."
  }
}

variable "operator" {
  description = "Who runs the service: the page names it to visitors before they record or type. null: the page says \"This service\"."
  type        = any
  default     = null

  validation {
    condition     = length(setsubtract(try(keys(var.operator), []), local.settings.operator)) == 0
    error_message = "operator has no ${join(", ", setsubtract(try(keys(var.operator), []), local.settings.operator))}; it has ${join(", ", local.settings.operator)}."
  }
}

variable "project_id" {
  description = "The Google Cloud project; it exists and has a billing account."
  type        = string

  # Terraform only warns about a variable that it does not know, and goes on with the defaults.
  validation {
    condition = length(var.project_id) == 0 || length(setintersection(flatten([for name in fileset(path.module, "*.tfvars") : regexall("(?m)^([a-z_]+) *=", file("${path.module}/${name}"))]), local.earlier)) == 0
    error_message = join(" ", [
      "Here are names of an earlier version: ${join(", ", setintersection(flatten([for name in fileset(path.module, "*.tfvars") : regexall("(?m)^([a-z_]+) *=", file("${path.module}/${name}"))]), local.earlier))}.",
      "docs/deploy.md, \"Names of earlier versions\", has those of today.",
      "Indent settings that are in a group (terraform fmt)."
    ])
  }
}

variable "quota" {
  description = "The project's quota for Cloud Run in the region. The defaults are what many new projects have; older projects have more."
  type        = any
  default     = null

  validation {
    condition     = length(setsubtract(try(keys(var.quota), []), local.settings.quota)) == 0
    error_message = "quota has no ${join(", ", setsubtract(try(keys(var.quota), []), local.settings.quota))}; it has ${join(", ", local.settings.quota)}."
  }
}

variable "region" {
  description = "Where everything runs and is stored."
  type        = string
}

variable "signing" {
  description = "How addresses of uploads and results are signed."
  type        = any
  default     = null

  validation {
    condition     = length(setsubtract(try(keys(var.signing), []), local.settings.signing)) == 0
    error_message = "signing has no ${join(", ", setsubtract(try(keys(var.signing), []), local.settings.signing))}; it has ${join(", ", local.settings.signing)}."
  }
}

variable "storage" {
  description = "The database, the buckets and their keys."
  type        = any
  default     = null

  validation {
    condition     = length(setsubtract(try(keys(var.storage), []), local.settings.storage)) == 0
    error_message = "storage has no ${join(", ", setsubtract(try(keys(var.storage), []), local.settings.storage))}; it has ${join(", ", local.settings.storage)}."
  }
}

variable "traces" {
  description = "Sends the way of each voice through all services to Cloud Trace, as OpenTelemetry spans. A voice has some twenty spans, and Google charges for them by the million. null: off."
  type        = any
  default     = null

  validation {
    condition     = length(setsubtract(try(keys(var.traces), []), local.settings.traces)) == 0
    error_message = "traces has no ${join(", ", setsubtract(try(keys(var.traces), []), local.settings.traces))}; it has ${join(", ", local.settings.traces)}."
  }
}

variable "vpc" {
  description = "Sends what converter and live ask of others through a network of your own (Direct VPC egress), for example so that a firewall sees it. The functions stay outside. null: none."
  type        = any
  default     = null

  validation {
    condition     = length(setsubtract(try(keys(var.vpc), []), local.settings.vpc)) == 0
    error_message = "vpc has no ${join(", ", setsubtract(try(keys(var.vpc), []), local.settings.vpc))}; it has ${join(", ", local.settings.vpc)}."
  }
}

variable "watermark" {
  description = "Marks the sound of every result with 16 bits that only this deployment can find. null: off."
  type        = any
  default     = null

  validation {
    condition     = length(setsubtract(try(keys(var.watermark), []), local.settings.watermark)) == 0
    error_message = "watermark has no ${join(", ", setsubtract(try(keys(var.watermark), []), local.settings.watermark))}; it has ${join(", ", local.settings.watermark)}."
  }
}
