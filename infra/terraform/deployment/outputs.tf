# Written by python -m infra.terraform.generation; change the module's outputs.tf instead.

output "api_url" {
  description = "Where the api answers."
  value       = module.voice_avatar.api_url
}

output "buckets" {
  description = "Names of the buckets for recordings, results and, if there are any, characters and the recordings of own ones."
  value       = module.voice_avatar.buckets
}

output "compat_url" {
  description = "The address of the APIs that other clients speak, with /v1 behind it for OpenAI's; null without compat."
  value       = module.voice_avatar.compat_url
}

output "convert_image" {
  description = "The conversion container's image, with its digest."
  value       = module.voice_avatar.convert_image
}

output "convert_revision" {
  description = "The converter's newest revision that is ready: the stable one while you try the next (canary)."
  value       = module.voice_avatar.convert_revision
}

output "dashboard" {
  description = "Where the dashboard is."
  value       = module.voice_avatar.dashboard
}

output "dns_records" {
  description = "The CNAME record that each domain needs before Google issues its certificate; null without a domain."
  value       = module.voice_avatar.dns_records
}

output "load_balancer_address" {
  description = "What the A record of each domain must point to; null without one."
  value       = module.voice_avatar.load_balancer_address
}

output "network_endpoint_groups" {
  description = "What another load balancer sends the domain's requests to (domain.external_load_balancer): the api, and where there is one, live with its paths."
  value       = module.voice_avatar.network_endpoint_groups
}

output "page_configuration" {
  description = "Content of the page's config.json."
  value       = module.voice_avatar.page_configuration
}

output "page_url" {
  description = "URL of the page; null if the module does not host it."
  value       = module.voice_avatar.page_url
}

output "service_accounts" {
  description = "The addresses of the service accounts, by what runs as them."
  value       = module.voice_avatar.service_accounts
}

output "services" {
  description = "Names of the functions and of the Cloud Run services, by what they are."
  value       = module.voice_avatar.services
}

output "subscriptions" {
  description = "Names of the subscriptions that push messages, and of those that keep dead letters."
  value       = module.voice_avatar.subscriptions
}

output "topics" {
  description = "Names of the topics and of the dead-letter topics."
  value       = module.voice_avatar.topics
}
