# What visitors are promised, and how fast the share of those who wait longer is used up. The alert on the
# 95th percentile says that it is slow now; this one says that the month's promise will be broken.
resource "google_monitoring_custom_service" "this" {
  service_id   = var.name
  project      = var.project_id
  display_name = var.name
  user_labels  = var.labels

  depends_on = [time_sleep.apis]
}

resource "google_monitoring_slo" "wait" {
  service             = google_monitoring_custom_service.this.service_id
  slo_id              = "wait"
  project             = var.project_id
  display_name        = "${var.monitoring.wait_objective_share * 100} % of the results within ${var.monitoring.wait_objective_seconds} s of the upload"
  goal                = var.monitoring.wait_objective_share
  rolling_period_days = 28
  user_labels         = var.labels

  request_based_sli {
    distribution_cut {
      distribution_filter = local.metric.wait

      range {
        min = 0
        max = var.monitoring.wait_objective_seconds * 1000
      }
    }
  }

  depends_on = [time_sleep.metrics]
}

locals {
  # Google's workbook for reliability alerts when an hour used 2 % of a month's budget, or six hours 5 %.
  # A factor is a share of the budget, per share of the period of 28 days.
  burn_rates = {
    "An hour used 2 % of the objective's budget"   = { lookback = 3600, factor = 0.02 * 28 * 24 }
    "Six hours used 5 % of the objective's budget" = { lookback = 21600, factor = 0.05 * 28 * 24 / 6 }
  }
}
