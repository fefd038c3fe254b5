locals {
  service_accounts = merge(
    {
      api         = "HTTP API"
      build       = "Builds the functions and the conversion container"
      convert     = "Conversion container"
      dead_letter = "Decides about voices whose messages were never accepted"
      on_upload   = "Turns uploads into conversion messages"
      push        = "Pub/Sub's identity when it pushes"
      sweep       = "Puts lost voices back"
      sweep_timer = "Cloud Scheduler's identity when it starts a sweep"
    },
    local.has_live ? { live = "Converts voices while visitors speak" } : {},
    local.has_own ? { train = "Makes characters of visitors' own voices" } : {},
    local.signs_with_hmac ? { signer = "Signs addresses with an HMAC key" } : {},
    length(var.convert.busy_hours) == 0 ? {} : { schedule = "Raises the minimum instances for busy hours" },
  )

  pubsub_agent  = google_project_service_identity.this["pubsub.googleapis.com"].member
  storage_agent = "serviceAccount:service-${data.google_project.this.number}@gs-project-accounts.iam.gserviceaccount.com"
}

resource "google_service_account" "this" {
  for_each = local.service_accounts

  account_id   = "${var.name}-${replace(each.key, "_", "-")}"
  project      = var.project_id
  display_name = "${var.name}: ${each.value}"

  depends_on = [time_sleep.apis]
}

# Project-wide because Firestore knows no smaller resource: the condition names the database.
resource "google_project_iam_member" "firestore" {
  for_each = toset(concat(["api", "convert", "dead_letter", "on_upload", "sweep"], local.has_live ? ["live"] : [], local.has_own ? ["train"] : []))

  project = var.project_id
  role    = "roles/datastore.user"
  member  = google_service_account.this[each.key].member

  condition {
    title      = "${var.name} database only"
    expression = "resource.name == \"${google_firestore_database.this.id}\""
  }
}

# Project-wide because log entries belong to the project and to nothing smaller.
resource "google_project_iam_member" "build_logs" {
  project = var.project_id
  role    = "roles/logging.logWriter"
  member  = google_service_account.this["build"].member
}

# Project-wide because Cloud Functions makes this bucket at the first deployment, so that nothing
# can be granted on it before: the condition names it.
resource "google_project_iam_member" "build_sources" {
  project = var.project_id
  role    = "roles/storage.objectViewer"
  member  = google_service_account.this["build"].member

  condition {
    title      = "Source archives only"
    expression = "resource.name.startsWith(\"projects/_/buckets/gcf-v2-sources-${data.google_project.this.number}-\")"
  }
}

resource "google_storage_bucket_iam_member" "build_sources" {
  bucket = google_storage_bucket.sources.name
  role   = "roles/storage.objectViewer"
  member = google_service_account.this["build"].member
}

resource "google_artifact_registry_repository_iam_member" "build" {
  project    = local.repository.project
  location   = local.repository.location
  repository = local.repository.name
  role       = "roles/artifactregistry.writer"
  member     = google_service_account.this["build"].member
}

# Its own roles reach it some minutes after the API is enabled: too late for the first functions.
resource "google_artifact_registry_repository_iam_member" "functions_agent" {
  project    = local.repository.project
  location   = local.repository.location
  repository = local.repository.name
  role       = "roles/artifactregistry.reader"
  member     = google_project_service_identity.this["cloudfunctions.googleapis.com"].member
}

# Erasing needs the rights to find and delete objects, but not to write or change them. Google keeps
# the id of a deleted role reserved for up to 37 days.
resource "google_project_iam_custom_role" "eraser" {
  role_id     = "${replace(var.name, "-", "_")}_eraser_${random_id.suffix.hex}"
  project     = var.project_id
  title       = "${var.name}: erase a voice's objects"
  permissions = ["storage.objects.delete", "storage.objects.get", "storage.objects.list"]

  depends_on = [time_sleep.apis]
}

# The api erases voices, on_upload an upload whose voice is over, convert and dead_letter the recording
# of a voice that they end and the results of attempts that may not be committed.
resource "google_storage_bucket_iam_member" "eraser" {
  for_each = merge(
    {
      api_results         = { account = "api", bucket = google_storage_bucket.results.name }
      api_uploads         = { account = "api", bucket = google_storage_bucket.uploads.name }
      convert_uploads     = { account = "convert", bucket = google_storage_bucket.uploads.name }
      dead_letter_uploads = { account = "dead_letter", bucket = google_storage_bucket.uploads.name }
      convert_results     = { account = "convert", bucket = google_storage_bucket.results.name }
      dead_letter_results = { account = "dead_letter", bucket = google_storage_bucket.results.name }
      on_upload_uploads   = { account = "on_upload", bucket = google_storage_bucket.uploads.name }
    },
    local.has_live ? {
      live_results = { account = "live", bucket = google_storage_bucket.results.name }
      live_uploads = { account = "live", bucket = google_storage_bucket.uploads.name }
    } : {},
  )

  bucket = each.value.bucket
  role   = google_project_iam_custom_role.eraser.id
  member = google_service_account.this[each.value.account].member
}

# An address that is signed can do what its signer may: put one object here ...
resource "google_storage_bucket_iam_member" "api_creates_uploads" {
  bucket = google_storage_bucket.uploads.name
  role   = "roles/storage.objectCreator"
  member = google_service_account.this["api"].member
}

# A recording that nobody needs is replaced by an empty object, so that its address stays used: that
# needs the rights to delete and to create.
resource "google_storage_bucket_iam_member" "empties_uploads" {
  for_each = toset(["convert", "dead_letter", "on_upload"])

  bucket = google_storage_bucket.uploads.name
  role   = "roles/storage.objectCreator"
  member = google_service_account.this[each.key].member
}

# ... and get one here, which the eraser's role lets it.
resource "google_storage_bucket_iam_member" "convert_creates_results" {
  bucket = google_storage_bucket.results.name
  role   = "roles/storage.objectCreator"
  member = google_service_account.this["convert"].member
}

# Who may list as well learns that an object is missing; others are told that it is forbidden.
resource "google_storage_bucket_iam_member" "reads_uploads" {
  for_each = toset(concat(["convert", "sweep"], local.has_live ? ["live"] : []))

  bucket = google_storage_bucket.uploads.name
  role   = "roles/storage.objectViewer"
  member = google_service_account.this[each.key].member
}

# Signing without a key: IAM signs for whoever has this one right on the account, here the account itself.
resource "google_project_iam_custom_role" "signer" {
  role_id     = "${replace(var.name, "-", "_")}_signer_${random_id.suffix.hex}"
  project     = var.project_id
  title       = "${var.name}: sign addresses"
  permissions = ["iam.serviceAccounts.signBlob"]

  depends_on = [time_sleep.apis]
}

resource "google_service_account_iam_member" "signs_for_itself" {
  for_each = toset(concat(["api", "convert"], local.has_live ? ["live"] : []))

  service_account_id = google_service_account.this[each.key].name
  role               = google_project_iam_custom_role.signer.id
  member             = google_service_account.this[each.key].member
}

resource "google_service_account_iam_member" "push_tokens" {
  service_account_id = google_service_account.this["push"].name
  role               = "roles/iam.serviceAccountOpenIdTokenCreator"
  member             = local.pubsub_agent
}

resource "google_pubsub_topic_iam_member" "storage_agent" {
  project = var.project_id
  topic   = google_pubsub_topic.work["uploads"].name
  role    = "roles/pubsub.publisher"
  member  = local.storage_agent

  depends_on = [data.google_storage_project_service_account.this]
}

resource "google_pubsub_topic_iam_member" "conversions" {
  for_each = toset(["api", "dead_letter", "on_upload", "sweep"])

  project = var.project_id
  topic   = google_pubsub_topic.work["conversions"].name
  role    = "roles/pubsub.publisher"
  member  = google_service_account.this[each.key].member
}

resource "google_pubsub_topic_iam_member" "dead_letter_publisher" {
  for_each = google_pubsub_topic.dead

  project = var.project_id
  topic   = each.value.name
  role    = "roles/pubsub.publisher"
  member  = local.pubsub_agent
}

resource "google_pubsub_subscription_iam_member" "dead_letter_subscriber" {
  for_each = google_pubsub_subscription.work

  project      = var.project_id
  subscription = each.value.name
  role         = "roles/pubsub.subscriber"
  member       = local.pubsub_agent

  lifecycle {
    # A subscription that is made anew keeps its name, but not its roles.
    replace_triggered_by = [google_pubsub_subscription.work[each.key].filter]
  }
}

resource "google_cloud_run_v2_service_iam_member" "push" {
  for_each = {
    convert     = google_cloud_run_v2_service.convert.name
    dead_letter = google_cloudfunctions2_function.this["dead_letter"].name
    on_upload   = google_cloudfunctions2_function.this["on_upload"].name
  }

  project  = var.project_id
  location = var.region
  name     = each.value
  role     = "roles/run.invoker"
  member   = google_service_account.this["push"].member
}

# Cloud Scheduler's agent may make this account's tokens: its role comes with the API.
resource "google_cloud_run_v2_service_iam_member" "sweep_timer" {
  project  = var.project_id
  location = var.region
  name     = google_cloudfunctions2_function.this["sweep"].name
  role     = "roles/run.invoker"
  member   = google_service_account.this["sweep_timer"].member
}

resource "google_cloud_run_v2_service_iam_member" "warm_up" {
  project  = var.project_id
  location = var.region
  name     = google_cloud_run_v2_service.convert.name
  role     = "roles/run.invoker"
  member   = google_service_account.this["api"].member
}

resource "google_cloud_run_v2_service_iam_member" "public_api" {
  count = var.api.public && !var.api.domain_restricted_sharing ? 1 : 0

  project  = var.project_id
  location = var.region
  name     = google_cloudfunctions2_function.this["api"].name
  role     = "roles/run.invoker"
  member   = "allUsers"
}

# For organisations that refuse allUsers. google_cloudfunctions2_function cannot set this
# (hashicorp/terraform-provider-google#23360). A deployment of the function may reset the setting of
# its Cloud Run service, so it is set again after every deployment.
resource "terraform_data" "invoker_check" {
  count = var.api.domain_restricted_sharing ? 1 : 0

  triggers_replace = [var.api.public]

  provisioner "local-exec" {
    working_dir = local.source_root
    command     = "sh infra/terraform/set-invoker-check.sh"
    environment = {
      CHECK      = var.api.public ? "--no-invoker-iam-check" : "--invoker-iam-check"
      PROJECT_ID = var.project_id
      REGION     = var.region
      SERVICE    = google_cloudfunctions2_function.this["api"].name
    }
  }

  lifecycle {
    replace_triggered_by = [google_cloudfunctions2_function.this["api"]]
  }
}

# Google has no narrower right than an update, which can name another image, too; with images.attestation
# "required" only one that Cloud Build of this project has built.
resource "google_project_iam_custom_role" "scaler" {
  count = length(var.convert.busy_hours) == 0 ? 0 : 1

  role_id     = "${replace(var.name, "-", "_")}_scaler_${random_id.suffix.hex}"
  project     = var.project_id
  title       = "${var.name}: set minimum instances"
  permissions = ["run.services.get", "run.services.update"]

  depends_on = [time_sleep.apis]
}

resource "google_cloud_run_v2_service_iam_member" "schedule" {
  count = length(var.convert.busy_hours) == 0 ? 0 : 1

  project  = var.project_id
  location = var.region
  name     = google_cloud_run_v2_service.convert.name
  role     = google_project_iam_custom_role.scaler[0].id
  member   = google_service_account.this["schedule"].member
}

# Cloud Run lets only those change a service who may read its image ...
resource "google_artifact_registry_repository_iam_member" "schedule" {
  count = length(var.convert.busy_hours) == 0 ? 0 : 1

  project    = local.repository.project
  location   = local.repository.location
  repository = local.repository.name
  role       = "roles/artifactregistry.reader"
  member     = google_service_account.this["schedule"].member
}

# ... and act as the account it runs as.
resource "google_service_account_iam_member" "schedule_acts_as_convert" {
  count = length(var.convert.busy_hours) == 0 ? 0 : 1

  service_account_id = google_service_account.this["convert"].name
  role               = "roles/iam.serviceAccountUser"
  member             = google_service_account.this["schedule"].member
}
