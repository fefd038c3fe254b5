# A budget only sends mails. max_instances of the services is what limits the cost.
resource "google_billing_budget" "this" {
  count = var.monitoring.monthly_budget == null ? 0 : 1

  billing_account = data.google_project.this.billing_account
  display_name    = "${var.name} in ${var.project_id}"

  amount {
    specified_amount {
      units = tostring(var.monitoring.monthly_budget)
    }
  }

  budget_filter {
    calendar_period = "MONTH"
    projects        = ["projects/${data.google_project.this.number}"]
  }

  dynamic "threshold_rules" {
    for_each = [
      { basis = "CURRENT_SPEND", share = 0.5 },
      { basis = "CURRENT_SPEND", share = 0.9 },
      { basis = "CURRENT_SPEND", share = 1 },
      { basis = "FORECASTED_SPEND", share = 1 },
    ]
    content {
      spend_basis       = threshold_rules.value.basis
      threshold_percent = threshold_rules.value.share
    }
  }

  # The billing account's administrators get the mails in any case. A budget accepts five channels.
  dynamic "all_updates_rule" {
    for_each = length(var.monitoring.emails) == 0 ? [] : [1]
    content {
      monitoring_notification_channels = slice(local.email_channels, 0, min(5, length(local.email_channels)))
    }
  }

  lifecycle {
    precondition {
      condition     = try(length(data.google_project.this.billing_account) > 0, false)
      error_message = "monitoring.monthly_budget needs the project's billing account, and Terraform cannot see it. Enable the API that says it (gcloud services enable cloudbilling.googleapis.com --project=${var.project_id}), and link an account if there is none (gcloud billing projects link); or leave monitoring.monthly_budget out."
    }
  }

  depends_on = [time_sleep.apis]
}
