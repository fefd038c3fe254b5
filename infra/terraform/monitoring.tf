locals {
  # Stages whose times the conversion container logs with `conversion_done`, in their order.
  stages = ["read", "decode", "resample", "f0", "network", "post", "speak", "encode", "sign", "notice", "store"]

  # One counter for each thing worth counting: the event that is logged, by which service, and the
  # fields that tell its kinds apart.
  counters = {
    delayed = {
      description = "Voices for which there was no room for long, put back by dead_letter"
      event       = "delayed"
      labels      = {}
      service     = local.names.dead_letter
    }
    cold_starts = {
      description = "Instances of the conversion container that were started"
      event       = "instance_started"
      labels      = {}
      service     = local.names.convert
    }
    dead_letters = {
      description = "Messages given up on"
      event       = "dead_lettered"
      labels      = { subscription = "subscription" }
      service     = local.names.dead_letter
    }
    done = {
      description = "Conversions done"
      event       = "conversion_done"
      labels      = { character = "character" }
      service     = local.names.convert
    }
    results_unsigned = {
      description = "Results of the conversion container without a signed statement, because nobody signed it in time"
      event       = "result_unsigned"
      labels      = {}
      service     = local.names.convert
    }
    expired = {
      description = "Voices that were never uploaded, ended by the sweep"
      event       = "voice_expired"
      labels      = {}
      service     = local.names.sweep
    }
    failed = {
      description = "Conversions failed for good, by code"
      event       = "conversion_failed"
      labels      = { code = "code" }
      service     = local.names.convert
    }
    marks_left_out = {
      description = "Texts that were spoken without the marks of their phones and words, because of an error of ours"
      event       = "marks_left_out"
      labels      = {}
      service     = local.names.convert
    }
    retried = {
      description = "Messages sent back to be delivered again, because something failed in passing"
      event       = "nacked"
      labels      = {}
      service     = local.names.convert
    }
    live_done = {
      description = "Conversions done by live"
      event       = "conversion_done"
      labels      = { character = "character" }
      service     = local.names.live
    }
    live_refused = {
      description = "Connections to live that were refused, by reason"
      event       = "live_refused"
      labels      = { reason = "reason" }
      service     = local.names.live
    }
    live_retried = {
      description = "Recordings that live did not convert, so that they went the way of an upload"
      event       = "live_retry"
      labels      = {}
      service     = local.names.live
    }
    not_swept = {
      description = "Voices that the sweep could not look after and left for the next one"
      event       = "not_swept"
      labels      = {}
      service     = local.names.sweep
    }
    overloaded = {
      description = "Conversions put off because the instance was full"
      event       = "overloaded"
      labels      = {}
      service     = local.names.convert
    }
    put_back = {
      description = "Voices whose event or message was lost, put back by the sweep, by what they were"
      event       = "voice_put_back"
      labels      = { status = "status" }
      service     = local.names.sweep
    }
    started = {
      description = "Conversions started; cold means that it was the first of its instance"
      event       = "conversion_started"
      labels      = { cold = "cold" }
      service     = local.names.convert
    }
    swept = {
      description = "Sweeps that went to their end"
      event       = "swept"
      labels      = {}
      service     = local.names.sweep
    }
    takeovers = {
      description = "Conversions taken over from a worker that was lost"
      event       = "lease_taken_over"
      labels      = {}
      service     = local.names.convert
    }
    uploads = {
      description = "Recordings received"
      event       = "upload_received"
      labels      = {}
      service     = local.names.on_upload
    }
    voices = {
      description = "Voices created"
      event       = "voice_created"
      labels      = { character = "character" }
      service     = local.names.api
    }
  }

  # The same for durations in milliseconds: `value` is the field that holds it.
  whole_durations = {
    ready = {
      description = "From the start of an instance to its readiness"
      event       = "instance_started"
      value       = "ready_ms"
    }
    wait = {
      description = "From the end of the upload to the result"
      event       = "conversion_done"
      value       = "wait_ms"
    }
  }
  durations = merge(local.whole_durations, {
    for stage in local.stages : "stage_${stage}" => {
      description = "Stage ${stage} of a conversion"
      event       = "conversion_done"
      value       = "stages.${stage}"
    }
  })

  # Errors that are never the recording's fault.
  own_errors = ["deadline_exceeded", "internal"]

  # What a metric of ours is called in a filter of Cloud Monitoring.
  metric = {
    for name in concat(keys(local.counters), keys(local.durations)) :
    name => "resource.type = \"cloud_run_revision\" AND metric.type = \"logging.googleapis.com/user/${var.name}/${name}\""
  }

  email_channels = [for channel in google_monitoring_notification_channel.email : channel.id]
  channels       = concat(local.email_channels, tolist(var.notification_channels))
}

resource "google_logging_metric" "counter" {
  for_each = local.counters

  name        = "${var.name}/${each.key}"
  project     = var.project_id
  description = each.value.description
  filter      = "resource.type=\"cloud_run_revision\" AND resource.labels.service_name=\"${each.value.service}\" AND jsonPayload.event=\"${each.value.event}\""

  label_extractors = { for label, field in each.value.labels : label => "EXTRACT(jsonPayload.${field})" }

  metric_descriptor {
    metric_kind = "DELTA"
    value_type  = "INT64"
    unit        = "1"

    dynamic "labels" {
      for_each = each.value.labels
      content {
        key        = labels.key
        value_type = "STRING"
      }
    }
  }

  depends_on = [time_sleep.apis]
}

resource "google_logging_metric" "duration" {
  for_each = local.durations

  name            = "${var.name}/${each.key}"
  project         = var.project_id
  description     = each.value.description
  filter          = "resource.type=\"cloud_run_revision\" AND resource.labels.service_name=\"${local.names.convert}\" AND jsonPayload.event=\"${each.value.event}\""
  value_extractor = "EXTRACT(jsonPayload.${each.value.value})"

  # From 1 ms to 400 s, each bound 15 % above the one before: a percentile is that exact.
  bucket_options {
    exponential_buckets {
      growth_factor      = 1.15
      num_finite_buckets = 93
      scale              = 1
    }
  }

  metric_descriptor {
    metric_kind = "DELTA"
    value_type  = "DISTRIBUTION"
    unit        = "ms"
  }

  depends_on = [time_sleep.apis]
}

resource "google_monitoring_notification_channel" "email" {
  for_each = var.alert_emails

  project      = var.project_id
  display_name = "${var.name}: ${each.value}"
  type         = "email"
  labels       = { email_address = each.value }

  # Google refuses to delete a channel that an alert still names: it goes after the alerts' change.
  lifecycle {
    create_before_destroy = true
  }

  depends_on = [time_sleep.apis]
}

# Each alert's documentation is its own chapter of runbook.md; a test sees to that.
locals {
  runbook = {
    for chapter in slice(split("\n## ", file("${path.module}/runbook.md")), 1, length(split("\n## ", file("${path.module}/runbook.md")))) :
    split("\n", chapter)[0] => trimspace(join("\n", slice(split("\n", chapter), 1, length(split("\n", chapter)))))
  }
}

resource "google_monitoring_alert_policy" "dead_letters" {
  project               = var.project_id
  display_name          = "${var.name}: dead letters"
  combiner              = "OR"
  notification_channels = local.channels
  severity              = "ERROR"
  user_labels           = var.labels

  # Not the number of messages that are retained: a voice for which there was no room for long is
  # put back, but its message is retained, too.
  dynamic "conditions" {
    for_each = {
      "A dead letter ended its voice, or named none" = local.metric.dead_letters
      "All attempts at a voice failed"               = "${local.metric.failed} AND metric.labels.code = \"attempts_exhausted\""
    }
    content {
      display_name = conditions.key

      condition_threshold {
        filter          = conditions.value
        comparison      = "COMPARISON_GT"
        duration        = "0s"
        threshold_value = 0

        aggregations {
          alignment_period     = "300s"
          cross_series_reducer = "REDUCE_SUM"
          per_series_aligner   = "ALIGN_DELTA"
        }
      }
    }
  }

  documentation {
    content   = local.runbook["Dead letters"]
    mime_type = "text/markdown"
  }

  depends_on = [time_sleep.metrics]
}

resource "google_monitoring_alert_policy" "wait" {
  project               = var.project_id
  display_name          = "${var.name}: visitors wait too long"
  combiner              = "OR"
  notification_channels = local.channels
  severity              = "WARNING"
  user_labels           = var.labels

  conditions {
    display_name = "95th percentile of the wait above ${var.wait_objective_seconds} s"

    condition_threshold {
      filter          = local.metric.wait
      comparison      = "COMPARISON_GT"
      duration        = "300s"
      threshold_value = var.wait_objective_seconds * 1000

      aggregations {
        alignment_period     = "300s"
        cross_series_reducer = "REDUCE_PERCENTILE_95"
        per_series_aligner   = "ALIGN_DELTA"
      }
    }
  }

  documentation {
    content   = local.runbook["Visitors wait too long"]
    mime_type = "text/markdown"
  }

  depends_on = [time_sleep.metrics]
}

resource "google_monitoring_alert_policy" "errors" {
  project               = var.project_id
  display_name          = "${var.name}: conversions fail"
  combiner              = "OR"
  notification_channels = local.channels
  severity              = "ERROR"
  user_labels           = var.labels

  dynamic "conditions" {
    for_each = {
      "fail for good" = "${local.metric.failed} AND metric.labels.code = one_of(${join(", ", [for code in local.own_errors : "\"${code}\""])})"
      "are put off"   = local.metric.retried
    }
    content {
      display_name = "More than ${var.error_rate_objective * 100} % of the conversions ${conditions.key} by our fault"

      condition_threshold {
        filter             = conditions.value
        denominator_filter = local.metric.started
        comparison         = "COMPARISON_GT"
        duration           = "300s"
        threshold_value    = var.error_rate_objective

        aggregations {
          alignment_period     = "300s"
          cross_series_reducer = "REDUCE_SUM"
          per_series_aligner   = "ALIGN_DELTA"
        }

        denominator_aggregations {
          alignment_period     = "300s"
          cross_series_reducer = "REDUCE_SUM"
          per_series_aligner   = "ALIGN_DELTA"
        }
      }
    }
  }

  documentation {
    content   = local.runbook["Conversions fail"]
    mime_type = "text/markdown"
  }

  depends_on = [time_sleep.metrics]
}

resource "google_monitoring_alert_policy" "live" {
  count = local.live

  project               = var.project_id
  display_name          = "${var.name}: live conversions are put off"
  combiner              = "OR"
  notification_channels = local.channels
  severity              = "WARNING"
  user_labels           = var.labels

  conditions {
    display_name = "More than ${var.error_rate_objective * 100} % of the recordings that came to live went the way of an upload"

    condition_threshold {
      filter             = local.metric.live_retried
      denominator_filter = local.metric.live_done
      comparison         = "COMPARISON_GT"
      duration           = "300s"
      threshold_value    = var.error_rate_objective

      aggregations {
        alignment_period     = "300s"
        cross_series_reducer = "REDUCE_SUM"
        per_series_aligner   = "ALIGN_DELTA"
      }

      denominator_aggregations {
        alignment_period     = "300s"
        cross_series_reducer = "REDUCE_SUM"
        per_series_aligner   = "ALIGN_DELTA"
      }
    }
  }

  documentation {
    content   = local.runbook["Live conversions are put off"]
    mime_type = "text/markdown"
  }

  depends_on = [time_sleep.metrics]
}

locals {
  pushed = "resource.type = \"pubsub_subscription\" AND resource.labels.subscription_id = one_of(\"${google_pubsub_subscription.work["conversions"].name}\", \"${google_pubsub_subscription.work["uploads"].name}\", \"${google_pubsub_subscription.dead_push["conversions"].name}\", \"${google_pubsub_subscription.dead_push["uploads"].name}\")"
  pushes = "${local.pushed} AND metric.type = \"pubsub.googleapis.com/subscription/push_request_count\""
}

resource "google_monitoring_alert_policy" "stuck" {
  project               = var.project_id
  display_name          = "${var.name}: voices are stuck"
  combiner              = "OR"
  notification_channels = local.channels
  severity              = "ERROR"
  user_labels           = var.labels

  conditions {
    display_name = "A message has waited longer than its acknowledgement deadline"

    condition_threshold {
      filter          = "${local.pushed} AND metric.type = \"pubsub.googleapis.com/subscription/oldest_unacked_message_age\""
      comparison      = "COMPARISON_GT"
      duration        = "60s"
      threshold_value = local.timeouts.acknowledgement

      aggregations {
        alignment_period   = "60s"
        per_series_aligner = "ALIGN_MAX"
      }
    }
  }

  documentation {
    content   = local.runbook["Voices are stuck"]
    mime_type = "text/markdown"
  }
}

# Both at once, of the same subscription: with little traffic a single refusal is a large share.
resource "google_monitoring_alert_policy" "refused" {
  project               = var.project_id
  display_name          = "${var.name}: pushes are refused"
  combiner              = "AND_WITH_MATCHING_RESOURCE"
  notification_channels = local.channels
  severity              = "WARNING"
  user_labels           = var.labels

  dynamic "conditions" {
    for_each = {
      "More than 1 % of the pushes of a subscription were refused in a quarter of an hour" = { most = 0.01, pushes = [local.pushes] }
      "More than ten pushes of a subscription were refused in a quarter of an hour"        = { most = 10, pushes = [] }
    }
    content {
      display_name = conditions.key

      condition_threshold {
        filter             = "${local.pushes} AND metric.labels.response_class != \"ack\""
        denominator_filter = one(conditions.value.pushes)
        comparison         = "COMPARISON_GT"
        duration           = "0s"
        threshold_value    = conditions.value.most

        aggregations {
          alignment_period     = "900s"
          cross_series_reducer = "REDUCE_SUM"
          group_by_fields      = ["resource.label.subscription_id"]
          per_series_aligner   = "ALIGN_DELTA"
        }

        dynamic "denominator_aggregations" {
          for_each = conditions.value.pushes
          content {
            alignment_period     = "900s"
            cross_series_reducer = "REDUCE_SUM"
            group_by_fields      = ["resource.label.subscription_id"]
            per_series_aligner   = "ALIGN_DELTA"
          }
        }
      }
    }
  }

  documentation {
    content   = local.runbook["Pushes are refused"]
    mime_type = "text/markdown"
  }
}

resource "google_monitoring_alert_policy" "lost" {
  project               = var.project_id
  display_name          = "${var.name}: voices were lost"
  combiner              = "OR"
  notification_channels = local.channels
  severity              = "WARNING"
  user_labels           = var.labels

  # A few can be crashes at the worst moment, which is what the sweep is there for.
  conditions {
    display_name = "More than three voices were put back in a quarter of an hour"

    condition_threshold {
      filter          = local.metric.put_back
      comparison      = "COMPARISON_GT"
      duration        = "0s"
      threshold_value = 3

      aggregations {
        alignment_period     = "900s"
        cross_series_reducer = "REDUCE_SUM"
        per_series_aligner   = "ALIGN_DELTA"
      }
    }
  }

  # A counter without entries has no data: that is what must alarm here.
  conditions {
    display_name = "No sweep went to its end for half an hour"

    condition_threshold {
      filter                  = local.metric.swept
      comparison              = "COMPARISON_LT"
      duration                = "60s"
      evaluation_missing_data = "EVALUATION_MISSING_DATA_ACTIVE"
      threshold_value         = 1

      aggregations {
        alignment_period     = "1800s"
        cross_series_reducer = "REDUCE_SUM"
        per_series_aligner   = "ALIGN_DELTA"
      }
    }
  }

  documentation {
    content   = local.runbook["Voices were lost"]
    mime_type = "text/markdown"
  }

  depends_on = [time_sleep.metrics]
}

# It does not ask /healthz, because Cloud Run reserves paths that end in z.
resource "google_monitoring_uptime_check_config" "api" {
  count = var.public_api ? 1 : 0

  project      = var.project_id
  display_name = "${var.name}: api"
  period       = "300s"
  timeout      = "30s"
  user_labels  = var.labels

  http_check {
    path         = "/api/v1/characters"
    port         = 443
    use_ssl      = true
    validate_ssl = true
  }

  monitored_resource {
    type = "uptime_url"
    labels = {
      host       = trimprefix(local.api_url, "https://")
      project_id = var.project_id
    }
  }
}

resource "google_monitoring_alert_policy" "down" {
  count = var.public_api ? 1 : 0

  project               = var.project_id
  display_name          = "${var.name}: the api is down"
  combiner              = "OR"
  notification_channels = local.channels
  severity              = "CRITICAL"
  user_labels           = var.labels

  conditions {
    display_name = "The api did not answer from at least two places"

    condition_threshold {
      filter          = "resource.type = \"uptime_url\" AND metric.type = \"monitoring.googleapis.com/uptime_check/check_passed\" AND metric.labels.check_id = \"${google_monitoring_uptime_check_config.api[0].uptime_check_id}\""
      comparison      = "COMPARISON_GT"
      duration        = "60s"
      threshold_value = 1

      aggregations {
        alignment_period     = "1200s"
        cross_series_reducer = "REDUCE_COUNT_FALSE"
        group_by_fields      = ["resource.label.project_id", "resource.label.host"]
        per_series_aligner   = "ALIGN_NEXT_OLDER"
      }

      trigger {
        count = 1
      }
    }
  }

  documentation {
    content   = local.runbook["The api is down"]
    mime_type = "text/markdown"
  }
}

# 504 does not count: it is the regular answer to a client that has waited for wait_seconds.
resource "google_monitoring_alert_policy" "failing" {
  project               = var.project_id
  display_name          = "${var.name}: the api fails"
  combiner              = "OR"
  notification_channels = local.channels
  severity              = "ERROR"
  user_labels           = var.labels

  conditions {
    display_name = "More than 5 % of the api's answers are 5xx"

    condition_threshold {
      filter             = "${local.api_requests} AND metric.labels.response_code_class = \"5xx\" AND metric.labels.response_code != \"504\""
      denominator_filter = local.api_requests
      comparison         = "COMPARISON_GT"
      duration           = "300s"
      threshold_value    = 0.05

      aggregations {
        alignment_period     = "300s"
        cross_series_reducer = "REDUCE_SUM"
        per_series_aligner   = "ALIGN_DELTA"
      }

      denominator_aggregations {
        alignment_period     = "300s"
        cross_series_reducer = "REDUCE_SUM"
        per_series_aligner   = "ALIGN_DELTA"
      }
    }
  }

  documentation {
    content   = local.runbook["The api fails"]
    mime_type = "text/markdown"
  }

  depends_on = [time_sleep.apis]
}

# The last four alerts watch log entries directly. They use no log-based metric, so they need no wait.
locals {
  api_requests = "resource.type = \"cloud_run_revision\" AND resource.labels.service_name = \"${local.names.api}\" AND metric.type = \"run.googleapis.com/request_count\""
  log_of_ours  = "resource.type=\"cloud_run_revision\" AND resource.labels.service_name=(${join(" OR ", [for name in values(local.names) : "\"${name}\""])}) AND severity=ERROR"
}

resource "google_monitoring_alert_policy" "memory" {
  project               = var.project_id
  display_name          = "${var.name}: instances run out of memory"
  combiner              = "OR"
  notification_channels = local.channels
  severity              = "ERROR"
  user_labels           = var.labels

  conditions {
    display_name = "Cloud Run ended an instance that used more memory than it has"

    condition_matched_log {
      filter           = "${local.log_of_ours} AND logName=\"projects/${var.project_id}/logs/run.googleapis.com%2Fvarlog%2Fsystem\" AND textPayload:\"Memory limit of\""
      label_extractors = { service = "EXTRACT(resource.labels.service_name)" }
    }
  }

  alert_strategy {
    auto_close = "3600s"

    notification_rate_limit {
      period = "3600s"
    }
  }

  documentation {
    content   = local.runbook["Instances run out of memory"]
    mime_type = "text/markdown"
  }

  depends_on = [time_sleep.apis]
}

resource "google_monitoring_alert_policy" "not_starting" {
  project               = var.project_id
  display_name          = "${var.name}: a revision does not start"
  combiner              = "OR"
  notification_channels = local.channels
  severity              = "ERROR"
  user_labels           = var.labels

  conditions {
    display_name = "A revision did not become ready"

    condition_matched_log {
      filter           = "${local.log_of_ours} AND protoPayload.response.kind=\"Revision\" AND protoPayload.status.message:\"Ready condition status changed to False\""
      label_extractors = { service = "EXTRACT(resource.labels.service_name)" }
    }
  }

  alert_strategy {
    auto_close = "3600s"

    notification_rate_limit {
      period = "3600s"
    }
  }

  documentation {
    content   = local.runbook["A revision does not start"]
    mime_type = "text/markdown"
  }

  depends_on = [time_sleep.apis]
}

resource "google_monitoring_alert_policy" "unexpected" {
  project               = var.project_id
  display_name          = "${var.name}: the program has an error"
  combiner              = "OR"
  notification_channels = local.channels
  severity              = "ERROR"
  user_labels           = var.labels

  conditions {
    display_name = "A service logged an exception that it does not expect"

    condition_matched_log {
      filter           = "${local.log_of_ours} AND jsonPayload.event=\"unexpected_error\""
      label_extractors = { service = "EXTRACT(resource.labels.service_name)" }
    }
  }

  alert_strategy {
    auto_close = "3600s"

    notification_rate_limit {
      period = "3600s"
    }
  }

  documentation {
    content   = local.runbook["The program has an error"]
    mime_type = "text/markdown"
  }

  depends_on = [time_sleep.apis]
}

resource "google_monitoring_alert_policy" "broken_character" {
  count = var.characters == null ? 0 : 1

  project               = var.project_id
  display_name          = "${var.name}: a character does not work"
  combiner              = "OR"
  notification_channels = local.channels
  severity              = "ERROR"
  user_labels           = var.labels

  conditions {
    display_name = "A character of the bucket could not be loaded"

    condition_matched_log {
      filter           = "${local.log_of_ours} AND jsonPayload.event=\"character_broken\""
      label_extractors = { character = "EXTRACT(jsonPayload.character)" }
    }
  }

  alert_strategy {
    auto_close = "3600s"

    notification_rate_limit {
      period = "3600s"
    }
  }

  documentation {
    content   = local.runbook["A character does not work"]
    mime_type = "text/markdown"
  }

  depends_on = [time_sleep.apis]
}
