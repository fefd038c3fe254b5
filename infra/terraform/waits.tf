# What Google knows everywhere only some time after it was made. Each wait is over before the first
# resource that would fail without it; README.md has the table. A wait begins anew only when what it
# waits for is new: its triggers say what that is.

resource "time_sleep" "apis" {
  create_duration = "60s"
  triggers        = { apis = join(",", sort(local.apis)) }

  depends_on = [google_project_service.this]
}

# Accounts, and the roles that deployments and builds use in the first second.
resource "time_sleep" "accounts" {
  create_duration = "60s"
  triggers        = { for name, account in google_service_account.this : name => account.unique_id }

  depends_on = [
    google_artifact_registry_repository_iam_member.build,
    google_project_iam_member.build_logs,
    google_project_iam_member.build_sources,
    google_service_account_iam_member.signs_for_itself,
    google_storage_bucket_iam_member.build_sources,
  ]
}

resource "time_sleep" "key_users" {
  count = var.kms_key == null ? 0 : 1

  create_duration = "60s"
  triggers        = { key = var.kms_key }

  depends_on = [google_kms_crypto_key_iam_member.agents]
}

# Cloud Storage tries the topic when it is told to notify it.
resource "time_sleep" "storage_agent" {
  create_duration = "60s"
  triggers        = { topic = google_pubsub_topic.work["uploads"].id }

  depends_on = [google_pubsub_topic_iam_member.storage_agent]
}

# Cloud Monitoring answers 404 to an alert on a log-based metric for up to ten minutes after the
# metric was made. The builds take about as long, and go on meanwhile.
resource "time_sleep" "metrics" {
  create_duration = "600s"
  triggers        = { metrics = join(",", sort(concat(keys(local.counters), keys(local.durations)))), prefix = var.name }

  depends_on = [google_logging_metric.counter, google_logging_metric.duration]
}

# Some names stay reserved after their resource was deleted: those end in this, which is new in each
# new deployment.
resource "random_id" "suffix" {
  byte_length = 4
}
