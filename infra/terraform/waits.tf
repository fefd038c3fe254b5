# Some changes take Google a minute or more to apply everywhere. Each wait comes between such a change
# and the first resource that would fail without it; the table in README.md explains them. The triggers
# make a wait run again only when what it waits for is new.

resource "time_sleep" "apis" {
  create_duration = "60s"
  triggers        = { apis = join(",", sort(local.apis)) }

  depends_on = [google_project_service.this]
}

# New service accounts, and the roles that builds and deployments use as soon as they start.
resource "time_sleep" "accounts" {
  create_duration = "60s"
  triggers        = { for name, account in google_service_account.this : name => account.unique_id }

  depends_on = [
    google_artifact_registry_repository_iam_member.build,
    google_artifact_registry_repository_iam_member.functions_agent,
    google_project_iam_member.build_logs,
    google_project_iam_member.build_sources,
    google_secret_manager_secret_iam_member.reads_hmac,
    google_secret_manager_secret_iam_member.reads_live_tickets,
    google_secret_manager_secret_iam_member.reads_log_key,
    google_secret_manager_secret_iam_member.reads_compat,
    google_service_account_iam_member.signs_for_itself,
    google_storage_bucket_iam_member.build_sources,
  ]
}

resource "time_sleep" "key_users" {
  count = var.storage.kms_key == null ? 0 : 1

  create_duration = "60s"
  triggers        = { key = var.storage.kms_key }

  depends_on = [google_kms_crypto_key_iam_member.agents]
}

# Cloud Storage checks its permission to publish when the notification is created.
resource "time_sleep" "storage_agent" {
  create_duration = "60s"
  triggers        = { topic = google_pubsub_topic.work["uploads"].id }

  depends_on = [google_pubsub_topic_iam_member.storage_agent]
}

# For up to ten minutes after a log-based metric was created, Cloud Monitoring answers 404 to an alert
# on it. The builds run at the same time.
resource "time_sleep" "metrics" {
  create_duration = "600s"
  triggers        = { metrics = join(",", sort(concat(keys(local.counters), keys(local.durations)))), prefix = var.name }

  depends_on = [google_logging_metric.counter, google_logging_metric.duration]
}

# The suffix of names that Google keeps reserved after a deletion. A destroy and a new apply make a new
# suffix.
resource "random_id" "suffix" {
  byte_length = 4
}
