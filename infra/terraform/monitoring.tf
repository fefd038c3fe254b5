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
  channels       = concat(local.email_channels, tolist(var.monitoring.channels))
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
  for_each = var.monitoring.emails

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

# The alerts on metrics, each named by its chapter of the runbook. A condition is a filter (as a share of
# `denominator`, where there is one) whose sum over `period` seconds was above `threshold` for `duration`.
locals {
  api_requests  = "resource.type = \"cloud_run_revision\" AND resource.labels.service_name = \"${local.names.api}\" AND metric.type = \"run.googleapis.com/request_count\""
  subscriptions = concat(values(google_pubsub_subscription.work), values(google_pubsub_subscription.dead_push))[*].name

  pushed = "resource.type = \"pubsub_subscription\" AND resource.labels.subscription_id = one_of(${join(", ", [for name in local.subscriptions : "\"${name}\""])})"
  pushes = "${local.pushed} AND metric.type = \"pubsub.googleapis.com/subscription/push_request_count\""

  alerts_on_metrics = {
    # Not the number of messages that are retained: a voice for which there was no room for long is put
    # back, but its message is retained, too.
    "Dead letters" = {
      severity = "ERROR"
      conditions = {
        "A dead letter ended its voice, or named none" = { filter = local.metric.dead_letters }
        "All attempts at a voice failed"               = { filter = "${local.metric.failed} AND metric.labels.code = \"attempts_exhausted\"" }
      }
    }
    "Visitors wait too long" = {
      severity = "WARNING"
      conditions = {
        "95th percentile of the wait above ${var.monitoring.wait_objective_seconds} s" = {
          duration  = 300
          filter    = local.metric.wait
          reducer   = "REDUCE_PERCENTILE_95"
          threshold = var.monitoring.wait_objective_seconds * 1000
        }
      }
    }
    # Google's workbook for reliability alerts when an hour used 2 % of a month's budget, or six hours 5 %.
    # The threshold is a share of the budget, per share of the period of 28 days.
    "The objective is at risk" = {
      severity = "ERROR"
      conditions = {
        "An hour used 2 % of the objective's budget" = {
          filter    = "select_slo_burn_rate(\"${google_monitoring_slo.wait.name}\", \"3600s\")"
          period    = null
          threshold = 0.02 * 28 * 24
        }
        "Six hours used 5 % of the objective's budget" = {
          filter    = "select_slo_burn_rate(\"${google_monitoring_slo.wait.name}\", \"21600s\")"
          period    = null
          threshold = 0.05 * 28 * 24 / 6
        }
      }
    }
    "Conversions fail" = {
      severity = "ERROR"
      conditions = {
        for what, filter in {
          "fail for good" = "${local.metric.failed} AND metric.labels.code = one_of(${join(", ", [for code in local.own_errors : "\"${code}\""])})"
          "are put off"   = local.metric.retried
        } :
        "More than ${var.monitoring.error_rate_objective * 100} % of the conversions ${what} by our fault" => {
          denominator = local.metric.started
          duration    = 300
          filter      = filter
          threshold   = var.monitoring.error_rate_objective
        }
      }
    }
    "Live conversions are put off" = {
      on       = local.has_live
      severity = "WARNING"
      conditions = {
        "More than ${var.monitoring.error_rate_objective * 100} % of the recordings that came to live went the way of an upload" = {
          denominator = local.metric.live_done
          duration    = 300
          filter      = local.metric.live_retried
          threshold   = var.monitoring.error_rate_objective
        }
      }
    }
    "Voices are stuck" = {
      severity = "ERROR"
      conditions = {
        "A message has waited longer than its acknowledgement deadline" = {
          aligner   = "ALIGN_MAX"
          duration  = 60
          filter    = "${local.pushed} AND metric.type = \"pubsub.googleapis.com/subscription/oldest_unacked_message_age\""
          period    = 60
          reducer   = null
          threshold = local.timeouts.acknowledgement
        }
      }
    }
    "Pushes are refused" = {
      # Both at once, of one subscription: with little traffic a single refusal is a large share.
      combiner = "AND_WITH_MATCHING_RESOURCE"
      severity = "WARNING"
      conditions = {
        "More than 1 % of the pushes of a subscription were refused in a quarter of an hour" = {
          by          = ["resource.label.subscription_id"]
          denominator = local.pushes
          filter      = "${local.pushes} AND metric.labels.response_class != \"ack\""
          period      = 900
          threshold   = 0.01
        }
        "More than ten pushes of a subscription were refused in a quarter of an hour" = {
          by        = ["resource.label.subscription_id"]
          filter    = "${local.pushes} AND metric.labels.response_class != \"ack\""
          period    = 900
          threshold = 10
        }
      }
    }
    "Voices were lost" = {
      severity = "WARNING"
      conditions = {
        # A few can be crashes at the worst moment, which is what the sweep is there for.
        "More than three voices were put back in a quarter of an hour" = {
          filter    = local.metric.put_back
          period    = 900
          threshold = 3
        }
        # A counter without entries has no data: that is what must alarm here.
        "No sweep went to its end for half an hour" = {
          comparison = "COMPARISON_LT"
          duration   = 60
          filter     = local.metric.swept
          missing    = "EVALUATION_MISSING_DATA_ACTIVE"
          period     = 1800
          threshold  = 1
        }
      }
    }
    "The api is down" = {
      on       = var.api.public
      severity = "CRITICAL"
      conditions = {
        "The api did not answer from at least two places" = {
          aligner   = "ALIGN_NEXT_OLDER"
          by        = ["resource.label.project_id", "resource.label.host"]
          duration  = 60
          filter    = "resource.type = \"uptime_url\" AND metric.type = \"monitoring.googleapis.com/uptime_check/check_passed\" AND metric.labels.check_id = \"${try(google_monitoring_uptime_check_config.api[0].uptime_check_id, "")}\""
          period    = 1200
          reducer   = "REDUCE_COUNT_FALSE"
          threshold = 1
        }
      }
    }
    # 504 does not count: it is the regular answer to a client that has waited for wait_seconds.
    "The api fails" = {
      severity = "ERROR"
      conditions = {
        "More than 5 % of the api's answers are 5xx" = {
          denominator = local.api_requests
          duration    = 300
          filter      = "${local.api_requests} AND metric.labels.response_code_class = \"5xx\" AND metric.labels.response_code != \"504\""
          threshold   = 0.05
        }
      }
    }
  }
}

resource "google_monitoring_alert_policy" "metric" {
  for_each = { for title, alert in local.alerts_on_metrics : title => alert if try(alert.on, true) }

  project               = var.project_id
  display_name          = "${var.name}: ${each.key}"
  combiner              = try(each.value.combiner, "OR")
  notification_channels = local.channels
  severity              = each.value.severity
  user_labels           = var.labels

  dynamic "conditions" {
    for_each = each.value.conditions
    content {
      display_name = conditions.key

      condition_threshold {
        filter                  = conditions.value.filter
        denominator_filter      = try(conditions.value.denominator, null)
        comparison              = try(conditions.value.comparison, "COMPARISON_GT")
        duration                = "${try(conditions.value.duration, 0)}s"
        evaluation_missing_data = try(conditions.value.missing, null)
        threshold_value         = try(conditions.value.threshold, 0)

        dynamic "aggregations" {
          for_each = try(conditions.value.period, 300)[*]
          content {
            alignment_period     = "${aggregations.value}s"
            cross_series_reducer = try(conditions.value.reducer, "REDUCE_SUM")
            group_by_fields      = try(conditions.value.by, null)
            per_series_aligner   = try(conditions.value.aligner, "ALIGN_DELTA")
          }
        }

        dynamic "denominator_aggregations" {
          for_each = can(conditions.value.denominator) ? [try(conditions.value.period, 300)] : []
          content {
            alignment_period     = "${denominator_aggregations.value}s"
            cross_series_reducer = "REDUCE_SUM"
            group_by_fields      = try(conditions.value.by, null)
            per_series_aligner   = "ALIGN_DELTA"
          }
        }
      }
    }
  }

  documentation {
    content   = local.runbook[each.key]
    mime_type = "text/markdown"
  }

  depends_on = [time_sleep.metrics]
}

# The alerts on single log entries, likewise. They use no log-based metric, so they need no wait.
locals {
  log_of_ours = "resource.type=\"cloud_run_revision\" AND resource.labels.service_name=(${join(" OR ", [for name in values(local.names) : "\"${name}\""])}) AND severity=ERROR"

  alerts_on_logs = {
    "Instances run out of memory" = {
      condition = "Cloud Run ended an instance that used more memory than it has"
      filter    = "${local.log_of_ours} AND logName=\"projects/${var.project_id}/logs/run.googleapis.com%2Fvarlog%2Fsystem\" AND textPayload:\"Memory limit of\""
      label     = { service = "EXTRACT(resource.labels.service_name)" }
    }
    "A revision does not start" = {
      condition = "A revision did not become ready"
      filter    = "${local.log_of_ours} AND protoPayload.response.kind=\"Revision\" AND protoPayload.status.message:\"Ready condition status changed to False\""
      label     = { service = "EXTRACT(resource.labels.service_name)" }
    }
    "The program has an error" = {
      condition = "A service logged an exception that it does not expect"
      filter    = "${local.log_of_ours} AND jsonPayload.event=\"unexpected_error\""
      label     = { service = "EXTRACT(resource.labels.service_name)" }
    }
    "A character does not work" = {
      on        = var.characters.bucket != null
      condition = "A character of the bucket could not be loaded"
      filter    = "${local.log_of_ours} AND jsonPayload.event=\"character_broken\""
      label     = { character = "EXTRACT(jsonPayload.character)" }
    }
    "Trainings fail" = {
      on        = local.has_own
      condition = "A training failed, and not for its recordings"
      filter    = "resource.type=\"cloud_run_job\" AND resource.labels.job_name=\"${local.names.train}\" AND (jsonPayload.event=\"trainer_crashed\" OR jsonPayload.event=\"bundle_refused\" OR jsonPayload.event=\"own_character_given_up\")"
    }
    "Trainings wait" = {
      on        = local.has_own
      condition = "A character has waited for its training for more than an hour"
      filter    = "resource.type=\"cloud_run_revision\" AND resource.labels.service_name=\"${local.names.sweep}\" AND jsonPayload.event=\"trainings_wait\""
      severity  = "WARNING"
    }
  }
}

resource "google_monitoring_alert_policy" "log" {
  for_each = { for title, alert in local.alerts_on_logs : title => alert if try(alert.on, true) }

  project               = var.project_id
  display_name          = "${var.name}: ${each.key}"
  combiner              = "OR"
  notification_channels = local.channels
  severity              = try(each.value.severity, "ERROR")
  user_labels           = var.labels

  conditions {
    display_name = each.value.condition

    condition_matched_log {
      filter           = each.value.filter
      label_extractors = try(each.value.label, null)
    }
  }

  alert_strategy {
    auto_close = "3600s"

    notification_rate_limit {
      period = "3600s"
    }
  }

  documentation {
    content   = local.runbook[each.key]
    mime_type = "text/markdown"
  }

  depends_on = [time_sleep.apis]
}

# It does not ask /healthz, because Cloud Run reserves paths that end in z.
resource "google_monitoring_uptime_check_config" "api" {
  count = var.api.public ? 1 : 0

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
