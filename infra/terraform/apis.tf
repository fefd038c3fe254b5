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
      "storage.googleapis.com",
    ],
    var.app_check == null ? [] : ["firebaseappcheck.googleapis.com"],
    var.custom_domain == null ? [] : ["compute.googleapis.com"],
    var.firebase_authentication == null ? [] : ["identitytoolkit.googleapis.com", "securetoken.googleapis.com"],
    var.kms_key == null ? [] : ["cloudkms.googleapis.com"],
    var.monthly_budget == null ? [] : ["billingbudgets.googleapis.com"],
  ))

  # Agents that exist only once something asks for them, and that IAM members below name.
  agents = toset(concat(
    ["pubsub.googleapis.com"],
    var.kms_key == null ? [] : [
      "artifactregistry.googleapis.com",
      "cloudfunctions.googleapis.com",
      "firestore.googleapis.com",
      "run.googleapis.com",
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

# Only to make sure that the agent exists. Who is granted something is local.storage_agent: what is
# read here is unknown in the plan of every apply that switches on another API, and an unknown member
# is taken away and granted again.
data "google_storage_project_service_account" "this" {
  project = var.project_id

  depends_on = [time_sleep.apis]
}
