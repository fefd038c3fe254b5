locals {
  percentiles = { p50 = "REDUCE_PERCENTILE_50", p95 = "REDUCE_PERCENTILE_95", p99 = "REDUCE_PERCENTILE_99" }
  run         = "resource.type = \"cloud_run_revision\" AND resource.labels.service_name = monitoring.regex.full_match(\"${var.name}-.*\")"

  # What the dashboard shows, in reading order. A chart has lines; a line is a filter, how each
  # time series is aligned, how they are put together, by what they are told apart, and its name.
  charts = [
    {
      title = "Conversions per minute"
      unit  = "1/min"
      lines = [
        for name in ["uploads", "done", "failed"] :
        { filter = local.metric[name], align = "ALIGN_DELTA", reduce = "REDUCE_SUM", by = [], legend = name }
      ]
    },
    {
      title = "Wait after the upload"
      unit  = "ms"
      lines = [
        for name, reducer in local.percentiles :
        { filter = local.metric.wait, align = "ALIGN_DELTA", reduce = reducer, by = [], legend = name }
      ]
    },
    {
      title = "Stages of a conversion (p95)"
      unit  = "ms"
      lines = [
        for stage in local.stages :
        { filter = local.metric["stage_${stage}"], align = "ALIGN_DELTA", reduce = "REDUCE_PERCENTILE_95", by = [], legend = stage }
      ]
    },
    {
      title = "Cold starts, takeovers, overload"
      unit  = "1/min"
      lines = concat(
        [
          for name in ["cold_starts", "takeovers", "overloaded", "retried", "results_unsigned", "marks_left_out"] :
          { filter = local.metric[name], align = "ALIGN_DELTA", reduce = "REDUCE_SUM", by = [], legend = name }
        ],
        [{ filter = "${local.metric.started} AND metric.labels.cold = \"true\"", align = "ALIGN_DELTA", reduce = "REDUCE_SUM", by = [], legend = "cold conversions" }],
      )
    },
    {
      title = "Live: done, refused, left to the upload"
      unit  = "1/min"
      lines = [
        for name in ["live_done", "live_refused", "live_retried"] :
        { filter = local.metric[name], align = "ALIGN_DELTA", reduce = "REDUCE_SUM", by = [], legend = name }
      ]
    },
    {
      title = "Time to readiness"
      unit  = "ms"
      lines = [
        for name, reducer in local.percentiles :
        { filter = local.metric.ready, align = "ALIGN_DELTA", reduce = reducer, by = [], legend = name }
      ]
    },
    {
      title = "Errors by code"
      unit  = "1/min"
      lines = [{ filter = local.metric.failed, align = "ALIGN_DELTA", reduce = "REDUCE_SUM", by = ["metric.label.code"], legend = "$${metric.labels.code}" }]
    },
    {
      title = "Dead letters"
      unit  = "1"
      lines = [
        { filter = local.metric.dead_letters, align = "ALIGN_DELTA", reduce = "REDUCE_SUM", by = ["metric.label.subscription"], legend = "given up, from $${metric.labels.subscription}" },
        { filter = local.metric.delayed, align = "ALIGN_DELTA", reduce = "REDUCE_SUM", by = [], legend = "put back for lack of room" },
      ]
    },
    {
      title = "Sweeps, and voices they put back or ended"
      unit  = "1/min"
      lines = [
        for name in ["swept", "put_back", "expired", "not_swept"] :
        { filter = local.metric[name], align = "ALIGN_DELTA", reduce = "REDUCE_SUM", by = [], legend = name }
      ]
    },
    {
      title = "Oldest message waiting"
      unit  = "s"
      lines = [{ filter = "resource.type = \"pubsub_subscription\" AND metric.type = \"pubsub.googleapis.com/subscription/oldest_unacked_message_age\" AND resource.labels.subscription_id = monitoring.regex.full_match(\"${var.name}-(conversions|uploads)\")", align = "ALIGN_MAX", reduce = "REDUCE_MAX", by = ["resource.label.subscription_id"], legend = "$${resource.labels.subscription_id}" }]
    },
    {
      title = "Instances"
      unit  = "1"
      lines = [{ filter = "${local.run} AND metric.type = \"run.googleapis.com/container/instance_count\"", align = "ALIGN_MAX", reduce = "REDUCE_SUM", by = ["resource.label.service_name", "metric.label.state"], legend = "$${resource.labels.service_name} $${metric.labels.state}" }]
    },
    {
      title = "Cost: billed instance seconds per minute"
      unit  = "s/min"
      lines = [{ filter = "${local.run} AND metric.type = \"run.googleapis.com/container/billable_instance_time\"", align = "ALIGN_DELTA", reduce = "REDUCE_SUM", by = ["resource.label.service_name"], legend = "$${resource.labels.service_name}" }]
    },
    {
      title = "Cost: Firestore operations per minute"
      unit  = "1/min"
      lines = [
        for name in ["read", "write", "delete"] :
        { filter = "resource.type = \"firestore_instance\" AND metric.type = \"firestore.googleapis.com/document/${name}_count\"", align = "ALIGN_DELTA", reduce = "REDUCE_SUM", by = [], legend = name }
      ]
    },
    {
      title = "Cost: bytes in the buckets"
      unit  = "By"
      lines = [{ filter = "resource.type = \"gcs_bucket\" AND metric.type = \"storage.googleapis.com/storage/v2/total_bytes\" AND resource.labels.bucket_name = monitoring.regex.full_match(\"${var.project_id}-${var.name}-.*\")", align = "ALIGN_MEAN", reduce = "REDUCE_SUM", by = ["resource.label.bucket_name"], legend = "$${resource.labels.bucket_name}" }]
    },
  ]
}

# Cloud Monitoring omits fields that are zero or empty. If the module set them, every plan would show a
# difference.
locals {
  tile_places = [
    for index in range(length(local.charts)) : {
      for name, place in { xPos = 6 * (index % 2), yPos = 4 * floor(index / 2) } : name => place if place != 0
    }
  ]
}

resource "google_monitoring_dashboard" "this" {
  project = var.project_id

  dashboard_json = jsonencode({
    displayName = var.name
    mosaicLayout = {
      columns = 12
      tiles = [
        for index, chart in local.charts : merge(local.tile_places[index], {
          height = 4
          width  = 6
          widget = {
            title = chart.title
            xyChart = {
              dataSets = [
                for line in chart.lines : {
                  legendTemplate = line.legend
                  plotType       = "LINE"
                  timeSeriesQuery = {
                    timeSeriesFilter = {
                      filter = line.filter
                      aggregation = merge(
                        { alignmentPeriod = "60s", crossSeriesReducer = line.reduce, perSeriesAligner = line.align },
                        length(line.by) == 0 ? {} : { groupByFields = line.by },
                      )
                    }
                    unitOverride = chart.unit
                  }
                }
              ]
              yAxis = { label = chart.unit, scale = "LINEAR" }
            }
          }
        })
      ]
    }
  })

  depends_on = [time_sleep.metrics]
}
