# Cloud Run looks, before it starts an image, for the signature with which Cloud Build says that it built the
# image in this project (Binary Authorization). The functions have no such setting here. Only with
# images.attestation.
locals {
  # An image that was built before has no signature, and is built again.
  attested = var.images.attestation == "off" ? [] : [var.images.attestation]
}

# A project has one policy, which this replaces; a destroy leaves Google's, which allows everything.
resource "google_binary_authorization_policy" "this" {
  count = length(local.attested)

  project                       = var.project_id
  description                   = "Images of ${var.name} are built by Cloud Build"
  global_policy_evaluation_mode = "ENABLE"

  default_admission_rule {
    enforcement_mode        = var.images.attestation == "required" ? "ENFORCED_BLOCK_AND_AUDIT_LOG" : "DRYRUN_AUDIT_LOG_ONLY"
    evaluation_mode         = "REQUIRE_ATTESTATION"
    require_attestations_by = ["projects/${var.project_id}/attestors/built-by-cloud-build"]
  }

  # The project's first build makes the attestor, and a policy cannot name one that does not exist.
  depends_on = [terraform_data.image, terraform_data.train_image, time_sleep.apis]
}
