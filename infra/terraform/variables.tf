# Settings, in groups. What stands behind # is the description of a setting, for README.md. rules.tf has what
# numbers and texts may be.

variable "allowed_origins" {
  description = "Origins of the sites that may call the api, upload and play results, such as \"https://example.com\"."
  type        = list(string)
  nullable    = false

  validation {
    condition     = length(var.allowed_origins) > 0 && alltrue([for origin in var.allowed_origins : can(regex("^(https://[a-z0-9.-]+(:[0-9]+)?|http://(localhost|127\\.0\\.0\\.1)(:[0-9]+)?)$", origin))])
    error_message = "allowed_origins must name at least the page's own origin, each with scheme, host and perhaps a port, with https, without path and without *, such as \"https://example.com\"."
  }
}

variable "api" {
  description = "The function that browsers call."
  type = object({
    concurrency               = optional(number, 500) # Requests that one instance serves at once, waiting ones included.
    domain_restricted_sharing = optional(bool, false) # Whether the organisation's policy refuses allUsers. The apply then makes the api public by disabling Cloud Run's invoker check with gcloud, after each deployment of the api.
    max_instances             = optional(number, 4)   # The most instances, which limits what an hour can cost.
    min_instances             = optional(number, 0)   # Warm instances.
    public                    = optional(bool, true)  # Whether anybody may call the api. Without it a caller needs roles/run.invoker, which a visitor's browser never has.
    rate_limit_per_minute     = optional(number, 120) # Requests a minute that one address (an IPv6 /64) may send, a twelfth of them at once; a /56 has twice and a /48 four times as many. Recordings that fail as those of an attacker do count as ten more. Each instance counts for itself; with a domain the load balancer counts, too, for all together.
    wait_seconds              = optional(number, 50)  # How long GET /api/v1/conversion/{voice_id} waits for a result before it answers 504.
    waiting_per_client        = optional(number, 50)  # Requests of one address that may wait for a conversion at the same time in one instance, and recordings that it may be uploading through the api. Pages that listen to Firestore do not wait there.
    warm_ups_at_once          = optional(number, 80)  # Warm-ups of one instance that may wait for converters to start. Two of them stand for one conversion at once, so a crowd wakes as many converters as it will need; a warm converter answers at once. convert.max_instances bounds what they cost.
  })
  default  = {}
  nullable = false

  validation {
    condition     = alltrue([for name, rule in local.rules.api : alltrue([for one in flatten([try(var.api[name], null)]) : one == null || try(one >= rule[0] && one <= rule[1] && (length(rule) == 3 || floor(one) == one), can(regex(rule[0], one)))])])
    error_message = join(" ", [for name, rule in local.rules.api : "api.${name} must be ${local.must.api[name]}." if !alltrue([for one in flatten([try(var.api[name], null)]) : one == null || try(one >= rule[0] && one <= rule[1] && (length(rule) == 3 || floor(one) == one), can(regex(rule[0], one)))])])
  }
}

variable "app_check" {
  description = "Lets only your own pages use the api: requests about voices must carry a token of Firebase App Check with reCAPTCHA Enterprise, which costs US$ 1 per 1000 visitors beyond 10 000 a month (docs/deploy.md). The Firebase console shows app_id and site_key when you register the page there. null: off."
  type = object({
    app_id    = string                # The page's App ID.
    firestore = optional(bool, false) # Whether reads of Firestore need the token, too, from every app of the project.
    site_key  = string                # The page's key of reCAPTCHA Enterprise.
  })
  default = null

  validation {
    condition     = var.app_check == null || try(can(regex("^1:[0-9]+:web:[0-9a-f]+$", var.app_check.app_id)) && can(regex("^[0-9A-Za-z_-]{20,}$", var.app_check.site_key)), false)
    error_message = "app_check needs the page's app_id (\"1:123456789012:web:0123456789abcdef\") and the site_key of reCAPTCHA Enterprise, both from the Firebase console."
  }
}

variable "canary" {
  description = "Sends only a part of the conversions to the converter's newest revision, and the others to one that exists. null: all to the newest."
  type = object({
    percent         = number # The newest revision's share.
    stable_revision = string # The revision that gets the others (output convert_revision before the apply).
  })
  default = null

  validation {
    condition     = var.canary == null || try(var.canary.percent >= 0 && var.canary.percent <= 99 && floor(var.canary.percent) == var.canary.percent && can(regex("^${var.name}-convert-[a-z0-9-]+$", var.canary.stable_revision)), false)
    error_message = "canary needs percent, a whole number from 0 to 99 (leave canary out to send everything to the newest revision), and stable_revision, a revision of the converter such as \"voice-avatar-convert-00012-abc\"; terraform output -raw convert_revision prints the newest."
  }
}

variable "characters" {
  description = "Who speaks."
  type = object({
    bucket = optional(object({            # A bucket of character bundles that are offered without a deployment; null for none.
      memory_mib = optional(number, 1024) # The most that the graphs of all bundles may have together that one process keeps loaded.
    }))
    default          = optional(string)             # The character of voices that name none, by its id, one of the image or of the bucket; null: the first one of the image.
    max_bundle_bytes = optional(number, 1073741824) # How many bytes the graphs of one bundle may have together, for every service that loads characters. A BERT in single precision, which AIVMX voices need, has 1.2 GB.
    own = optional(object({                         # Lets visitors make characters of their own voice, in the page or by the API, which needs the bucket; null: off, and nothing of it is there. One training costs about US$ 0.01 (docs/own-characters.md).
      at_once          = optional(number, 1)        # Trainings at the same time, each a job with 2 CPUs and 4 GiB.
      backup_days      = optional(number, 7)        # How long a daily backup of the documents is kept; 0: no backups, and no recovery of a moment of the last seven days.
      image            = optional(string)           # The trainer's image, by its digest, if Cloud Build shall not build it.
      per_day          = optional(number, 20)       # How many all visitors together may begin in a day.
      per_owner        = optional(number, 3)        # How many one visitor may begin in a day.
      public           = optional(bool, false)      # Whether owners may show a character to everybody.
      pytorch_index    = optional(string)           # The address of PyTorch's packages for CPUs, which https://pytorch.org/get-started/locally/ shows after --index-url (Linux, Pip, CPU).
      training_seconds = optional(number, 1800)     # How long one training may take.
    }))
  })
  default  = {}
  nullable = false

  validation {
    condition     = alltrue([for name, rule in local.rules.characters : alltrue([for one in flatten([try(var.characters[name], null)]) : one == null || try(one >= rule[0] && one <= rule[1] && (length(rule) == 3 || floor(one) == one), can(regex(rule[0], one)))])])
    error_message = join(" ", [for name, rule in local.rules.characters : "characters.${name} must be ${local.must.characters[name]}." if !alltrue([for one in flatten([try(var.characters[name], null)]) : one == null || try(one >= rule[0] && one <= rule[1] && (length(rule) == 3 || floor(one) == one), can(regex(rule[0], one)))])])
  }
  validation {
    condition     = try(floor(var.characters.bucket.memory_mib) == var.characters.bucket.memory_mib && var.characters.bucket.memory_mib * 1048576 >= var.characters.max_bundle_bytes, var.characters.bucket == null)
    error_message = "characters.bucket.memory_mib must be a whole number of MiB, and not less than characters.max_bundle_bytes, so that the largest bundle can be loaded: raise the one, or lower the other."
  }
  validation {
    condition     = var.characters.own == null || var.characters.bucket != null
    error_message = "characters.own needs the bucket that converters load characters from: set bucket, too, as in characters = { bucket = {}, own = { ... } }."
  }
  validation {
    condition     = var.characters.own == null || try(var.characters.own.image != null || var.characters.own.pytorch_index != null, false)
    error_message = "characters.own needs pytorch_index, the https address of PyTorch's packages for CPUs, which https://pytorch.org/get-started/locally/ shows after --index-url (Linux, Pip, CPU); or image."
  }
  validation {
    condition     = alltrue([for name, rule in local.rules.own_characters : alltrue([for one in flatten([try(var.characters.own[name], null)]) : one == null || try(one >= rule[0] && one <= rule[1] && (length(rule) == 3 || floor(one) == one), can(regex(rule[0], one)))])])
    error_message = join(" ", [for name, rule in local.rules.own_characters : "characters.own.${name} must be ${local.must.own_characters[name]}." if !alltrue([for one in flatten([try(var.characters.own[name], null)]) : one == null || try(one >= rule[0] && one <= rule[1] && (length(rule) == 3 || floor(one) == one), can(regex(rule[0], one)))])])
  }
}

variable "compat" {
  description = "Serves the APIs of OpenAI, ElevenLabs and VOICEVOX, and text in pieces, beside live, which it needs. null: off. Their key is the secret NAME-compat, their address the output compat_url. They speak with the characters of the image, not with those of the bucket."
  type = object({
    characters_per_day = optional(number)          # The most characters of text a day for each of keys, in each instance: with several instances a client can have several times as much.
    keys               = optional(set(string), []) # Names of clients that get keys of their own, in the secret NAME-compat-keys; the log says what each has had.
    openai_voices      = optional(map(string), {}) # Characters under the names that clients of OpenAI know, as in { alloy = "mei" }.
    seconds_per_day    = optional(number)          # The most seconds of speech a day for each of keys, in each instance.
    voicevox_alone     = optional(bool, false)     # Whether presets and words are kept in the one instance, until it stops; it needs live.max_instances = 1.
    voicevox_speakers  = optional(map(string), {}) # Characters under the numbers that bots know, as in { "1" = "mei" }.
  })
  default = null

  validation {
    condition     = alltrue([for name, rule in local.rules.compat : alltrue([for one in flatten([try(var.compat[name], null)]) : one == null || try(one >= rule[0] && one <= rule[1] && (length(rule) == 3 || floor(one) == one), can(regex(rule[0], one)))])])
    error_message = join(" ", [for name, rule in local.rules.compat : "compat.${name} must be ${local.must.compat[name]}." if !alltrue([for one in flatten([try(var.compat[name], null)]) : one == null || try(one >= rule[0] && one <= rule[1] && (length(rule) == 3 || floor(one) == one), can(regex(rule[0], one)))])])
  }
  validation {
    condition     = var.compat == null || var.live != null
    error_message = "compat is served by live: set live, too, as in live = {}."
  }
  validation {
    condition     = var.compat == null || try(!var.compat.voicevox_alone || try(var.live.max_instances, 1) == 1, false)
    error_message = "compat.voicevox_alone needs live.max_instances = 1: another instance would not know the presets and words."
  }
  validation {
    condition     = var.compat == null || try(alltrue([for name, character in merge(var.compat.openai_voices, var.compat.voicevox_speakers) : can(regex("^[^=,]{1,64}$", name)) && can(regex("^[a-z][a-z0-9-]{0,31}$", character))]) && alltrue([for number in keys(var.compat.voicevox_speakers) : can(regex("^[0-9]{1,10}$", number))]), false)
    error_message = "compat.openai_voices must lead from names without = and , to ids of characters, as in { alloy = \"mei\" }, and compat.voicevox_speakers from whole numbers, as in { \"1\" = \"mei\" }."
  }
}

variable "content_credentials" {
  description = "Signs results with Content Credentials (C2PA): made by this software, synthetic speech, the character with its owner's licence and credit, and when. null: off. docs/deploy.md says how to get a certificate that others trust."
  type = object({
    certificates         = string               # The signer's certificate and those of its authorities as PEM, the signer's first.
    earlier_certificates = optional(string, "") # Those of signers before it, whose results are still recognised.
    kms_key_version      = optional(string)     # The key on the curve P-256: a version of a key in Cloud KMS (EC_SIGN_P256_SHA256). null: content_credentials_key.
    seconds              = optional(number, 1)  # How long a result waits for its signature before it goes out without it.
    time_stamp_url       = optional(string)     # An RFC 3161 time-stamp authority.
  })
  default = null

  validation {
    condition     = alltrue([for name, rule in local.rules.content_credentials : alltrue([for one in flatten([try(var.content_credentials[name], null)]) : one == null || try(one >= rule[0] && one <= rule[1] && (length(rule) == 3 || floor(one) == one), can(regex(rule[0], one)))])])
    error_message = join(" ", [for name, rule in local.rules.content_credentials : "content_credentials.${name} must be ${local.must.content_credentials[name]}." if !alltrue([for one in flatten([try(var.content_credentials[name], null)]) : one == null || try(one >= rule[0] && one <= rule[1] && (length(rule) == 3 || floor(one) == one), can(regex(rule[0], one)))])])
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

variable "convert" {
  description = "The container that converts."
  type = object({
    busy_hours = optional(map(object({            # Weekly hours with more warm instances, by name.
      days          = optional(string, "*")       # As in cron: "1-5", "MON-FRI".
      from          = number                      # The first full hour.
      min_instances = number                      # Warm instances in these hours.
      time_zone     = optional(string, "Etc/UTC") # Whose hours they are.
      to            = number                      # The full hour at which they end.
    })), {})
    concurrency      = optional(number)                                                                                                     # Conversions at once in one instance; null: twice its CPUs, because a conversion also waits.
    cpu              = optional(string, "2")                                                                                                # CPUs of one instance; 4 need at least 2Gi of memory, 8 at least 4Gi.
    deadline_seconds = optional(number, 60)                                                                                                 # How long one conversion may take. All other timeouts follow from it.
    gpu              = optional(string)                                                                                                     # GPU of each instance, "nvidia-l4"; null for none. It needs cpu = "4", memory = "16Gi" or more, an explicit min_instances, a region that has it (gpu_regions) and a quota for it (quota.gpus). With image, that image must be the variant with CUDA.
    gpu_regions      = optional(set(string), ["asia-south1", "asia-southeast1", "europe-west1", "europe-west4", "us-central1", "us-east4"]) # Regions in which Cloud Run has the GPU; a plan elsewhere is refused. Add to it what Google has added since.
    image            = optional(string)                                                                                                     # An image that is built already, by its digest; null: the apply builds one from the source. With busy_hours, let the service account NAME-schedule read the image where it lies (roles/artifactregistry.reader).
    kokoro           = optional(bool, true)                                                                                                 # Whether typed English is spoken, and most Japanese more naturally; false leaves Kokoro out: 404 MiB less memory for each process of convert and live.
    max_instances    = optional(number, 6)                                                                                                  # The most instances, which limits what an hour can cost. The defaults of all services fit into the quota of a new project; to go beyond it, raise quota, too.
    memory           = optional(string, "1Gi")                                                                                              # Memory of one instance.
    min_instances    = optional(number)                                                                                                     # Warm instances at any hour; 0 lets it scale to nothing and relies on the warm-up alone. null: 1 without a GPU. With a GPU write the number, because each costs about US$ 750 a month, used or not.
  })
  default  = {}
  nullable = false

  validation {
    condition     = alltrue([for name, rule in local.rules.convert : alltrue([for one in flatten([try(var.convert[name], null)]) : one == null || try(one >= rule[0] && one <= rule[1] && (length(rule) == 3 || floor(one) == one), can(regex(rule[0], one)))])])
    error_message = join(" ", [for name, rule in local.rules.convert : "convert.${name} must be ${local.must.convert[name]}." if !alltrue([for one in flatten([try(var.convert[name], null)]) : one == null || try(one >= rule[0] && one <= rule[1] && (length(rule) == 3 || floor(one) == one), can(regex(rule[0], one)))])])
  }
  validation {
    condition     = var.convert.gpu == null || var.convert.min_instances != null
    error_message = "convert.min_instances must be written with convert.gpu: an instance with a GPU that waits costs about US$ 750 a month. Set it to 0 unless you want to pay for that."
  }
  validation {
    condition     = alltrue([for name, hours in var.convert.busy_hours : can(regex("^[a-z][a-z0-9-]{0,19}$", name)) && can(regex("^[0-9A-Z*,-]+$", hours.days))])
    error_message = "convert.busy_hours needs names of up to 20 lower-case letters, digits and hyphens, which become parts of Cloud Scheduler jobs' names, and days as in cron: \"*\", \"1-5\", \"MON-FRI\" or \"SAT,SUN\"."
  }
  validation {
    condition     = alltrue([for hours in values(var.convert.busy_hours) : hours.from >= 0 && hours.to <= 24 && hours.from < hours.to && floor(hours.from) == hours.from && floor(hours.to) == hours.to && hours.min_instances >= 0 && floor(hours.min_instances) == hours.min_instances])
    error_message = "convert.busy_hours needs full hours with 0 <= from < to <= 24 (split hours that go past midnight into two entries), and as min_instances a whole number of 0 or more."
  }
}

variable "dead_letter" {
  description = "The function that decides about messages which were delivered too often."
  type = object({
    delivery_attempts = optional(number, 30) # How often Pub/Sub delivers a message before; thirty take about four minutes. Refusals count, too, so dead_letter puts a voice back that only lacked room.
    max_instances     = optional(number, 1)  # The most instances.
  })
  default  = {}
  nullable = false

  validation {
    condition     = alltrue([for name, rule in local.rules.dead_letter : alltrue([for one in flatten([try(var.dead_letter[name], null)]) : one == null || try(one >= rule[0] && one <= rule[1] && (length(rule) == 3 || floor(one) == one), can(regex(rule[0], one)))])])
    error_message = join(" ", [for name, rule in local.rules.dead_letter : "dead_letter.${name} must be ${local.must.dead_letter[name]}." if !alltrue([for one in flatten([try(var.dead_letter[name], null)]) : one == null || try(one >= rule[0] && one <= rule[1] && (length(rule) == 3 || floor(one) == one), can(regex(rule[0], one)))])])
  }
}

variable "deletion_protection" {
  description = "Whether a destroy is refused for the database and for buckets that are not empty. The services hold no data and are never protected."
  type        = bool
  default     = true
  nullable    = false
}

variable "domain" {
  description = "A domain for the api, and for the page, through a load balancer."
  type = object({
    additional             = optional(set(string), []) # More domains under which the load balancer serves the same; their A records point to load_balancer_address, too.
    cloud_armor            = optional(bool, true)      # Whether the load balancer limits the requests of each address (US$ 7 a month and US$ 0.75 per million requests). A project on a free trial has a quota of 0 for SECURITY_POLICIES: set this to false there. The api limits requests in any case.
    external_load_balancer = optional(bool, false)     # Whether a load balancer of yours serves the domain: then the module makes the network endpoint groups (output network_endpoint_groups) and no load balancer, certificate or address.
    keep_run_address       = optional(bool, true)      # Whether api and live go on answering under their run.app addresses, too, so that pages which use these addresses work on until yours is published again. Set it to false when the domain works: then every request passes Cloud Armor.
    name                   = optional(string)          # The domain; null: the api has its run.app address alone.
    page_folder            = optional(string)          # The folder that the page's build has written (web/page/dist), to host the page there, too; the module writes config.json itself. null: the page is hosted elsewhere.
  })
  default  = {}
  nullable = false

  validation {
    condition     = alltrue([for name, rule in local.rules.domain : alltrue([for one in flatten([try(var.domain[name], null)]) : one == null || try(one >= rule[0] && one <= rule[1] && (length(rule) == 3 || floor(one) == one), can(regex(rule[0], one)))])])
    error_message = join(" ", [for name, rule in local.rules.domain : "domain.${name} must be ${local.must.domain[name]}." if !alltrue([for one in flatten([try(var.domain[name], null)]) : one == null || try(one >= rule[0] && one <= rule[1] && (length(rule) == 3 || floor(one) == one), can(regex(rule[0], one)))])])
  }
  validation {
    condition     = length(var.domain.additional) == 0 || try(!contains(var.domain.additional, var.domain.name) && length(var.domain.additional) <= 99, false)
    error_message = "domain.additional needs domain.name, which is the first domain, must not repeat it, and has 99 at most: Certificate Manager gives a project 100 certificates."
  }
  validation {
    condition     = try(fileexists("${var.domain.page_folder}/index.html"), var.domain.page_folder == null)
    error_message = "domain.page_folder has no index.html; build the page first (npm run build in web) and name its dist folder, such as \"../../../../web/page/dist\"."
  }
  validation {
    condition     = var.domain.page_folder == null || (var.domain.name != null && !var.domain.external_load_balancer && !var.api.domain_restricted_sharing)
    error_message = "domain.page_folder needs domain.name and the module's own load balancer with a public bucket: leave it out without a domain, with domain.external_load_balancer and with api.domain_restricted_sharing, and host the page elsewhere (docs/deploy.md shows how)."
  }
}

variable "firebase_authentication" {
  description = "Lets signed-in visitors own their voices, and chooses the ways to sign in. null: no owners."
  type = object({
    anonymous = optional(bool, true)  # Whether a visitor may sign in without a name.
    email     = optional(bool, false) # Whether with e-mail address and password.
  })
  default = null

  validation {
    condition     = var.firebase_authentication == null || try(var.firebase_authentication.anonymous || var.firebase_authentication.email, false)
    error_message = "firebase_authentication leaves no way to sign in; set anonymous or email to true, or the whole to null."
  }
}

variable "images" {
  description = "Where the images of the containers are built and kept."
  type = object({
    attestation  = optional(string, "off") # Whether Cloud Run starts only images that Cloud Build of this project has signed: "required" refuses another one, "dry-run" starts it and writes an entry into the audit log. It is off because the policy is one for the whole project and replaces another one (docs/deploy.md).
    build_region = optional(string)        # Region in which Cloud Build builds them; null means region. Some new projects can build only in us-central1, us-west2, europe-west1, asia-east1, australia-southeast1 and southamerica-east1. The functions are always built in region.
    repository   = optional(string)        # A repository of Artifact Registry that exists: projects/P/locations/L/repositories/R. null makes one.
  })
  default  = {}
  nullable = false

  validation {
    condition     = alltrue([for name, rule in local.rules.images : alltrue([for one in flatten([try(var.images[name], null)]) : one == null || try(one >= rule[0] && one <= rule[1] && (length(rule) == 3 || floor(one) == one), can(regex(rule[0], one)))])])
    error_message = join(" ", [for name, rule in local.rules.images : "images.${name} must be ${local.must.images[name]}." if !alltrue([for one in flatten([try(var.images[name], null)]) : one == null || try(one >= rule[0] && one <= rule[1] && (length(rule) == 3 || floor(one) == one), can(regex(rule[0], one)))])])
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

variable "limits" {
  description = "What visitors may send, and how long addresses work."
  type = object({
    recording_seconds = optional(object({ # The recordings that are converted.
      max = optional(number, 10)          # The longest.
      min = optional(number, 1)           # The shortest.
    }), {})
    result_url_seconds = optional(number, 86400)   # How long the address of a result works.
    text_characters    = optional(number, 500)     # Longest text that a character speaks, in characters.
    upload_bytes       = optional(number, 8000000) # Largest recording, in bytes.
    upload_url_seconds = optional(number, 600)     # How long the address for an upload works.
  })
  default  = {}
  nullable = false

  validation {
    condition     = alltrue([for name, rule in local.rules.limits : alltrue([for one in flatten([try(var.limits[name], null)]) : one == null || try(one >= rule[0] && one <= rule[1] && (length(rule) == 3 || floor(one) == one), can(regex(rule[0], one)))])])
    error_message = join(" ", [for name, rule in local.rules.limits : "limits.${name} must be ${local.must.limits[name]}." if !alltrue([for one in flatten([try(var.limits[name], null)]) : one == null || try(one >= rule[0] && one <= rule[1] && (length(rule) == 3 || floor(one) == one), can(regex(rule[0], one)))])])
  }
  validation {
    condition     = var.limits.recording_seconds.min > 0 && var.limits.recording_seconds.min < var.limits.recording_seconds.max && var.limits.recording_seconds.max <= 60
    error_message = "limits.recording_seconds needs 0 < min < max <= 60."
  }
}

variable "live" {
  description = "Converts recordings over WebSockets while visitors speak: the result is there when they stop. null: off. An instance is paid for as long as a connection is open: a visitor who speaks for 5 s alone costs about US$ 0.33 per 1000 with 2 CPUs, ten at a time a tenth of that. The instances count towards the quota: lower convert.max_instances, or raise quota."
  type = object({
    cpu           = optional(string, "2")   # CPUs of one instance.
    hearings      = optional(number)        # How many visitors may hear the character in one instance while they speak, or have a slow character convert their first phrases meanwhile, at once; null: four for each CPU; 0: nobody.
    key_rotation  = optional(number, 0)     # Raise it by one for a new key; the old one works on for tickets that were given out.
    max_instances = optional(number, 2)     # The most instances.
    memory        = optional(string, "2Gi") # Memory of one instance.
    sockets       = optional(number, 40)    # Connections of one instance.
  })
  default = null

  validation {
    condition     = alltrue([for name, rule in local.rules.live : alltrue([for one in flatten([try(var.live[name], null)]) : one == null || try(one >= rule[0] && one <= rule[1] && (length(rule) == 3 || floor(one) == one), can(regex(rule[0], one)))])])
    error_message = join(" ", [for name, rule in local.rules.live : "live.${name} must be ${local.must.live[name]}." if !alltrue([for one in flatten([try(var.live[name], null)]) : one == null || try(one >= rule[0] && one <= rule[1] && (length(rule) == 3 || floor(one) == one), can(regex(rule[0], one)))])])
  }
  validation {
    condition     = try(var.live.hearings, null) == null || try(var.live.hearings >= 0 && var.live.hearings <= var.live.sockets && floor(var.live.hearings) == var.live.hearings, false)
    error_message = "live.hearings must be a whole number from 0 to live.sockets, or null."
  }
}

variable "monitoring" {
  description = "Alerts, their thresholds, the log and the budget."
  type = object({
    channels               = optional(set(string), []) # Cloud Monitoring channels that exist already and get the alerts, projects/P/notificationChannels/N.
    emails                 = optional(set(string), []) # Addresses that alerts are sent to.
    error_rate_objective   = optional(number, 0.01)    # Share of conversions that may fail by our fault before an alert, from 0 to 1.
    log_level              = optional(string, "INFO")  # The least severe log entries that are written.
    monthly_budget         = optional(number)          # Budget for a month, in whole units of the billing account's currency. Mails are sent at 50 %, 90 % and 100 % of it, and when the forecast reaches 100 %. Nothing is switched off. null means no budget.
    wait_objective_seconds = optional(number, 5)       # Longest wait after the upload, as the 95th percentile, before an alert.
    wait_objective_share   = optional(number, 0.95)    # Share of the results that must come within wait_objective_seconds, over 28 days. An alert says when an hour or six hours use up too much of what may be later.
  })
  default  = {}
  nullable = false

  validation {
    condition     = alltrue([for name, rule in local.rules.monitoring : alltrue([for one in flatten([try(var.monitoring[name], null)]) : one == null || try(one >= rule[0] && one <= rule[1] && (length(rule) == 3 || floor(one) == one), can(regex(rule[0], one)))])])
    error_message = join(" ", [for name, rule in local.rules.monitoring : "monitoring.${name} must be ${local.must.monitoring[name]}." if !alltrue([for one in flatten([try(var.monitoring[name], null)]) : one == null || try(one >= rule[0] && one <= rule[1] && (length(rule) == 3 || floor(one) == one), can(regex(rule[0], one)))])])
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
  description = "A short spoken notice in each result that it is synthetic, in the character's own voice. Not in what is heard while somebody speaks, nor in the APIs of other programs."
  type = object({
    languages = optional(list(string), ["ja", "en"]) # Its languages, in the order in which they are said: ja, en.
    position  = optional(string, "off")              # "off", "before" or "after".
  })
  default  = {}
  nullable = false

  validation {
    condition     = length(var.notice.languages) > 0
    error_message = "notice.languages must name ja, en or both."
  }
  validation {
    condition     = alltrue([for name, rule in local.rules.notice : alltrue([for one in flatten([try(var.notice[name], null)]) : one == null || try(one >= rule[0] && one <= rule[1] && (length(rule) == 3 || floor(one) == one), can(regex(rule[0], one)))])])
    error_message = join(" ", [for name, rule in local.rules.notice : "notice.${name} must be ${local.must.notice[name]}." if !alltrue([for one in flatten([try(var.notice[name], null)]) : one == null || try(one >= rule[0] && one <= rule[1] && (length(rule) == 3 || floor(one) == one), can(regex(rule[0], one)))])])
  }
}

variable "on_upload" {
  description = "The function that Cloud Storage tells about recordings."
  type = object({
    max_instances = optional(number, 2) # The most instances.
    min_instances = optional(number, 1) # Warm instances.
  })
  default  = {}
  nullable = false

  validation {
    condition     = alltrue([for name, rule in local.rules.on_upload : alltrue([for one in flatten([try(var.on_upload[name], null)]) : one == null || try(one >= rule[0] && one <= rule[1] && (length(rule) == 3 || floor(one) == one), can(regex(rule[0], one)))])])
    error_message = join(" ", [for name, rule in local.rules.on_upload : "on_upload.${name} must be ${local.must.on_upload[name]}." if !alltrue([for one in flatten([try(var.on_upload[name], null)]) : one == null || try(one >= rule[0] && one <= rule[1] && (length(rule) == 3 || floor(one) == one), can(regex(rule[0], one)))])])
  }
}

variable "operator" {
  description = "Who runs the service: the page names it to visitors before they record or type. null: the page says \"This service\"."
  type = object({
    contact = optional(string) # An e-mail address or a page.
    name    = string           # The operator.
    privacy = optional(string) # The address of your privacy policy.
  })
  default = null

  validation {
    condition     = alltrue([for name, rule in local.rules.operator : alltrue([for one in flatten([try(var.operator[name], null)]) : one == null || try(one >= rule[0] && one <= rule[1] && (length(rule) == 3 || floor(one) == one), can(regex(rule[0], one)))])])
    error_message = join(" ", [for name, rule in local.rules.operator : "operator.${name} must be ${local.must.operator[name]}." if !alltrue([for one in flatten([try(var.operator[name], null)]) : one == null || try(one >= rule[0] && one <= rule[1] && (length(rule) == 3 || floor(one) == one), can(regex(rule[0], one)))])])
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

variable "quota" {
  description = "The project's quota for Cloud Run in the region. The defaults are what many new projects have; older projects have more."
  type = object({
    cpus       = optional(number, 20) # CPUs (CpuAllocPerProjectRegion).
    gpus       = optional(number, 3)  # L4 GPUs (NvidiaL4GpuAllocNoZonalRedundancyPerProjectRegion).
    memory_gib = optional(number, 40) # GiB of memory (MemAllocPerProjectRegion).
  })
  default  = {}
  nullable = false

  validation {
    condition     = var.quota.cpus >= 1 && var.quota.memory_gib >= 1 && var.quota.gpus >= 0
    error_message = "quota must be 1 CPU, 1 GiB and 0 GPUs or more; gcloud beta quotas info describe CpuAllocPerProjectRegion --service=run.googleapis.com --project=PROJECT shows what the project has."
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

variable "signing" {
  description = "How addresses of uploads and results are signed."
  type = object({
    key_rotation = optional(number, 0)     # With "hmac": raise it by one for a new key. The key before it goes on, so that every address that was given out stays valid; with the next rotation it is deleted, so wait a day between two.
    method       = optional(string, "iam") # "iam" calls signBlob twice for each voice and needs no secret; "hmac" makes no call, with an HMAC key of an account of its own. That key is the only secret that Terraform's state holds.
  })
  default  = {}
  nullable = false

  validation {
    condition     = alltrue([for name, rule in local.rules.signing : alltrue([for one in flatten([try(var.signing[name], null)]) : one == null || try(one >= rule[0] && one <= rule[1] && (length(rule) == 3 || floor(one) == one), can(regex(rule[0], one)))])])
    error_message = join(" ", [for name, rule in local.rules.signing : "signing.${name} must be ${local.must.signing[name]}." if !alltrue([for one in flatten([try(var.signing[name], null)]) : one == null || try(one >= rule[0] && one <= rule[1] && (length(rule) == 3 || floor(one) == one), can(regex(rule[0], one)))])])
  }
}

variable "storage" {
  description = "The database, the buckets and their keys."
  type = object({
    database_id        = optional(string, "(default)") # The Firestore database with the documents of voices, and its rules. In a project whose default database belongs to something else, or to another deployment, write a name of your own: this one then has a database of its own beside it. It cannot be changed later without losing the documents.
    firestore_location = optional(string)              # Where the database lies, such as "eur3"; null means in the region. It cannot be changed later.
    kms_key            = optional(string)              # Cloud KMS key that everything is encrypted with, projects/P/locations/REGION/keyRings/R/cryptoKeys/K; null uses Google's keys. Choose before the first apply: Google cannot change the key of the database and of the images' repository, so a later change is refused. The way to another key is a destroy and a new apply.
    shards             = optional(number, 1)           # Over how many buckets recordings and results are spread, each: a bucket takes 1000 writes a second at first, which are 500 voices. Raise it when you like. Before you lower it, stop new voices and wait a day: the buckets that go must be empty.
  })
  default  = {}
  nullable = false

  validation {
    condition     = alltrue([for name, rule in local.rules.storage : alltrue([for one in flatten([try(var.storage[name], null)]) : one == null || try(one >= rule[0] && one <= rule[1] && (length(rule) == 3 || floor(one) == one), can(regex(rule[0], one)))])])
    error_message = join(" ", [for name, rule in local.rules.storage : "storage.${name} must be ${local.must.storage[name]}." if !alltrue([for one in flatten([try(var.storage[name], null)]) : one == null || try(one >= rule[0] && one <= rule[1] && (length(rule) == 3 || floor(one) == one), can(regex(rule[0], one)))])])
  }
  validation {
    condition     = var.storage.kms_key == null || (can(regex("/locations/${var.region}/", var.storage.kms_key)) && (var.storage.firestore_location == null || var.storage.firestore_location == var.region))
    error_message = "storage.kms_key must lie in the region, and storage.firestore_location, too, if there is a key: the buckets refuse a key from elsewhere."
  }
}

variable "traces" {
  description = "Sends the way of each voice through all services to Cloud Trace, as OpenTelemetry spans. A voice has some twenty spans, and Google charges for them by the million. null: off."
  type = object({
    ratio = optional(number, 1) # The share of the voices.
  })
  default = null

  validation {
    condition     = alltrue([for name, rule in local.rules.traces : alltrue([for one in flatten([try(var.traces[name], null)]) : one == null || try(one >= rule[0] && one <= rule[1] && (length(rule) == 3 || floor(one) == one), can(regex(rule[0], one)))])])
    error_message = join(" ", [for name, rule in local.rules.traces : "traces.${name} must be ${local.must.traces[name]}." if !alltrue([for one in flatten([try(var.traces[name], null)]) : one == null || try(one >= rule[0] && one <= rule[1] && (length(rule) == 3 || floor(one) == one), can(regex(rule[0], one)))])])
  }
}

variable "vpc" {
  description = "Sends what converter and live ask of others through a network of your own (Direct VPC egress), for example so that a firewall sees it. The functions stay outside. null: none."
  type = object({
    egress     = optional(string, "PRIVATE_RANGES_ONLY") # With "ALL_TRAFFIC" the subnetwork needs Private Google Access, because buckets and Firestore are then reached through it.
    network    = string                                  # The network's name.
    subnetwork = string                                  # A subnetwork of it in the region.
    tags       = optional(list(string), [])              # Network tags, for rules of the firewall.
  })
  default = null

  validation {
    condition     = alltrue([for name, rule in local.rules.vpc : alltrue([for one in flatten([try(var.vpc[name], null)]) : one == null || try(one >= rule[0] && one <= rule[1] && (length(rule) == 3 || floor(one) == one), can(regex(rule[0], one)))])])
    error_message = join(" ", [for name, rule in local.rules.vpc : "vpc.${name} must be ${local.must.vpc[name]}." if !alltrue([for one in flatten([try(var.vpc[name], null)]) : one == null || try(one >= rule[0] && one <= rule[1] && (length(rule) == 3 || floor(one) == one), can(regex(rule[0], one)))])])
  }
}

variable "watermark" {
  description = "Marks the sound of every result with 16 bits that only this deployment can find. null: off."
  type = object({
    bits           = optional(number, 1)       # The number, from 0 to 65535.
    character_bits = optional(map(number), {}) # Other numbers for single characters.
    key_rotation   = optional(number, 0)       # Raise it by one for a new key; what earlier keys marked is still found.
  })
  default = null

  validation {
    condition     = alltrue([for name, rule in local.rules.watermark : alltrue([for one in flatten([try(var.watermark[name], null)]) : one == null || try(one >= rule[0] && one <= rule[1] && (length(rule) == 3 || floor(one) == one), can(regex(rule[0], one)))])])
    error_message = join(" ", [for name, rule in local.rules.watermark : "watermark.${name} must be ${local.must.watermark[name]}." if !alltrue([for one in flatten([try(var.watermark[name], null)]) : one == null || try(one >= rule[0] && one <= rule[1] && (length(rule) == 3 || floor(one) == one), can(regex(rule[0], one)))])])
  }
  validation {
    condition     = var.watermark == null || try(alltrue([for bits in values(var.watermark.character_bits) : bits >= 0 && bits <= 65535 && floor(bits) == bits]), false)
    error_message = "watermark.character_bits must be whole numbers from 0 to 65535."
  }
}
