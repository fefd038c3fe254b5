# One trace of each voice, from the api to its result. Off unless `traces` is set.
locals {
  has_traces = var.traces != null
  # These services are on a voice's way.
  traced = toset(local.has_traces ? concat(["api", "convert", "on_upload"], local.has_live ? ["live"] : []) : [])

  environment_traces = local.has_traces ? {
    TRACES      = "google"
    TRACE_RATIO = tostring(var.traces.ratio)
  } : {}
}

# Project-wide because traces belong to the project and to nothing smaller.
resource "google_project_iam_member" "traces" {
  for_each = local.traced

  project = var.project_id
  role    = "roles/telemetry.tracesWriter"
  member  = google_service_account.this[each.key].member
}
