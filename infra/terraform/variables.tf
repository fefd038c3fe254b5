variable "additional_domains" {
  description = "More domains under which the load balancer of custom_domain serves the same; their A records point to load_balancer_address, too."
  type        = set(string)
  default     = []
  nullable    = false

  validation {
    condition     = alltrue([for domain in var.additional_domains : can(regex("^([a-z0-9]([a-z0-9-]*[a-z0-9])?\\.)+[a-z]{2,}$", domain))])
    error_message = "additional_domains holds something that is not a domain name; write names such as \"voice.example.org\", without https:// and without a path."
  }

  validation {
    condition     = length(var.additional_domains) == 0 || try(!contains(var.additional_domains, var.custom_domain), false)
    error_message = "additional_domains needs custom_domain, which is the first domain, and must not repeat it."
  }

  validation {
    condition     = length(var.additional_domains) <= 99
    error_message = "additional_domains must be 99 at most: Certificate Manager gives a project 100 certificates."
  }
}

variable "alert_emails" {
  description = "Addresses that alerts are sent to."
  type        = set(string)
  default     = []
  nullable    = false

  validation {
    condition     = alltrue([for address in var.alert_emails : can(regex("^[^@\\s]+@[^@\\s]+\\.[^@\\s]+$", address))])
    error_message = "alert_emails holds something that is not an e-mail address; write addresses such as \"operator@example.com\"."
  }
}

variable "allowed_origins" {
  description = "Origins of the sites that may call the api, upload and play results, such as \"https://example.com\"."
  type        = list(string)
  nullable    = false

  validation {
    condition     = length(var.allowed_origins) > 0
    error_message = "allowed_origins is empty; name at least the page's own origin, such as \"https://example.com\"."
  }

  validation {
    condition     = alltrue([for origin in var.allowed_origins : can(regex("^(https://[a-z0-9.-]+(:[0-9]+)?|http://(localhost|127\\.0\\.0\\.1)(:[0-9]+)?)$", origin))])
    error_message = "allowed_origins holds something that is not an origin; write scheme, host and perhaps a port, with https, without path and without *, such as \"https://example.com\"."
  }
}

variable "api_concurrency" {
  description = "Requests that one instance of the api serves at once, waiting ones included."
  type        = number
  default     = 500
  nullable    = false

  validation {
    condition     = var.api_concurrency >= 1 && var.api_concurrency <= 1000 && floor(var.api_concurrency) == var.api_concurrency
    error_message = "api_concurrency must be a whole number from 1 to 1000, which is the most that Cloud Run gives one instance."
  }
}

variable "app_check" {
  description = "Lets only your own pages use the api: requests about voices must carry a token of Firebase App Check with reCAPTCHA Enterprise, which costs US$ 1 per 1000 visitors beyond 10 000 a month (docs/deploy.md). The Firebase console shows `app_id` and `site_key` when you register the page there. `firestore` requires the token for reads of Firestore, too, from every app of the project. null switches this off."
  type = object({
    app_id    = string
    firestore = optional(bool, false)
    site_key  = string
  })
  default = null

  validation {
    condition     = var.app_check == null || try(can(regex("^1:[0-9]+:web:[0-9a-f]+$", var.app_check.app_id)) && can(regex("^[0-9A-Za-z_-]{20,}$", var.app_check.site_key)), false)
    error_message = "app_check needs the page's app_id (\"1:123456789012:web:0123456789abcdef\") and the site_key of reCAPTCHA Enterprise, both from the Firebase console."
  }
}

variable "build_region" {
  description = "Region in which Cloud Build builds the conversion container's image; null means `region`. Some new projects can build only in us-central1, us-west2, europe-west1, asia-east1, australia-southeast1 and southamerica-east1. The functions are always built in `region`."
  type        = string
  default     = null

  validation {
    condition     = var.build_region == null || can(regex("^[a-z]+-[a-z]+[0-9]+$", var.build_region))
    error_message = "build_region must be a region of Cloud Build such as \"europe-west1\", or null for the region of everything else."
  }
}

variable "busy_hours" {
  description = "Weekly hours with more warm instances, by name. `days` as in cron (\"1-5\" or \"MON-FRI\"), `from` and `to` in full hours."
  type = map(object({
    days          = optional(string, "*")
    from          = number
    min_instances = number
    time_zone     = optional(string, "Etc/UTC")
    to            = number
  }))
  default  = {}
  nullable = false

  validation {
    condition     = alltrue([for name in keys(var.busy_hours) : can(regex("^[a-z][a-z0-9-]{0,19}$", name))])
    error_message = "busy_hours has a name that is not made of up to 20 lower-case letters, digits and hyphens; it becomes part of a Cloud Scheduler job's name."
  }

  validation {
    condition = alltrue([
      for hours in values(var.busy_hours) :
      hours.from >= 0 && hours.to <= 24 && hours.from < hours.to && floor(hours.from) == hours.from && floor(hours.to) == hours.to
    ])
    error_message = "busy_hours needs full hours with 0 <= from < to <= 24; split hours that go past midnight into two entries."
  }

  validation {
    condition     = alltrue([for hours in values(var.busy_hours) : can(regex("^[0-9A-Z*,-]+$", hours.days))])
    error_message = "busy_hours has days that are not written as in cron; write \"*\", \"1-5\", \"MON-FRI\" or \"SAT,SUN\"."
  }

  validation {
    condition     = alltrue([for hours in values(var.busy_hours) : hours.min_instances >= 0 && floor(hours.min_instances) == hours.min_instances])
    error_message = "busy_hours has a min_instances that is not a whole number of 0 or more."
  }
}

variable "canary" {
  description = "Sends only `percent` of the conversions to the converter's newest revision, and the others to `stable_revision`, a revision that exists (output convert_revision before the apply). null: all to the newest."
  type = object({
    percent         = number
    stable_revision = string
  })
  default = null

  validation {
    condition     = var.canary == null || try(var.canary.percent >= 0 && var.canary.percent <= 99 && floor(var.canary.percent) == var.canary.percent, false)
    error_message = "canary.percent must be a whole number from 0 to 99; set canary to null to send everything to the newest revision."
  }

  validation {
    condition     = var.canary == null || try(can(regex("^${var.name}-convert-[a-z0-9-]+$", var.canary.stable_revision)), false)
    error_message = "canary.stable_revision must be the name of a revision of the converter, such as \"voice-avatar-convert-00012-abc\"; terraform output -raw convert_revision prints the newest."
  }
}

variable "characters" {
  description = "A bucket of character bundles that are offered without a deployment; null for none. `memory_mib` is the most that the graphs of all bundles may have together that one process keeps loaded."
  type = object({
    memory_mib = optional(number, 1024)
  })
  default = null

  validation {
    condition     = var.characters == null || try(floor(var.characters.memory_mib) == var.characters.memory_mib && var.characters.memory_mib >= 1, false)
    error_message = "characters needs memory_mib as a whole number of MiB, 1 or more."
  }

  validation {
    condition     = var.characters == null || try(var.characters.memory_mib * 1048576 >= var.max_bundle_bytes, false)
    error_message = "characters has a memory_mib of less than max_bundle_bytes, so that the largest bundle could not be loaded: raise memory_mib, or lower max_bundle_bytes."
  }
}

variable "cloud_armor" {
  description = "Whether the load balancer of custom_domain limits the requests of each address (US$ 7 a month and US$ 0.75 per million requests). A project on a free trial has a quota of 0 for SECURITY_POLICIES: set this to false there. The api limits requests in any case."
  type        = bool
  default     = true
  nullable    = false
}

variable "compat" {
  description = "Serves the APIs of OpenAI, ElevenLabs and VOICEVOX, and text in pieces, beside live, which it needs. null: off. Their key is the secret NAME-compat, their address the output compat_url. keys names further keys, one for each client: they are in the secret NAME-compat-keys, the log says what each has had, and characters_per_day and seconds_per_day limit each of them in each instance: with several instances a client can have several times as much. They speak with the characters of the image, not with those of the bucket that characters names. openai_voices gives characters the names that clients of OpenAI know, voicevox_speakers the numbers that bots know, as in { \"1\" = \"mei\" }. voicevox_alone keeps presets and words in the one instance, until it stops, and needs live.max_instances = 1."
  type = object({
    characters_per_day = optional(number)
    keys               = optional(set(string), [])
    openai_voices      = optional(map(string), {})
    seconds_per_day    = optional(number)
    voicevox_alone     = optional(bool, false)
    voicevox_speakers  = optional(map(string), {})
  })
  default = null

  validation {
    condition     = var.compat == null || var.live != null
    error_message = "compat is served by live: set live, too, as in live = {}."
  }

  validation {
    condition     = var.compat == null || try(!var.compat.voicevox_alone || try(var.live.max_instances, 1) == 1, false)
    error_message = "compat.voicevox_alone needs live.max_instances = 1: another instance would not know the presets and words."
  }

  validation {
    condition     = var.compat == null || try(alltrue([for number, character in var.compat.voicevox_speakers : can(regex("^[0-9]{1,10}$", number)) && can(regex("^[a-z][a-z0-9-]{0,31}$", character))]), false)
    error_message = "compat.voicevox_speakers must lead from whole numbers to ids of characters, as in { \"1\" = \"mei\" }."
  }

  validation {
    condition     = var.compat == null || try(alltrue([for name, character in var.compat.openai_voices : can(regex("^[^=,]{1,64}$", name)) && can(regex("^[a-z][a-z0-9-]{0,31}$", character))]), false)
    error_message = "compat.openai_voices must lead from names without = and , to ids of characters, as in { alloy = \"mei\" }."
  }

  validation {
    condition     = var.compat == null || try(alltrue([for name in var.compat.keys : can(regex("^[a-z][a-z0-9-]{0,31}$", name))]), false)
    error_message = "compat.keys must be names of clients: lower-case letters, digits and -, at most 32, beginning with a letter."
  }

  validation {
    condition     = var.compat == null || try(alltrue([for most in [var.compat.characters_per_day, var.compat.seconds_per_day] : most == null || try(most >= 1, false)]), false)
    error_message = "compat.characters_per_day and compat.seconds_per_day must be 1 or more, or null."
  }
}

variable "content_credentials" {
  description = "Signs results with Content Credentials (C2PA): made by this software, synthetic speech, the character with its owner's licence and credit, and when. null: off. certificates is the signer's certificate and those of its authorities as PEM, the signer's first; the key on the curve P-256 is either kms_key_version, a version of a key in Cloud KMS (EC_SIGN_P256_SHA256), or content_credentials_key. earlier_certificates are those of signers before it, whose results are still recognised. time_stamp_url is an RFC 3161 time-stamp authority. A result waits at most seconds for its signature and then goes out without it. docs/deploy.md says how to get a certificate that others trust."
  type = object({
    certificates         = string
    earlier_certificates = optional(string, "")
    kms_key_version      = optional(string)
    seconds              = optional(number, 1)
    time_stamp_url       = optional(string)
  })
  default = null

  validation {
    condition     = var.content_credentials == null || can(regex("-----BEGIN CERTIFICATE-----", var.content_credentials.certificates))
    error_message = "content_credentials.certificates must be certificates as PEM, the signer's first."
  }

  validation {
    condition     = try(var.content_credentials.kms_key_version, null) == null || can(regex("^projects/[^/]+/locations/[^/]+/keyRings/[^/]+/cryptoKeys/[^/]+/cryptoKeyVersions/[0-9]+$", var.content_credentials.kms_key_version))
    error_message = "content_credentials.kms_key_version must be projects/…/locations/…/keyRings/…/cryptoKeys/…/cryptoKeyVersions/NUMBER, or null."
  }

  validation {
    condition     = var.content_credentials == null || try(var.content_credentials.seconds > 0 && var.content_credentials.seconds <= 10, false)
    error_message = "content_credentials.seconds must be more than 0 and at most 10."
  }

  validation {
    condition     = try(var.content_credentials.time_stamp_url, null) == null || can(regex("^https?://", var.content_credentials.time_stamp_url))
    error_message = "content_credentials.time_stamp_url must begin with http:// or https://, or be null."
  }
}

variable "content_credentials_key" {
  description = "The private key of content_credentials as PEM (PKCS 8, curve P-256), where it is not in Cloud KMS. It goes into Secret Manager when certificates change, and not into the state. A saved plan has it, as it has every variable."
  type        = string
  default     = null
  sensitive   = true

  validation {
    condition     = var.content_credentials_key == null || can(regex("-----BEGIN PRIVATE KEY-----", var.content_credentials_key))
    error_message = "content_credentials_key must be a private key as PEM (PKCS 8), or null."
  }
}

variable "conversion_deadline_seconds" {
  description = "How long one conversion may take. All other timeouts follow from it."
  type        = number
  default     = 60
  nullable    = false

  validation {
    condition     = var.conversion_deadline_seconds >= 10 && var.conversion_deadline_seconds <= 500 && floor(var.conversion_deadline_seconds) == var.conversion_deadline_seconds
    error_message = "conversion_deadline_seconds must be a whole number from 10 to 500: Pub/Sub waits at most 600 s for an answer, and a request takes longer than its conversion."
  }
}

variable "convert_concurrency" {
  description = "Conversions at once in one instance of the conversion container; null makes it twice its CPUs, because a conversion also waits."
  type        = number
  default     = null

  validation {
    condition     = var.convert_concurrency == null || try(var.convert_concurrency >= 1 && var.convert_concurrency <= 64 && floor(var.convert_concurrency) == var.convert_concurrency, false)
    error_message = "convert_concurrency must be a whole number from 1 to 64, or null for twice the CPUs; the more of them share a CPU, the slower is each."
  }
}

variable "convert_cpu" {
  description = "CPUs of one instance of the conversion container; 4 need at least 2Gi of convert_memory, 8 at least 4Gi."
  type        = string
  default     = "2"
  nullable    = false

  validation {
    condition     = contains(["1", "2", "4", "8"], var.convert_cpu)
    error_message = "convert_cpu must be \"1\", \"2\", \"4\" or \"8\", the sizes that Cloud Run has."
  }
}

variable "convert_gpu" {
  description = "GPU of each instance of the conversion container, \"nvidia-l4\"; null for none. It needs convert_cpu = \"4\" and convert_memory = \"16Gi\" or more, an explicit min_instances, a region that has it (gpu_regions), and a quota for it (quota.gpus). With convert_image, that image must be the variant with CUDA."
  type        = string
  default     = null

  validation {
    condition     = var.convert_gpu == null || try(contains(["nvidia-l4"], var.convert_gpu), false)
    error_message = "convert_gpu must be \"nvidia-l4\", or null for none."
  }
}

variable "convert_image" {
  description = "An image that is built already, pinned by its digest; null has the apply build one from the source. With busy_hours, let the service account NAME-schedule read the image where it lies (roles/artifactregistry.reader)."
  type        = string
  default     = null

  validation {
    condition     = var.convert_image == null || can(regex("^[^@\\s]+@sha256:[0-9a-f]{64}$", var.convert_image))
    error_message = "convert_image must name its digest, NAME@sha256:64 hexadecimal digits: a tag can be moved to another image."
  }
}

variable "convert_memory" {
  description = "Memory of one instance of the conversion container."
  type        = string
  default     = "1Gi"
  nullable    = false

  validation {
    condition     = can(regex("^([1-9][0-9]*)(Mi|Gi)$", var.convert_memory)) && !can(regex("^([1-4]?[0-9]{1,2}|50[0-9]|51[01])Mi$", var.convert_memory))
    error_message = "convert_memory must be a size such as \"1Gi\" or \"1536Mi\", and at least 512Mi, the least that Cloud Run gives a second generation instance."
  }
}

variable "custom_domain" {
  description = "Domain for the api, through a load balancer with Cloud Armor; null serves it under its run.app address."
  type        = string
  default     = null

  validation {
    condition     = var.custom_domain == null || can(regex("^([a-z0-9]([a-z0-9-]*[a-z0-9])?\\.)+[a-z]{2,}$", var.custom_domain))
    error_message = "custom_domain must be a domain name such as \"voice.example.com\", without https:// and without a path."
  }
}

variable "database_id" {
  description = "The Firestore database with the documents of voices, and its rules. In a project whose default database belongs to something else, or to another deployment, write a name of your own: this one then has a database of its own beside it. It cannot be changed later without losing the documents."
  type        = string
  default     = "(default)"
  nullable    = false

  validation {
    condition     = can(regex("^(\\(default\\)|[a-z][a-z0-9-]{2,61}[a-z0-9])$", var.database_id))
    error_message = "database_id must be \"(default)\", or 4 to 63 lower-case letters, digits and hyphens, beginning with a letter and not ending with a hyphen."
  }
}

variable "default_character" {
  description = "The character of voices that name none, by its id; null: the first one of the image. It must be one of the image or of the bucket of characters."
  type        = string
  default     = null

  validation {
    condition     = var.default_character == null || can(regex("^[a-z][a-z0-9-]{0,31}$", var.default_character))
    error_message = "default_character must be a character's id, such as \"mei\": lower-case letters, digits and -, at most 32, the first one a letter."
  }
}

variable "deletion_protection" {
  description = "Whether a destroy is refused for the database and for buckets that are not empty. The services hold no data and are never protected."
  type        = bool
  default     = true
  nullable    = false
}

variable "delivery_attempts" {
  description = "How often Pub/Sub delivers a message before dead_letter decides about its voice; thirty take about four minutes. Refusals count, too, so dead_letter puts a voice back that only lacked room."
  type        = number
  default     = 30
  nullable    = false

  validation {
    condition     = var.delivery_attempts >= 5 && var.delivery_attempts <= 100 && floor(var.delivery_attempts) == var.delivery_attempts
    error_message = "delivery_attempts must be a whole number from 5 to 100, as Pub/Sub has it."
  }
}

variable "domain_restricted_sharing" {
  description = "Whether the organisation's policy refuses allUsers (domain-restricted sharing). The apply then makes the api public by disabling Cloud Run's invoker check with gcloud, after each deployment of the api."
  type        = bool
  default     = false
  nullable    = false
}

variable "error_rate_objective" {
  description = "Share of conversions that may fail by our fault before an alert, from 0 to 1."
  type        = number
  default     = 0.01
  nullable    = false

  validation {
    condition     = var.error_rate_objective > 0 && var.error_rate_objective < 1
    error_message = "error_rate_objective must be a share between 0 and 1, such as 0.01 for one of a hundred."
  }
}

variable "external_load_balancer" {
  description = "Whether a load balancer of yours serves custom_domain: then the module makes the network endpoint groups (output network_endpoint_groups) and no load balancer, certificate or address."
  type        = bool
  default     = false
  nullable    = false
}

variable "firebase_authentication" {
  description = "Lets signed-in visitors own their voices; null switches owners off. Chooses the ways to sign in."
  type = object({
    anonymous = optional(bool, true)
    email     = optional(bool, false)
  })
  default = null

  validation {
    condition     = var.firebase_authentication == null || try(var.firebase_authentication.anonymous || var.firebase_authentication.email, false)
    error_message = "firebase_authentication leaves no way to sign in; set anonymous or email to true, or the whole to null."
  }
}

variable "firestore_location" {
  description = "Where the database lies, such as \"eur3\"; null means in the region. It cannot be changed later."
  type        = string
  default     = null

  validation {
    condition     = var.firestore_location == null || can(regex("^(eur3|nam[57]|[a-z]+-[a-z]+[0-9]+)$", var.firestore_location))
    error_message = "firestore_location must be a region such as \"europe-west1\" or a multi-region (\"eur3\", \"nam5\", \"nam7\")."
  }
}

variable "function_min_instances" {
  description = "Warm instances of the functions that a visitor waits for."
  type = object({
    api       = optional(number, 0)
    on_upload = optional(number, 1)
  })
  default  = {}
  nullable = false

  validation {
    condition     = alltrue([for count in values(var.function_min_instances) : count >= 0 && floor(count) == count])
    error_message = "function_min_instances must be whole numbers of 0 or more."
  }
}

variable "gpu_regions" {
  description = "Regions in which Cloud Run has the GPU of convert_gpu; a plan elsewhere is refused. Add to it what Google has added since."
  type        = set(string)
  default     = ["asia-south1", "asia-southeast1", "europe-west1", "europe-west4", "us-central1", "us-east4"]
  nullable    = false

  validation {
    condition     = alltrue([for region in var.gpu_regions : can(regex("^[a-z]+-[a-z]+[0-9]+$", region))])
    error_message = "gpu_regions holds something that is not a region; write regions such as \"europe-west4\"."
  }
}

variable "hmac_key_rotation" {
  description = "With signing = \"hmac\": raise it by one for a new key. The key before it goes on, so that every address that was given out stays valid; with the next rotation it is deleted, so wait a day between two."
  type        = number
  default     = 0
  nullable    = false

  validation {
    condition     = var.hmac_key_rotation >= 0 && floor(var.hmac_key_rotation) == var.hmac_key_rotation
    error_message = "hmac_key_rotation must be a whole number of 0 or more."
  }
}

variable "keep_run_address" {
  description = "Whether api and live go on answering under their run.app addresses beside custom_domain, so that pages which use these addresses work on until yours is published again. Set it to false when the domain works: then every request passes Cloud Armor."
  type        = bool
  default     = true
  nullable    = false
}

variable "kms_key" {
  description = "Cloud KMS key that everything is encrypted with, projects/P/locations/REGION/keyRings/R/cryptoKeys/K; null uses Google's keys. Choose before the first apply: Google cannot change the key of the database and of the images' repository, so a later change is refused. The way to another key is a destroy and a new apply."
  type        = string
  default     = null

  validation {
    condition     = var.kms_key == null || can(regex("^projects/[^/]+/locations/${var.region}/keyRings/[^/]+/cryptoKeys/[^/]+$", var.kms_key))
    error_message = "kms_key must be projects/P/locations/REGION/keyRings/R/cryptoKeys/K, and its location must be the region: the buckets refuse a key from elsewhere."
  }

  validation {
    condition     = var.kms_key == null || var.firestore_location == null || var.firestore_location == var.region
    error_message = "kms_key is for the region alone, and firestore_location is elsewhere; leave firestore_location out, or do without the key."
  }
}

variable "labels" {
  description = "Labels of all resources that can have some."
  type        = map(string)
  default     = {}
  nullable    = false

  validation {
    condition     = alltrue([for key, value in var.labels : can(regex("^[a-z][a-z0-9_-]{0,62}$", key)) && can(regex("^[a-z0-9_-]{0,63}$", value))])
    error_message = "labels must be made of lower-case letters, digits, _ and -, at most 63 of them, the key beginning with a letter."
  }
}

variable "live" {
  description = "Converts recordings over WebSockets while visitors speak: the result is there when they stop. null: off. An instance is paid for as long as a connection is open: a visitor who speaks for 5 s alone costs about US$ 0.33 per 1000 with 2 CPUs, ten at a time a tenth of that. The instances count towards the quota: lower max_instances.convert, or raise quota. Raise key_rotation by one for a new key; the old one works on for tickets that were given out. hearings is how many visitors may hear the character in one instance while they speak, or have a slow character convert their first phrases meanwhile, at once; null: four for each CPU; 0: nobody."
  type = object({
    cpu           = optional(string, "2")
    hearings      = optional(number)
    key_rotation  = optional(number, 0)
    max_instances = optional(number, 2)
    memory        = optional(string, "2Gi")
    sockets       = optional(number, 40)
  })
  default = null

  validation {
    condition     = var.live == null || contains(["1", "2", "4", "8"], try(var.live.cpu, "2"))
    error_message = "live.cpu must be \"1\", \"2\", \"4\" or \"8\"."
  }

  validation {
    condition     = var.live == null || can(regex("^[1-9][0-9]*(Mi|Gi)$", var.live.memory))
    error_message = "live.memory must be a number with Mi or Gi, such as \"2Gi\"."
  }

  validation {
    condition     = var.live == null || try(alltrue([for count in [var.live.max_instances, var.live.sockets] : count >= 1 && count <= 1000 && floor(count) == count]), false)
    error_message = "live.max_instances and live.sockets must be whole numbers from 1 to 1000."
  }

  validation {
    condition     = try(var.live.hearings, null) == null || try(var.live.hearings >= 0 && var.live.hearings <= var.live.sockets && floor(var.live.hearings) == var.live.hearings, false)
    error_message = "live.hearings must be a whole number from 0 to live.sockets, or null."
  }

  validation {
    condition     = var.live == null || try(var.live.key_rotation >= 0 && floor(var.live.key_rotation) == var.live.key_rotation, false)
    error_message = "live.key_rotation must be a whole number of 0 or more."
  }
}

variable "log_level" {
  description = "The least severe log entries that are written."
  type        = string
  default     = "INFO"
  nullable    = false

  validation {
    condition     = contains(["DEBUG", "INFO", "WARNING", "ERROR"], var.log_level)
    error_message = "log_level must be DEBUG, INFO, WARNING or ERROR. The dashboard and the alerts need INFO."
  }
}

variable "max_bundle_bytes" {
  description = "How many bytes the graphs of one character bundle may have together, for every service that loads characters. A BERT in single precision, which AIVMX voices need, has 1.2 GB."
  type        = number
  default     = 1073741824
  nullable    = false

  validation {
    condition     = var.max_bundle_bytes >= 1048576 && var.max_bundle_bytes <= 17179869184 && floor(var.max_bundle_bytes) == var.max_bundle_bytes
    error_message = "max_bundle_bytes must be a whole number from 1048576 (1 MiB) to 17179869184 (16 GiB)."
  }
}

variable "max_instances" {
  description = "Maximum number of instances of each service, which limits what an hour can cost. The defaults fit into the quota of a new project; to go beyond it, raise `quota`, too."
  type = object({
    api         = optional(number, 4)
    convert     = optional(number, 6)
    dead_letter = optional(number, 1)
    on_upload   = optional(number, 2)
  })
  default  = {}
  nullable = false

  validation {
    condition     = alltrue([for count in values(var.max_instances) : count >= 1 && count <= 1000 && floor(count) == count])
    error_message = "max_instances must be whole numbers from 1 to 1000."
  }
}

variable "max_text_characters" {
  description = "Longest text that a character speaks, in characters."
  type        = number
  default     = 500
  nullable    = false

  validation {
    condition     = var.max_text_characters >= 1 && var.max_text_characters <= 2000 && floor(var.max_text_characters) == var.max_text_characters
    error_message = "max_text_characters must be a whole number from 1 to 2000."
  }
}

variable "max_upload_bytes" {
  description = "Largest recording that is accepted, in bytes."
  type        = number
  default     = 8000000
  nullable    = false

  validation {
    condition     = var.max_upload_bytes >= 65536 && var.max_upload_bytes <= 104857600 && floor(var.max_upload_bytes) == var.max_upload_bytes
    error_message = "max_upload_bytes must be a whole number from 65536 (64 KiB) to 104857600 (100 MiB)."
  }
}

variable "min_instances" {
  description = "Warm instances of the conversion container at any hour; 0 lets it scale to nothing and relies on the warm-up alone. null: 1 without a GPU. With convert_gpu write the number, because each costs about US$ 750 a month, used or not."
  type        = number
  default     = null

  validation {
    condition     = var.min_instances == null || try(var.min_instances >= 0 && var.min_instances <= 1000 && floor(var.min_instances) == var.min_instances, false)
    error_message = "min_instances must be a whole number from 0 to 1000, or null for 1."
  }

  validation {
    condition     = var.convert_gpu == null || var.min_instances != null
    error_message = "min_instances must be written with convert_gpu: an instance with a GPU that waits costs about US$ 750 a month. Set min_instances to 0 unless you want to pay for that."
  }
}

variable "monthly_budget" {
  description = "Budget for a month, in whole units of the billing account's currency. Mails are sent at 50 %, 90 % and 100 % of it, and when the forecast reaches 100 %. Nothing is switched off. null means no budget."
  type        = number
  default     = null

  validation {
    condition     = var.monthly_budget == null || try(var.monthly_budget >= 1 && floor(var.monthly_budget) == var.monthly_budget, false)
    error_message = "monthly_budget must be a whole number of 1 or more, such as 50, or null for no budget."
  }
}

variable "name" {
  description = "Prefix of all names, so that a project can hold other things too."
  type        = string
  default     = "voice-avatar"
  nullable    = false

  validation {
    condition     = can(regex("^[a-z][a-z0-9-]{1,16}[a-z0-9]$", var.name))
    error_message = "name must be 3 to 18 lower-case letters, digits and hyphens, beginning with a letter and not ending with a hyphen: service account ids made from it have 30 at most."
  }
}

variable "notice" {
  description = "A short spoken notice in each result that it is synthetic, in the character's own voice: \"off\", \"before\" or \"after\". Not in what is heard while somebody speaks, nor in the APIs of other programs."
  type        = string
  default     = "off"
  nullable    = false

  validation {
    condition     = contains(["off", "before", "after"], var.notice)
    error_message = "notice must be \"off\", \"before\" or \"after\"."
  }
}

variable "notice_languages" {
  description = "The languages of the notice, in the order in which they are said: ja, en."
  type        = list(string)
  default     = ["ja", "en"]
  nullable    = false

  validation {
    condition     = length(var.notice_languages) > 0 && alltrue([for language in var.notice_languages : contains(["ja", "en"], language)])
    error_message = "notice_languages must name ja, en or both."
  }
}

variable "notification_channels" {
  description = "Cloud Monitoring channels that exist already and get the alerts too, projects/P/notificationChannels/N."
  type        = set(string)
  default     = []
  nullable    = false

  validation {
    condition     = alltrue([for channel in var.notification_channels : can(regex("^projects/[^/]+/notificationChannels/[0-9]+$", channel))])
    error_message = "notification_channels holds something else than projects/P/notificationChannels/N; gcloud beta monitoring channels list shows them."
  }
}

variable "own_characters" {
  description = "Lets visitors make characters of their own voice, in the page or by the API; null: off, and nothing of it is there. Needs characters. `per_day` is how many all visitors together may begin in a day, `per_owner` how many one visitor may, `public` whether owners may show a character to everybody, `at_once` how many are trained at the same time by a job with 2 CPUs and 4 GiB, `backup_days` how long a daily backup of the documents is kept (0: no backups, and no recovery of a moment of the last seven days), `training_seconds` how long one training may take. One training costs about US$ 0.01 (docs/own-characters.md). `pytorch_index` is the address of PyTorch's packages for CPUs, which https://pytorch.org/get-started/locally/ shows after --index-url (Linux, Pip, CPU); `image` is the trainer's image if Cloud Build shall not build it."
  type = object({
    at_once          = optional(number, 1)
    backup_days      = optional(number, 7)
    image            = optional(string)
    per_day          = optional(number, 20)
    per_owner        = optional(number, 3)
    public           = optional(bool, false)
    pytorch_index    = optional(string)
    training_seconds = optional(number, 1800)
  })
  default = null

  validation {
    condition     = var.own_characters == null || var.characters != null
    error_message = "own_characters needs the bucket that converters load characters from: set characters, too, as in characters = {}."
  }

  validation {
    condition = var.own_characters == null || try(alltrue([
      for value, most in { at_once = 20, per_day = 1000, per_owner = 100 } :
      floor(var.own_characters[value]) == var.own_characters[value] && var.own_characters[value] >= 1 && var.own_characters[value] <= most
    ]), false)
    error_message = "own_characters needs whole numbers: per_day 1 to 1000, per_owner 1 to 100, at_once 1 to 20."
  }

  validation {
    condition     = var.own_characters == null || try(floor(var.own_characters.backup_days) == var.own_characters.backup_days && var.own_characters.backup_days >= 0 && var.own_characters.backup_days <= 98, false)
    error_message = "own_characters.backup_days must be a whole number from 0 to 98, the 14 weeks that Google keeps a backup at most."
  }

  validation {
    condition     = var.own_characters == null || try(floor(var.own_characters.training_seconds) == var.own_characters.training_seconds && var.own_characters.training_seconds >= 300 && var.own_characters.training_seconds <= 43200, false)
    error_message = "own_characters.training_seconds must be a whole number from 300 to 43200 (12 hours)."
  }

  validation {
    condition     = var.own_characters == null || try(var.own_characters.image == null || can(regex("@sha256:[0-9a-f]{64}$", var.own_characters.image)), false)
    error_message = "own_characters.image must name an image by its digest (...@sha256:...)."
  }

  validation {
    condition     = var.own_characters == null || try(var.own_characters.image != null || can(regex("^https://[^,\\s]+$", var.own_characters.pytorch_index)), false)
    error_message = "own_characters needs pytorch_index, the https address of PyTorch's packages for CPUs, which https://pytorch.org/get-started/locally/ shows after --index-url (Linux, Pip, CPU); or image."
  }
}

variable "page" {
  description = "Hosts the page under custom_domain, together with the api. `folder` is the folder that the page's build has written (web/page/dist); the module writes config.json itself. null means that the page is hosted elsewhere."
  type = object({
    folder = string
  })
  default = null

  validation {
    condition     = var.page == null || try(fileexists("${var.page.folder}/index.html"), false)
    error_message = "page.folder has no index.html; build the page first (npm run build in web) and name its dist folder, such as \"../../../../web/page/dist\"."
  }

  validation {
    condition     = var.page == null || var.custom_domain != null
    error_message = "page needs custom_domain, because the page is served by the load balancer; set custom_domain, or host the page elsewhere (docs/deploy.md shows how)."
  }

  validation {
    condition     = var.page == null || !var.external_load_balancer
    error_message = "page is served by the module's own load balancer: leave it out with external_load_balancer, and host the page behind yours."
  }

  validation {
    condition     = var.page == null || !var.domain_restricted_sharing
    error_message = "page needs a public bucket, which an organisation with domain_restricted_sharing refuses; host the page elsewhere."
  }
}

variable "project_id" {
  description = "The Google Cloud project; it exists and has a billing account."
  type        = string
  nullable    = false

  validation {
    condition     = can(regex("^[a-z][a-z0-9-]{4,28}[a-z0-9]$", var.project_id))
    error_message = "project_id must be a project's id (6 to 30 lower-case letters, digits and hyphens), not its name or number; gcloud projects list shows it."
  }
}

variable "public_api" {
  description = "Whether anybody may call the api. Without it a caller needs roles/run.invoker, which a visitor's browser never has."
  type        = bool
  default     = true
  nullable    = false
}

variable "quota" {
  description = "The project's quota for Cloud Run in the region: CPUs (CpuAllocPerProjectRegion) and GiB of memory (MemAllocPerProjectRegion), and L4 GPUs (NvidiaL4GpuAllocNoZonalRedundancyPerProjectRegion). The defaults are what many new projects have; older projects have more."
  type = object({
    cpus       = optional(number, 20)
    gpus       = optional(number, 3)
    memory_gib = optional(number, 40)
  })
  default  = {}
  nullable = false

  validation {
    condition     = var.quota.cpus >= 1 && var.quota.memory_gib >= 1 && var.quota.gpus >= 0
    error_message = "quota must be 1 CPU, 1 GiB and 0 GPUs or more; gcloud beta quotas info describe CpuAllocPerProjectRegion --service=run.googleapis.com --project=PROJECT shows what the project has."
  }
}

variable "rate_limit_per_minute" {
  description = "Requests a minute that one address (an IPv6 /64) may send to the api, a twelfth of them at once; a /56 has twice and a /48 four times as many. Recordings that fail as those of an attacker do count as ten more. Each instance counts for itself; with custom_domain the load balancer counts, too, for all together."
  type        = number
  default     = 120
  nullable    = false

  validation {
    condition     = var.rate_limit_per_minute >= 1 && var.rate_limit_per_minute <= 10000 && floor(var.rate_limit_per_minute) == var.rate_limit_per_minute
    error_message = "rate_limit_per_minute must be a whole number from 1 to 10000."
  }
}

variable "recording_seconds" {
  description = "Shortest and longest recording that is converted."
  type = object({
    max = optional(number, 10)
    min = optional(number, 1)
  })
  default  = {}
  nullable = false

  validation {
    condition     = var.recording_seconds.min > 0 && var.recording_seconds.min < var.recording_seconds.max && var.recording_seconds.max <= 60
    error_message = "recording_seconds needs 0 < min < max <= 60."
  }
}

variable "region" {
  description = "Where everything runs and is stored."
  type        = string
  nullable    = false

  validation {
    condition     = can(regex("^[a-z]+-[a-z]+[0-9]+$", var.region))
    error_message = "region must be a region such as \"europe-west1\", not a zone (\"europe-west1-b\") and not a multi-region (\"eu\")."
  }
}

variable "repository" {
  description = "A repository of Artifact Registry that exists, for all images: projects/P/locations/L/repositories/R. null makes one."
  type        = string
  default     = null

  validation {
    condition     = var.repository == null || can(regex("^projects/[^/]+/locations/[^/]+/repositories/[^/]+$", var.repository))
    error_message = "repository must be projects/P/locations/L/repositories/R, or null for one of the module's own."
  }
}

variable "result_url_seconds" {
  description = "How long the address of a result works."
  type        = number
  default     = 86400
  nullable    = false

  validation {
    condition     = var.result_url_seconds >= 60 && var.result_url_seconds <= 86400 && floor(var.result_url_seconds) == var.result_url_seconds
    error_message = "result_url_seconds must be a whole number from 60 to 86400: after a day the result itself is deleted."
  }
}

variable "signing" {
  description = "How addresses are signed: \"iam\" calls signBlob twice for each voice and needs no secret; \"hmac\" makes no call, with an HMAC key of an account of its own. That key is the only secret that Terraform's state holds."
  type        = string
  default     = "iam"
  nullable    = false

  validation {
    condition     = contains(["iam", "hmac"], var.signing)
    error_message = "signing must be \"iam\", which needs no secret, or \"hmac\", which needs no call for each address."
  }
}

variable "traces" {
  description = "Sends the way of each voice through all services to Cloud Trace, as OpenTelemetry spans: `{}`, or `{ ratio = 0.1 }` for a tenth of the voices. A voice has some twenty spans, and Google charges for them by the million. null sends nothing."
  type = object({
    ratio = optional(number, 1)
  })
  default = null

  validation {
    condition     = try(var.traces.ratio > 0 && var.traces.ratio <= 1, var.traces == null)
    error_message = "traces.ratio must be more than 0 and at most 1."
  }
}

variable "upload_shards" {
  description = "Over how many buckets recordings and results are spread, each: a bucket takes 1000 writes a second at first, which are 500 voices. Raise it when you like. Before you lower it, stop new voices and wait a day: the buckets that go must be empty."
  type        = number
  default     = 1
  nullable    = false

  validation {
    condition     = var.upload_shards >= 1 && var.upload_shards <= 32 && floor(var.upload_shards) == var.upload_shards
    error_message = "upload_shards must be a whole number from 1 to 32."
  }
}

variable "upload_url_seconds" {
  description = "How long the address for an upload works."
  type        = number
  default     = 600
  nullable    = false

  validation {
    condition     = var.upload_url_seconds >= 60 && var.upload_url_seconds <= 3600 && floor(var.upload_url_seconds) == var.upload_url_seconds
    error_message = "upload_url_seconds must be a whole number from 60 to 3600."
  }
}

variable "vpc" {
  description = "Sends what converter and live ask of others through a network of your own (Direct VPC egress), for example so that a firewall sees it. With egress \"ALL_TRAFFIC\" the subnetwork needs Private Google Access, because buckets and Firestore are then reached through it. The functions stay outside. null: none."
  type = object({
    egress     = optional(string, "PRIVATE_RANGES_ONLY")
    network    = string
    subnetwork = string
    tags       = optional(list(string), [])
  })
  default = null

  validation {
    condition     = var.vpc == null || try(contains(["ALL_TRAFFIC", "PRIVATE_RANGES_ONLY"], var.vpc.egress), false)
    error_message = "vpc.egress must be \"PRIVATE_RANGES_ONLY\" or \"ALL_TRAFFIC\"."
  }

  validation {
    condition     = var.vpc == null || try(length(var.vpc.network) > 0 && length(var.vpc.subnetwork) > 0, false)
    error_message = "vpc needs the names of a network and of a subnetwork in the region."
  }
}

variable "wait_objective_seconds" {
  description = "Longest wait after the upload, as the 95th percentile, before an alert."
  type        = number
  default     = 5
  nullable    = false

  validation {
    condition     = var.wait_objective_seconds > 0 && var.wait_objective_seconds <= 600
    error_message = "wait_objective_seconds must be more than 0 and at most 600."
  }
}

variable "wait_objective_share" {
  description = "Share of the results that must come within wait_objective_seconds, over 28 days. An alert says when an hour or six hours use up too much of what may be later."
  type        = number
  default     = 0.95
  nullable    = false

  # A share so small that all may be late for a month never burns fast enough to be seen.
  validation {
    condition     = var.wait_objective_share >= 0.93 && var.wait_objective_share < 1
    error_message = "wait_objective_share must be a share from 0.93 to below 1, such as 0.95."
  }
}

variable "wait_seconds" {
  description = "How long GET /api/v1/conversion/{voice_id} waits for a result before it answers 504."
  type        = number
  default     = 50
  nullable    = false

  validation {
    condition     = var.wait_seconds >= 5 && var.wait_seconds <= 3000 && floor(var.wait_seconds) == var.wait_seconds
    error_message = "wait_seconds must be a whole number from 5 to 3000."
  }
}

variable "waiting_per_client" {
  description = "Requests of one address that may wait for a conversion at the same time in one instance of the api, and recordings that it may be uploading through the api. Pages that listen to Firestore do not wait there."
  type        = number
  default     = 50
  nullable    = false

  validation {
    condition     = var.waiting_per_client >= 1 && var.waiting_per_client <= 1000 && floor(var.waiting_per_client) == var.waiting_per_client
    error_message = "waiting_per_client must be a whole number from 1 to 1000."
  }
}

variable "warm_ups_at_once" {
  description = "Warm-ups of one instance of the api that may wait for converters to start. Each stands for one conversion at once, so a crowd wakes as many converters as it will need; a warm converter answers at once. `max_instances` bounds what they cost."
  type        = number
  default     = 40
  nullable    = false

  validation {
    condition     = var.warm_ups_at_once >= 1 && var.warm_ups_at_once <= 1000 && floor(var.warm_ups_at_once) == var.warm_ups_at_once
    error_message = "warm_ups_at_once must be a whole number from 1 to 1000."
  }
}

variable "watermark" {
  description = "Marks the sound of every result with 16 bits, a number from 0 to 65535, that only this deployment can find. null: off. character_bits are other numbers for single characters. Raise key_rotation by one for a new key; what earlier keys marked is still found."
  type = object({
    bits           = optional(number, 1)
    character_bits = optional(map(number), {})
    key_rotation   = optional(number, 0)
  })
  default = null

  validation {
    condition     = var.watermark == null || try(alltrue([for bits in concat([var.watermark.bits], values(var.watermark.character_bits)) : bits >= 0 && bits <= 65535 && floor(bits) == bits]), false)
    error_message = "watermark.bits and those of characters must be whole numbers from 0 to 65535."
  }

  validation {
    condition     = var.watermark == null || try(var.watermark.key_rotation >= 0 && var.watermark.key_rotation <= 20 && floor(var.watermark.key_rotation) == var.watermark.key_rotation, false)
    error_message = "watermark.key_rotation must be a whole number from 0 to 20."
  }
}
