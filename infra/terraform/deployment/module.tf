# Written by python -m infra.terraform.generation; change the module's variables.tf instead.

module "voice_avatar" {
  source = "../"

  allowed_origins         = var.allowed_origins
  api                     = var.api
  app_check               = var.app_check
  canary                  = var.canary
  characters              = var.characters
  compat                  = var.compat
  content_credentials     = var.content_credentials
  content_credentials_key = var.content_credentials_key
  convert                 = var.convert
  dead_letter             = var.dead_letter
  deletion_protection     = var.deletion_protection
  domain                  = var.domain
  firebase_authentication = var.firebase_authentication
  images                  = var.images
  labels                  = var.labels
  limits                  = var.limits
  live                    = var.live
  monitoring              = var.monitoring
  name                    = var.name
  notice                  = var.notice
  on_upload               = var.on_upload
  operator                = var.operator
  project_id              = var.project_id
  quota                   = var.quota
  region                  = var.region
  signing                 = var.signing
  storage                 = var.storage
  traces                  = var.traces
  vpc                     = var.vpc
  watermark               = var.watermark
}
