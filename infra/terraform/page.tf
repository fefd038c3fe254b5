# The page in a bucket behind the api's load balancer, so that both have the same origin. Only with
# var.domain.page_folder.
locals {
  page = var.domain.page_folder == null ? 0 : 1

  # The module writes config.json itself: when the page is built, the API key may not exist yet.
  page_files = var.domain.page_folder == null ? toset([]) : setsubtract(fileset(var.domain.page_folder, "**"), ["config.json"])

  # The names of the files in assets/ contain a hash of the content, so they can be cached for ever.
  page_content_types = {
    css         = "text/css; charset=utf-8"
    html        = "text/html; charset=utf-8"
    ico         = "image/vnd.microsoft.icon"
    js          = "text/javascript; charset=utf-8"
    json        = "application/json"
    png         = "image/png"
    svg         = "image/svg+xml"
    woff2       = "font/woff2"
    webmanifest = "application/manifest+json"
  }
  cached_for_ever = "public, max-age=31536000, immutable"
  asked_each_time = "no-cache"

  page_configuration = jsonencode({
    api      = local.api_url
    appCheck = var.app_check == null ? null : { appId = var.app_check.app_id, siteKey = var.app_check.site_key }
    firebase = merge(var.app_check == null ? {} : { appId = var.app_check.app_id }, {
      # Public by design: every visitor's browser gets it.
      apiKey     = nonsensitive(google_apikeys_key.page.key_string)
      databaseId = var.storage.database_id
      projectId  = var.project_id
    })
    firestoreEmulator = null
    # The page's policy allows this socket, and the page offers what only live can do.
    live          = local.live_url
    operator      = var.operator == null ? null : { name = var.operator.name, contact = var.operator.contact, privacy = var.operator.privacy }
    ownCharacters = local.has_own
    signIn        = var.firebase_authentication
  })
}

resource "google_storage_bucket" "page" {
  # checkov:skip=CKV_GCP_62:the load balancer writes the access log
  # checkov:skip=CKV_GCP_78:the build can produce every file again
  # checkov:skip=CKV_GCP_114:it contains only the public page
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
    for_each = var.storage.kms_key == null ? [] : [var.storage.kms_key]
    content {
      default_kms_key_name = encryption.value
    }
  }

  depends_on = [time_sleep.apis, time_sleep.key_users]
}

# Everybody may read the files, nobody may list them.
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
  source        = "${var.domain.page_folder}/${each.value}"
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
  # These cannot be set in the page itself.
  custom_response_headers = [
    "Content-Security-Policy: frame-ancestors 'none'",
    "Strict-Transport-Security: max-age=31536000",
    "X-Content-Type-Options: nosniff",
  ]
  enable_cdn = true

  cdn_policy {
    cache_mode = "USE_ORIGIN_HEADERS"
  }

  # As for the backend of live.
  lifecycle {
    create_before_destroy = true
  }

  depends_on = [time_sleep.apis]
}

# Some browsers try http first when a visitor types the domain.
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
