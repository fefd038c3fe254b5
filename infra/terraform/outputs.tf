output "api_url" {
  description = "Where the api answers."
  value       = local.api_url
}

output "buckets" {
  description = "Names of the buckets for recordings, results and, if there are any, characters and the recordings of own ones."
  value = {
    characters     = one(google_storage_bucket.characters[*].name)
    own_recordings = one(google_storage_bucket.own_recordings[*].name)
    results        = google_storage_bucket.results.name
    uploads        = google_storage_bucket.uploads.name
  }
}

output "compat_url" {
  description = "The address of the APIs that other clients speak, with /v1 behind it for OpenAI's; null without compat."
  value       = local.compat_url
}

locals {
  api_url = var.domain.name == null ? google_cloudfunctions2_function.this["api"].service_config[0].uri : "https://${var.domain.name}"
}

output "convert_image" {
  description = "The conversion container's image, with its digest."
  value       = local.image
}

output "convert_revision" {
  description = "The converter's newest revision that is ready: the stable one while you try the next (canary)."
  value       = google_cloud_run_v2_service.convert.latest_ready_revision
}

output "dashboard" {
  description = "Where the dashboard is."
  value       = "https://console.cloud.google.com/monitoring/dashboards/builder/${basename(google_monitoring_dashboard.this.id)}?project=${var.project_id}"
}

output "dns_records" {
  description = "The CNAME record that each domain needs before Google issues its certificate; null without a domain."
  value = var.domain.name == null ? null : {
    for domain, authorization in google_certificate_manager_dns_authorization.domain :
    domain => try("${authorization.dns_resource_record[0].name} CNAME ${authorization.dns_resource_record[0].data}", null)
  }
}

output "load_balancer_address" {
  description = "What the A record of each domain must point to; null without one."
  value       = one(google_compute_global_address.api[*].address)
}

output "network_endpoint_groups" {
  description = "What another load balancer sends the domain's requests to (domain.external_load_balancer): the api, and where there is one, live with its paths."
  value = {
    api        = one(google_compute_region_network_endpoint_group.api[*].id)
    live       = one(google_compute_region_network_endpoint_group.live[*].id)
    live_paths = local.has_live ? concat([local.live_path], local.has_compat ? concat(local.voicevox_paths, local.compat_paths) : []) : []
  }
}

output "page_configuration" {
  description = "Content of the page's config.json."
  value       = local.page_configuration
}

output "page_url" {
  description = "URL of the page; null if the module does not host it."
  value       = var.domain.page_folder == null ? null : "https://${var.domain.name}/"
}

output "service_accounts" {
  description = "The addresses of the service accounts, by what runs as them."
  value       = { for name, account in google_service_account.this : name => account.email }
}

output "services" {
  description = "Names of the functions and of the Cloud Run services, by what they are."
  value       = { for name, service in local.names : name => service if contains(keys(google_service_account.this), name) }
}

output "subscriptions" {
  description = "Names of the subscriptions that push messages, and of those that keep dead letters."
  value = {
    dead     = { for topic, subscription in google_pubsub_subscription.dead_push : topic => subscription.name }
    retained = { for topic, subscription in google_pubsub_subscription.dead_retained : topic => subscription.name }
    work     = { for topic, subscription in google_pubsub_subscription.work : topic => subscription.name }
  }
}

output "topics" {
  description = "Names of the topics and of the dead-letter topics."
  value = {
    conversions      = google_pubsub_topic.work["conversions"].name
    conversions_dead = google_pubsub_topic.dead["conversions"].name
    uploads          = google_pubsub_topic.work["uploads"].name
    uploads_dead     = google_pubsub_topic.dead["uploads"].name
  }
}
