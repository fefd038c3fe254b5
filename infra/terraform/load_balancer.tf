# A domain of one's own and a limit per visitor, in front of the api. Off without domain.name, and only with
# its network endpoint groups where another load balancer serves the domain.
locals {
  domain        = var.domain.name == null ? 0 : 1
  load_balancer = var.domain.external_load_balancer ? 0 : local.domain
  cloud_armor   = var.domain.cloud_armor ? local.load_balancer : 0
  domains       = concat(var.domain.name[*], sort(var.domain.additional))
  certificates  = { for domain in(var.domain.external_load_balancer ? [] : local.domains) : domain => "${local.names.api}-${substr(sha256(domain), 0, 8)}" }
  api_paths     = ["/api/*", "/docs", "/docs/*", "/healthz", "/openapi.json"]
}

resource "google_compute_global_address" "api" {
  count = local.load_balancer

  name    = local.names.api
  project = var.project_id

  depends_on = [time_sleep.apis]
}

resource "google_compute_region_network_endpoint_group" "api" {
  count = local.domain

  name                  = local.names.api
  project               = var.project_id
  region                = var.region
  network_endpoint_type = "SERVERLESS"

  cloud_run {
    service = google_cloudfunctions2_function.this["api"].name
  }
}

resource "google_compute_security_policy" "api" {
  # checkov:skip=CKV_GCP_73:the services are Python, there is no Log4j to protect
  count = local.cloud_armor

  name        = local.names.api
  project     = var.project_id
  description = "At most ${var.api.rate_limit_per_minute} requests a minute from one address"

  rule {
    action      = "throttle"
    description = "Limit per address"
    priority    = 1000

    match {
      versioned_expr = "SRC_IPS_V1"
      config {
        src_ip_ranges = ["*"]
      }
    }

    rate_limit_options {
      conform_action = "allow"
      enforce_on_key = "IP"
      exceed_action  = "deny(429)"

      rate_limit_threshold {
        count        = var.api.rate_limit_per_minute
        interval_sec = 60
      }
    }
  }

  rule {
    action      = "allow"
    description = "Default"
    priority    = 2147483647

    match {
      versioned_expr = "SRC_IPS_V1"
      config {
        src_ip_ranges = ["*"]
      }
    }
  }

  # Google refuses to delete what a backend still uses: it goes after the backends' change.
  lifecycle {
    create_before_destroy = true
  }

  depends_on = [time_sleep.apis]
}

resource "google_compute_backend_service" "api" {
  count = local.load_balancer

  name                  = local.names.api
  project               = var.project_id
  load_balancing_scheme = "EXTERNAL_MANAGED"
  security_policy       = one(google_compute_security_policy.api[*].id)

  backend {
    group = google_compute_region_network_endpoint_group.api[0].id
  }

  log_config {
    enable      = true
    sample_rate = 0.1
  }
}

resource "google_compute_url_map" "api" {
  count = local.load_balancer

  name            = local.names.api
  project         = var.project_id
  default_service = var.domain.page_folder == null ? google_compute_backend_service.api[0].id : google_compute_backend_bucket.page[0].id

  # The page gets every path except those of the api; a test compares these with the api's routes.
  dynamic "host_rule" {
    for_each = var.domain.page_folder == null && !local.has_live ? [] : [local.domains]
    content {
      hosts        = host_rule.value
      path_matcher = "paths"
    }
  }

  dynamic "path_matcher" {
    for_each = var.domain.page_folder == null && !local.has_live ? [] : ["paths"]
    content {
      name            = path_matcher.value
      default_service = var.domain.page_folder == null ? google_compute_backend_service.api[0].id : google_compute_backend_bucket.page[0].id

      path_rule {
        paths   = local.api_paths
        service = google_compute_backend_service.api[0].id
      }

      dynamic "path_rule" {
        for_each = google_compute_backend_service.live
        content {
          paths   = concat([local.live_path], local.has_compat ? concat(local.voicevox_paths, local.compat_paths) : [])
          service = path_rule.value.id
        }
      }
    }
  }
}

# One certificate for each domain, so that another domain leaves the others alone. Google issues it as soon
# as the domain has the record of output dns_records, before its address leads here.
resource "google_certificate_manager_dns_authorization" "domain" {
  for_each = local.certificates

  name    = each.value
  project = var.project_id
  domain  = each.key
  labels  = var.labels

  depends_on = [time_sleep.apis]
}

resource "google_certificate_manager_certificate" "domain" {
  for_each = local.certificates

  name    = each.value
  project = var.project_id
  labels  = var.labels

  managed {
    dns_authorizations = [google_certificate_manager_dns_authorization.domain[each.key].id]
    domains            = [each.key]
  }
}

resource "google_certificate_manager_certificate_map" "api" {
  count = local.load_balancer

  name    = local.names.api
  project = var.project_id
  labels  = var.labels

  depends_on = [time_sleep.apis]
}

resource "google_certificate_manager_certificate_map_entry" "domain" {
  for_each = local.certificates

  name         = each.value
  project      = var.project_id
  certificates = [google_certificate_manager_certificate.domain[each.key].id]
  hostname     = each.key
  labels       = var.labels
  map          = google_certificate_manager_certificate_map.api[0].name
}

resource "google_compute_ssl_policy" "api" {
  count = local.load_balancer

  name            = local.names.api
  project         = var.project_id
  min_tls_version = "TLS_1_2"
  profile         = "MODERN"

  depends_on = [time_sleep.apis]
}

resource "google_compute_target_https_proxy" "api" {
  count = local.load_balancer

  name            = local.names.api
  project         = var.project_id
  certificate_map = "//certificatemanager.googleapis.com/${google_certificate_manager_certificate_map.api[0].id}"
  ssl_policy      = google_compute_ssl_policy.api[0].id
  url_map         = google_compute_url_map.api[0].id
}

resource "google_compute_global_forwarding_rule" "api" {
  count = local.load_balancer

  name                  = local.names.api
  project               = var.project_id
  ip_address            = google_compute_global_address.api[0].id
  load_balancing_scheme = "EXTERNAL_MANAGED"
  port_range            = "443"
  target                = google_compute_target_https_proxy.api[0].id
}
