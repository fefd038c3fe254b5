locals {
  apis = toset(concat(
    [
      "apikeys.googleapis.com",
      "artifactregistry.googleapis.com",
      "cloudbuild.googleapis.com",
      "cloudfunctions.googleapis.com",
      "cloudscheduler.googleapis.com",
      "containeranalysis.googleapis.com",
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
    length(local.attested) == 0 ? [] : ["binaryauthorization.googleapis.com"],
    var.app_check == null ? [] : ["firebaseappcheck.googleapis.com", "recaptchaenterprise.googleapis.com"],
    var.domain.name == null ? [] : ["certificatemanager.googleapis.com", "compute.googleapis.com"],
    var.firebase_authentication == null ? [] : ["identitytoolkit.googleapis.com", "securetoken.googleapis.com"],
    var.storage.kms_key == null ? [] : ["cloudkms.googleapis.com"],
    local.has_traces ? ["cloudtrace.googleapis.com", "telemetry.googleapis.com"] : [],
    var.monitoring.monthly_budget == null ? [] : ["billingbudgets.googleapis.com", "cloudbilling.googleapis.com"],
  ))

  # Agents that exist only once something asks for them, and that IAM members below name.
  agents = toset(concat(
    ["cloudfunctions.googleapis.com", "pubsub.googleapis.com"],
    var.storage.kms_key == null ? [] : [
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
