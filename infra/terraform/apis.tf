locals {
  apis = toset(concat(
    [
      "apikeys.googleapis.com",
      "artifactregistry.googleapis.com",
      "cloudbuild.googleapis.com",
      "cloudfunctions.googleapis.com",
      "cloudscheduler.googleapis.com",
      "firebaserules.googleapis.com",
      "firestore.googleapis.com",
      "iam.googleapis.com",
      "iamcredentials.googleapis.com",
      "logging.googleapis.com",
      "monitoring.googleapis.com",
      "pubsub.googleapis.com",
      "run.googleapis.com",
      "secretmanager.googleapis.com",
      "storage.googleapis.com",
    ],
    var.app_check == null ? [] : ["firebaseappcheck.googleapis.com", "recaptchaenterprise.googleapis.com"],
    var.custom_domain == null ? [] : ["certificatemanager.googleapis.com", "compute.googleapis.com"],
    var.firebase_authentication == null ? [] : ["identitytoolkit.googleapis.com", "securetoken.googleapis.com"],
    var.kms_key == null ? [] : ["cloudkms.googleapis.com"],
    local.has_traces ? ["cloudtrace.googleapis.com", "telemetry.googleapis.com"] : [],
    var.monthly_budget == null ? [] : ["billingbudgets.googleapis.com", "cloudbilling.googleapis.com"],
  ))

  # Agents that exist only once something asks for them, and that IAM members below name.
  agents = toset(concat(
    ["cloudfunctions.googleapis.com", "pubsub.googleapis.com"],
    var.kms_key == null ? [] : [
      "artifactregistry.googleapis.com",
      "firestore.googleapis.com",
      "run.googleapis.com",
      "secretmanager.googleapis.com",
    ],
  ))
}

data "google_project" "this" {
  project_id = var.project_id
}

# Terraform's own credentials, for what the apply does through gcloud: whoever can apply needs no second
# sign-in, neither at a desk nor in CI.
data "google_client_config" "this" {}

locals {
  # Not treated as sensitive, because Terraform would hide everything that the build prints. It is given
  # to gcloud in its environment, which Terraform does not print.
  gcloud_credentials = { CLOUDSDK_AUTH_ACCESS_TOKEN = nonsensitive(data.google_client_config.this.access_token) }
}

resource "google_project_service" "this" {
  for_each = local.apis

  project            = var.project_id
  service            = each.value
  disable_on_destroy = false
}

resource "google_project_service_identity" "this" {
  for_each = local.agents
  provider = google-beta

  project = var.project_id
  service = each.value

  depends_on = [time_sleep.apis]
}

# Reading this makes sure that the agent exists. The IAM members use local.storage_agent instead of
# the value read here: the value is unknown in every plan that enables another API, and Terraform
# replaces an IAM member whose value is unknown.
data "google_storage_project_service_account" "this" {
  project = var.project_id

  depends_on = [time_sleep.apis]
}
