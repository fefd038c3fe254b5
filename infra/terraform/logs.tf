# Whoever knows a voice_id may use the voice, so the logs do not contain it: the services write a hash of it
# with a key that only they read (shared/runtime/logs.py), and the platform's request logs, whose addresses
# contain it, are not kept. Metrics count requests all the same.
resource "google_secret_manager_secret_iam_member" "reads_log_key" {
  for_each = toset([for name in keys(local.names) : name if(name != "live" || local.has_live) && (name != "train" || local.has_own)])

  project   = var.project_id
  secret_id = google_secret_manager_secret.this["log-key"].secret_id
  role      = "roles/secretmanager.secretAccessor"
  member    = google_service_account.this[each.key].member
}

# Errors of such requests are seen in the api's own log; alerts and charts use the platform's metrics,
# which do not come from the logs.
resource "google_logging_project_exclusion" "voice_ids" {
  name        = "${var.name}-voice-ids"
  project     = var.project_id
  description = "Addresses that contain a voice_id, which lets whoever reads it use the voice"
  filter      = "(resource.labels.service_name=\"${local.names.api}\" OR resource.labels.url_map_name=\"${local.names.api}\") AND httpRequest.requestUrl=~\"/api/v1/(conversion|voices)/\""

  depends_on = [time_sleep.apis]
}

# Clients of VOICEVOX send a text, and the words of a dictionary, in the address; the load balancer's
# log has all addresses of the domain, those with a wrong path included.
resource "google_logging_project_exclusion" "texts" {
  count = local.has_compat ? 1 : 0

  name        = "${var.name}-texts"
  project     = var.project_id
  description = "Addresses that contain what a visitor has a character say"
  filter      = "(resource.labels.service_name=\"${local.names.live}\" OR resource.labels.url_map_name=\"${local.names.api}\") AND httpRequest.requestUrl=~\"[?]\""

  depends_on = [time_sleep.apis]
}
