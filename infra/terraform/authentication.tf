# The page's key to Firestore and, where owners sign in, to Firebase Authentication. It names the
# project and grants nothing: the rules decide. So it may be public, and is kept to the sites.
resource "google_apikeys_key" "page" {
  # Google keeps the id of a deleted key reserved for 30 days.
  name         = "${var.name}-page-${random_id.suffix.hex}"
  display_name = "${var.name} page"
  project      = var.project_id

  restrictions {
    browser_key_restrictions {
      allowed_referrers = [for origin in local.origins : "${origin}/*"]
    }

    api_targets {
      service = "firestore.googleapis.com"
    }

    dynamic "api_targets" {
      for_each = concat(
        var.app_check == null ? [] : ["firebaseappcheck.googleapis.com"],
        var.firebase_authentication == null ? [] : ["identitytoolkit.googleapis.com", "securetoken.googleapis.com"],
      )
      content {
        service = api_targets.value
      }
    }
  }

  depends_on = [time_sleep.apis]
}

# Each token is an assessment of reCAPTCHA, which costs: a page keeps its token for a day.
resource "google_firebase_app_check_recaptcha_enterprise_config" "page" {
  count = var.app_check == null ? 0 : 1

  project   = var.project_id
  app_id    = var.app_check.app_id
  site_key  = var.app_check.site_key
  token_ttl = "86400s"

  depends_on = [time_sleep.apis]
}

# Firestore refuses pages without a token, in all databases of the project; the services are not pages.
resource "google_firebase_app_check_service_config" "firestore" {
  count = try(var.app_check.firestore, false) ? 1 : 0

  project          = var.project_id
  service_id       = "firestore.googleapis.com"
  enforcement_mode = "ENFORCED"

  depends_on = [google_firebase_app_check_recaptcha_enterprise_config.page]
}

# A project has at most one, and it cannot be deleted: a destroy only removes it from the state. If the
# project already has one, it must be imported.
resource "google_identity_platform_config" "this" {
  count = var.firebase_authentication == null ? 0 : 1

  project                    = var.project_id
  authorized_domains         = [for origin in local.origins : regex("^https?://([^/:]+)", origin)[0]]
  autodelete_anonymous_users = true

  sign_in {
    allow_duplicate_emails = false

    anonymous {
      enabled = var.firebase_authentication.anonymous
    }

    email {
      enabled           = var.firebase_authentication.email
      password_required = true
    }

    # Google answers with this block in any case: without it here, every plan would show a difference.
    phone_number {
      enabled = false
    }
  }

  depends_on = [time_sleep.apis]
}
