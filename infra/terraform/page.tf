# The page behind the load balancer, so that page and api have one origin. Off without page.
locals {
  page = var.page == null ? 0 : 1

  # config.json is the module's own: the build cannot know the key of an api that is not there yet.
  page_files = var.page == null ? toset([]) : setsubtract(fileset(var.page.folder, "**"), ["config.json"])

  # Vite names what lies in assets/ by its content.
  page_content_types = {
    css   = "text/css; charset=utf-8"
    html  = "text/html; charset=utf-8"
    ico   = "image/vnd.microsoft.icon"
    js    = "text/javascript; charset=utf-8"
    json  = "application/json"
    png   = "image/png"
    svg   = "image/svg+xml"
    woff2 = "font/woff2"
  }
  cached_for_ever = "public, max-age=31536000, immutable"
  asked_each_time = "no-cache"

  # For the page's policy an empty appCheck would be one, so that it is left out where there is none.
  page_configuration = jsonencode(merge(var.app_check == null ? {} : { appCheck = { appId = var.app_check.app_id, siteKey = var.app_check.site_key } }, {
    api = local.api_url
    firebase = {
      # Public by design: every visitor's browser gets it.
      apiKey    = nonsensitive(google_apikeys_key.page.key_string)
      projectId = var.project_id
    }
    firestoreEmulator = null
  }))
}

resource "google_storage_bucket" "page" {
  # checkov:skip=CKV_GCP_62:the load balancer has the log
  # checkov:skip=CKV_GCP_78:the build makes every file again
  # checkov:skip=CKV_GCP_114:it holds the public page and nothing else
  count = local.page

  name                        = "${var.project_id}-${var.name}-page"
  project                     = var.project_id
  location                    = var.region
  force_destroy               = true
  labels                      = var.labels
  public_access_prevention    = "inherited"
  uniform_bucket_level_access = true

  website {
    main_page_suffix = "index.html"
  }

  dynamic "encryption" {
    for_each = var.kms_key == null ? [] : [var.kms_key]
    content {
      default_kms_key_name = encryption.value
    }
  }

  depends_on = [time_sleep.apis, time_sleep.key_users]
}

# Whoever knows a file's name may get it; nobody may list.
resource "google_storage_bucket_iam_member" "page_readers" {
  # checkov:skip=CKV_GCP_28:it is the public page
  count = local.page

  bucket = google_storage_bucket.page[0].name
  role   = "roles/storage.legacyObjectReader"
  member = "allUsers"
}

resource "google_storage_bucket_object" "page" {
  for_each = local.page_files

  name          = each.value
  bucket        = google_storage_bucket.page[0].name
  source        = "${var.page.folder}/${each.value}"
  cache_control = startswith(each.value, "assets/") ? local.cached_for_ever : local.asked_each_time
  content_type  = lookup(local.page_content_types, element(split(".", each.value), -1), "application/octet-stream")
}

resource "google_storage_bucket_object" "page_configuration" {
  count = local.page

  name          = "config.json"
  bucket        = google_storage_bucket.page[0].name
  content       = local.page_configuration
  cache_control = local.asked_each_time
  content_type  = local.page_content_types.json
}

resource "google_compute_backend_bucket" "page" {
  count = local.page

  name             = "${var.name}-page"
  project          = var.project_id
  bucket_name      = google_storage_bucket.page[0].name
  compression_mode = "AUTOMATIC"
  # What a page cannot say of itself in its own policy.
  custom_response_headers = [
    "Content-Security-Policy: frame-ancestors 'none'",
    "Strict-Transport-Security: max-age=31536000",
    "X-Content-Type-Options: nosniff",
  ]
  enable_cdn = true

  cdn_policy {
    cache_mode = "USE_ORIGIN_HEADERS"
  }

  depends_on = [time_sleep.apis]
}

# A visitor who types the domain comes by http first.
resource "google_compute_url_map" "to_https" {
  count = local.page

  name    = "${var.name}-to-https"
  project = var.project_id

  default_url_redirect {
    https_redirect = true
    strip_query    = false
  }

  depends_on = [time_sleep.apis]
}

resource "google_compute_target_http_proxy" "to_https" {
  count = local.page

  name    = "${var.name}-to-https"
  project = var.project_id
  url_map = google_compute_url_map.to_https[0].id
}

resource "google_compute_global_forwarding_rule" "to_https" {
  count = local.page

  name                  = "${var.name}-to-https"
  project               = var.project_id
  ip_address            = google_compute_global_address.api[0].id
  load_balancing_scheme = "EXTERNAL_MANAGED"
  port_range            = "80"
  target                = google_compute_target_http_proxy.to_https[0].id
}
