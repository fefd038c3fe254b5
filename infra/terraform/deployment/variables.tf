# Written by python -m infra.terraform.generation; change the module's variables.tf instead.

variable "additional_domains" {
  description = "More domains under which the load balancer of custom_domain serves the same; their A records point to load_balancer_address, too."
  type        = set(string)
  default     = []
  nullable    = false
}

variable "alert_emails" {
  description = "Addresses that alerts are sent to."
  type        = set(string)
  default     = []
  nullable    = false
}

variable "allowed_origins" {
  description = "Origins of the sites that may call the api, upload and play results, such as \"https://example.com\"."
  type        = list(string)
  nullable    = false
}

variable "api_concurrency" {
  description = "Requests that one instance of the api serves at once, waiting ones included."
  type        = number
  default     = 500
  nullable    = false
}

variable "app_check" {
  description = "Lets only your own pages use the api: requests about voices must carry a token of Firebase App Check with reCAPTCHA Enterprise. The Firebase console shows `app_id` and `site_key` when you register the page there. null switches this off."
  type = object({
    app_id   = string
    site_key = string
  })
  default = null
}

variable "build_region" {
  description = "Region in which Cloud Build builds the conversion container's image; null means `region`. Some new projects can build only in us-central1, us-west2, europe-west1, asia-east1, australia-southeast1 and southamerica-east1. The functions are always built in `region`."
  type        = string
  default     = null
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
}

variable "canary" {
  description = "Sends only `percent` of the conversions to the converter's newest revision, and the others to `stable_revision`, a revision that exists (output convert_revision before the apply). null: all to the newest."
  type = object({
    percent         = number
    stable_revision = string
  })
  default = null
}

variable "characters" {
  description = "A bucket of character bundles that are offered without a deployment; null for none. `memory_mib` is the most that the graphs of all bundles may have together that one process keeps loaded."
  type = object({
    memory_mib = optional(number, 1024)
  })
  default = null
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
}

variable "content_credentials_key" {
  description = "The private key of content_credentials as PEM (PKCS 8, curve P-256), where it is not in Cloud KMS. It goes into Secret Manager, and into the state."
  type        = string
  default     = null
  sensitive   = true
}

variable "conversion_deadline_seconds" {
  description = "How long one conversion may take. All other timeouts follow from it."
  type        = number
  default     = 60
  nullable    = false
}

variable "convert_concurrency" {
  description = "Conversions at once in one instance of the conversion container; null makes it twice its CPUs, because a conversion also waits."
  type        = number
  default     = null
}

variable "convert_cpu" {
  description = "CPUs of one instance of the conversion container; 4 need at least 2Gi of convert_memory, 8 at least 4Gi."
  type        = string
  default     = "2"
  nullable    = false
}

variable "convert_gpu" {
  description = "GPU of each instance of the conversion container, \"nvidia-l4\"; null for none. It needs convert_cpu = \"4\" and convert_memory = \"16Gi\" or more, an explicit min_instances, a region that has it (gpu_regions), and a quota for it (quota.gpus). With convert_image, that image must be the variant with CUDA."
  type        = string
  default     = null
}

variable "convert_image" {
  description = "An image that is built already, pinned by its digest; null has the apply build one from the source. With busy_hours, let the service account NAME-schedule read the image where it lies (roles/artifactregistry.reader)."
  type        = string
  default     = null
}

variable "convert_memory" {
  description = "Memory of one instance of the conversion container."
  type        = string
  default     = "1Gi"
  nullable    = false
}

variable "custom_domain" {
  description = "Domain for the api, through a load balancer with Cloud Armor; null serves it under its run.app address."
  type        = string
  default     = null
}

variable "default_character" {
  description = "The character of voices that name none, by its id; null: the first one of the image. It must be one of the image or of the bucket of characters."
  type        = string
  default     = null
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
}

variable "firebase_authentication" {
  description = "Lets signed-in visitors own their voices; null switches owners off. Chooses the ways to sign in."
  type = object({
    anonymous = optional(bool, true)
    email     = optional(bool, false)
  })
  default = null
}

variable "firestore_location" {
  description = "Where the database lies, such as \"eur3\"; null means in the region. It cannot be changed later."
  type        = string
  default     = null
}

variable "function_min_instances" {
  description = "Warm instances of the functions that a visitor waits for."
  type = object({
    api       = optional(number, 0)
    on_upload = optional(number, 1)
  })
  default  = {}
  nullable = false
}

variable "gpu_regions" {
  description = "Regions in which Cloud Run has the GPU of convert_gpu; a plan elsewhere is refused. Add to it what Google has added since."
  type        = set(string)
  default     = ["asia-south1", "asia-southeast1", "europe-west1", "europe-west4", "us-central1", "us-east4"]
  nullable    = false
}

variable "kms_key" {
  description = "Cloud KMS key that everything is encrypted with, projects/P/locations/REGION/keyRings/R/cryptoKeys/K; null uses Google's keys. Choose before the first apply: Google cannot change the key of the database and of the images' repository, so a later change is refused. The way to another key is a destroy and a new apply."
  type        = string
  default     = null
}

variable "labels" {
  description = "Labels of all resources that can have some."
  type        = map(string)
  default     = {}
  nullable    = false
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
}

variable "log_level" {
  description = "The least severe log entries that are written."
  type        = string
  default     = "INFO"
  nullable    = false
}

variable "max_bundle_bytes" {
  description = "How many bytes the graphs of one character bundle may have together, for every service that loads characters. A BERT in single precision, which AIVMX voices need, has 1.2 GB."
  type        = number
  default     = 1073741824
  nullable    = false
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
}

variable "max_text_characters" {
  description = "Longest text that a character speaks, in characters."
  type        = number
  default     = 500
  nullable    = false
}

variable "max_upload_bytes" {
  description = "Largest recording that is accepted, in bytes."
  type        = number
  default     = 8000000
  nullable    = false
}

variable "min_instances" {
  description = "Warm instances of the conversion container at any hour; 0 lets it scale to nothing and relies on the warm-up alone. null: 1 without a GPU. With convert_gpu write the number, because each costs about US$ 750 a month, used or not."
  type        = number
  default     = null
}

variable "monthly_budget" {
  description = "Budget for a month, in whole units of the billing account's currency. Mails are sent at 50 %, 90 % and 100 % of it, and when the forecast reaches 100 %. Nothing is switched off. null means no budget."
  type        = number
  default     = null
}

variable "name" {
  description = "Prefix of all names, so that a project can hold other things too."
  type        = string
  default     = "voice-avatar"
  nullable    = false
}

variable "notice" {
  description = "A short spoken notice in each result that it is synthetic, in the character's own voice: \"off\", \"before\" or \"after\". Not in what is heard while somebody speaks, nor in the APIs of other programs."
  type        = string
  default     = "off"
  nullable    = false
}

variable "notice_languages" {
  description = "The languages of the notice, in the order in which they are said: ja, en."
  type        = list(string)
  default     = ["ja", "en"]
  nullable    = false
}

variable "notification_channels" {
  description = "Cloud Monitoring channels that exist already and get the alerts too, projects/P/notificationChannels/N."
  type        = set(string)
  default     = []
  nullable    = false
}

variable "own_characters" {
  description = "Lets visitors make characters of their own voice, in the page or by the API; null: off, and nothing of it is there. Needs characters. `per_day` is how many all visitors together may begin in a day, `per_owner` how many one visitor may, `public` whether owners may show a character to everybody, `at_once` how many are trained at the same time by a job with 2 CPUs and 4 GiB, `training_seconds` how long one training may take. One training costs about US$ 0.01 (docs/own-characters.md). `pytorch_index` is the address of PyTorch's packages for CPUs, which https://pytorch.org/get-started/locally/ shows after --index-url (Linux, Pip, CPU); `image` is the trainer's image if Cloud Build shall not build it."
  type = object({
    at_once          = optional(number, 1)
    image            = optional(string)
    per_day          = optional(number, 20)
    per_owner        = optional(number, 3)
    public           = optional(bool, false)
    pytorch_index    = optional(string)
    training_seconds = optional(number, 1800)
  })
  default = null
}

variable "page" {
  description = "Hosts the page under custom_domain, together with the api. `folder` is the folder that the page's build has written (web/page/dist); the module writes config.json itself. null means that the page is hosted elsewhere."
  type = object({
    folder = string
  })
  default = null
}

variable "project_id" {
  description = "The Google Cloud project; it exists and has a billing account."
  type        = string
  nullable    = false
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
}

variable "rate_limit_per_minute" {
  description = "Requests a minute that one address (an IPv6 /64) may send to the api, a twelfth of them at once; a /56 has twice and a /48 four times as many. Recordings that fail as those of an attacker do count as ten more. Each instance counts for itself; with custom_domain the load balancer counts, too, for all together."
  type        = number
  default     = 120
  nullable    = false
}

variable "recording_seconds" {
  description = "Shortest and longest recording that is converted."
  type = object({
    max = optional(number, 10)
    min = optional(number, 1)
  })
  default  = {}
  nullable = false
}

variable "region" {
  description = "Where everything runs and is stored."
  type        = string
  nullable    = false
}

variable "result_url_seconds" {
  description = "How long the address of a result works."
  type        = number
  default     = 86400
  nullable    = false
}

variable "signing" {
  description = "How addresses are signed: \"iam\" calls signBlob twice for each voice and needs no secret; \"hmac\" makes no call, with an HMAC key of an account of its own in Secret Manager, which Terraform's state holds, too."
  type        = string
  default     = "iam"
  nullable    = false
}

variable "traces" {
  description = "Sends the way of each voice through all services to Cloud Trace, as OpenTelemetry spans: `{}`, or `{ ratio = 0.1 }` for a tenth of the voices. A voice has some twenty spans, and Google charges for them by the million. null sends nothing."
  type = object({
    ratio = optional(number, 1)
  })
  default = null
}

variable "upload_shards" {
  description = "Over how many buckets recordings and results are spread, each: a bucket takes 1000 writes a second at first, which are 500 voices. Raise it when you like. Before you lower it, stop new voices and wait a day: the buckets that go must be empty."
  type        = number
  default     = 1
  nullable    = false
}

variable "upload_url_seconds" {
  description = "How long the address for an upload works."
  type        = number
  default     = 600
  nullable    = false
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
}

variable "wait_objective_seconds" {
  description = "Longest wait after the upload, as the 95th percentile, before an alert."
  type        = number
  default     = 5
  nullable    = false
}

variable "wait_objective_share" {
  description = "Share of the results that must come within wait_objective_seconds, over 28 days. An alert says when an hour or six hours use up too much of what may be later."
  type        = number
  default     = 0.95
  nullable    = false

  # A share so small that all may be late for a month never burns fast enough to be seen.
}

variable "wait_seconds" {
  description = "How long GET /api/v1/conversion/{voice_id} waits for a result before it answers 504."
  type        = number
  default     = 50
  nullable    = false
}

variable "waiting_per_client" {
  description = "Requests of one address that may wait for a conversion at the same time in one instance of the api, and recordings that it may be uploading through the api. Pages that listen to Firestore do not wait there."
  type        = number
  default     = 50
  nullable    = false
}

variable "warm_ups_at_once" {
  description = "Warm-ups of one instance of the api that may wait for converters to start. Two of them stand for one conversion at once, so a crowd wakes as many converters as it will need; a warm converter answers at once. `max_instances` bounds what they cost."
  type        = number
  default     = 80
  nullable    = false
}

variable "watermark" {
  description = "Marks the sound of every result with 16 bits, a number from 0 to 65535, that only this deployment can find. null: off. character_bits are other numbers for single characters. Raise key_rotation by one for a new key; what earlier keys marked is still found."
  type = object({
    bits           = optional(number, 1)
    character_bits = optional(map(number), {})
    key_rotation   = optional(number, 0)
  })
  default = null
}
