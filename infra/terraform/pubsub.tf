locals {
  # Who is pushed what. The paths are compared with the services' routes by a test.
  receivers = {
    conversions = {
      audience = local.audiences.convert
      path     = "/push"
      uri      = google_cloud_run_v2_service.convert.uri
    }
    uploads = {
      audience = local.audiences.on_upload
      path     = "/"
      uri      = google_cloudfunctions2_function.this["on_upload"].service_config[0].uri
    }
  }
  dead_letter_receiver = {
    audience = local.audiences.dead_letter
    path     = "/"
    uri      = google_cloudfunctions2_function.this["dead_letter"].service_config[0].uri
  }
  topics          = toset(["conversions", "uploads"])
  retention       = "604800s"
  minimum_backoff = "1s"
  maximum_backoff = "10s"
  not_overwritten = "NOT attributes:overwroteGeneration"
}

resource "google_pubsub_topic" "work" {
  for_each = local.topics

  name         = "${var.name}-${each.key}"
  project      = var.project_id
  kms_key_name = var.storage.kms_key
  labels       = var.labels

  message_storage_policy {
    allowed_persistence_regions = [var.region]
  }

  depends_on = [time_sleep.apis, time_sleep.key_users]
}

resource "google_pubsub_topic" "dead" {
  for_each = local.topics

  name         = "${var.name}-${each.key}-dead"
  project      = var.project_id
  kms_key_name = var.storage.kms_key
  labels       = var.labels

  message_storage_policy {
    allowed_persistence_regions = [var.region]
  }

  depends_on = [time_sleep.apis, time_sleep.key_users]
}

resource "google_pubsub_subscription" "work" {
  for_each = local.topics

  name                       = "${var.name}-${each.key}"
  project                    = var.project_id
  topic                      = google_pubsub_topic.work[each.key].id
  ack_deadline_seconds       = local.timeouts.acknowledgement
  labels                     = var.labels
  message_retention_duration = local.retention

  # A recording is only ever overwritten by us: it is emptied when its voice is over, of which
  # on_upload need not be told. Google cannot change a subscription's filter, so this makes it anew.
  filter = each.key == "uploads" ? local.not_overwritten : null

  push_config {
    push_endpoint = "${local.receivers[each.key].uri}${local.receivers[each.key].path}"

    oidc_token {
      audience              = local.receivers[each.key].audience
      service_account_email = google_service_account.this["push"].email
    }
  }

  dead_letter_policy {
    dead_letter_topic     = google_pubsub_topic.dead[each.key].id
    max_delivery_attempts = var.dead_letter.delivery_attempts
  }

  retry_policy {
    maximum_backoff = local.maximum_backoff
    minimum_backoff = local.minimum_backoff
  }

  expiration_policy {
    ttl = ""
  }

  # Without these roles a message that cannot be delivered would be retried for ever.
  depends_on = [
    google_cloud_run_v2_service_iam_member.push,
    google_pubsub_topic_iam_member.dead_letter_publisher,
    google_service_account_iam_member.push_tokens,
  ]
}

# Tells the visitor. It has no dead letters of its own: the message also waits in the
# subscription below, and is pushed again here until it is taken.
resource "google_pubsub_subscription" "dead_push" {
  for_each = local.topics

  name                       = "${var.name}-${each.key}-dead"
  project                    = var.project_id
  topic                      = google_pubsub_topic.dead[each.key].id
  ack_deadline_seconds       = local.timeouts.acknowledgement
  labels                     = var.labels
  message_retention_duration = local.retention

  push_config {
    push_endpoint = "${local.dead_letter_receiver.uri}${local.dead_letter_receiver.path}"

    oidc_token {
      audience              = local.dead_letter_receiver.audience
      service_account_email = google_service_account.this["push"].email
    }
  }

  retry_policy {
    maximum_backoff = local.maximum_backoff
    minimum_backoff = local.minimum_backoff
  }

  expiration_policy {
    ttl = ""
  }

  depends_on = [
    google_cloud_run_v2_service_iam_member.push,
    google_service_account_iam_member.push_tokens,
  ]
}

# Nobody takes from it but the operator, to look at dead letters and to publish them again.
resource "google_pubsub_subscription" "dead_retained" {
  for_each = local.topics

  name                       = "${var.name}-${each.key}-dead-retained"
  project                    = var.project_id
  topic                      = google_pubsub_topic.dead[each.key].id
  ack_deadline_seconds       = 600
  labels                     = var.labels
  message_retention_duration = local.retention
  retain_acked_messages      = true

  expiration_policy {
    ttl = ""
  }
}
