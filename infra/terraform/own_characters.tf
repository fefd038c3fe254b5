# Characters that visitors make of their own voice: recordings in a bucket of their own, documents in
# Firestore, and a job that trains. Only with var.characters.own; without it nothing of this is there.
locals {
  own     = var.characters.own == null ? 0 : 1
  has_own = var.characters.own != null

  backup_days = try(var.characters.own.backup_days, 0)

  # A training and the start of the next one: the job begins none that would not end in time.
  training_job_seconds = try(2 * var.characters.own.training_seconds, 0)

  # The trainer's image: shared_patterns, and the code that trains, decodes, tries and publishes.
  train_image_patterns = [
    "characters/**",
    "functions/train/**",
    "shared/characters/**/*.py",
    "shared/speech/**",
    "tools/__init__.py",
    "tools/bundles/**/*.py",
    "tools/importing/**/*.py",
    "tools/training/**",
  ]
  train_image_files = [
    for path in sort(setunion([for pattern in concat(local.shared_patterns, local.train_image_patterns) : fileset(local.source_root, pattern)]...)) :
    path if !strcontains(path, "__pycache__/")
  ]
  train_image_tag = substr(sha256(join("\n", [
    for path in local.train_image_files : "${filesha256("${local.source_root}/${path}")} ${path}"
  ])), 0, 32)
  train_image_name = "${local.repository_host}/train:${local.train_image_tag}"
  builds_train     = local.has_own && try(var.characters.own.image == null, false)
  train_image      = local.builds_train ? one(data.google_artifact_registry_docker_image.train[*].self_link) : try(var.characters.own.image, null)

  # How the job is started: by the API of Cloud Run, as an account that may start this job and no other.
  trainer_url = !local.has_own ? null : "https://run.googleapis.com/v2/projects/${var.project_id}/locations/${var.region}/jobs/${local.names.train}:run"

  # What the api and the sweep are told besides; the job has all of its own.
  environment_own_characters_api = !local.has_own ? {} : {
    OWN_CHARACTERS_PER_DAY   = tostring(var.characters.own.per_day)
    OWN_CHARACTERS_PUBLIC    = tostring(var.characters.own.public)
    OWN_CHARACTERS_PER_OWNER = tostring(var.characters.own.per_owner)
    OWN_RECORDINGS_BUCKET    = google_storage_bucket.own_recordings[0].name
    TRAINER_URL              = local.trainer_url
  }
  environment_own_characters_sweep = !local.has_own ? {} : {
    CHARACTERS_BUCKET     = google_storage_bucket.characters[0].name
    OWN_RECORDINGS_BUCKET = google_storage_bucket.own_recordings[0].name
    TRAINER_URL           = local.trainer_url
  }
  environment_train = {
    CHARACTERS_BUCKET     = one(google_storage_bucket.characters[*].name)
    JOB_SECONDS           = tostring(local.training_job_seconds)
    OWN_RECORDINGS_BUCKET = one(google_storage_bucket.own_recordings[*].name)
    TRAININGS_AT_ONCE     = tostring(try(var.characters.own.at_once, 1))
    TRAINING_SECONDS      = tostring(try(var.characters.own.training_seconds, 1800))
  }
}

resource "google_storage_bucket" "own_recordings" {
  # checkov:skip=CKV_GCP_62:as for the uploads
  # checkov:skip=CKV_GCP_78:as for the uploads
  count = local.own

  name                        = "${var.project_id}-${var.name}-own-recordings"
  project                     = var.project_id
  location                    = var.region
  force_destroy               = !var.deletion_protection
  labels                      = var.labels
  public_access_prevention    = "enforced"
  uniform_bucket_level_access = true

  cors {
    origin          = local.origins
    method          = ["PUT"]
    response_header = ["Content-Type", "x-goog-content-length-range", "x-goog-if-generation-match"]
    max_age_seconds = 3600
  }

  lifecycle_rule {
    action {
      type = "AbortIncompleteMultipartUpload"
    }
    condition {
      age = 1
    }
  }

  # No age: the sweep deletes what belongs to no document, and an owner may keep recordings for a better
  # training. Deleted means deleted, as for the uploads.
  soft_delete_policy {
    retention_duration_seconds = 0
  }

  dynamic "encryption" {
    for_each = var.storage.kms_key == null ? [] : [var.storage.kms_key]
    content {
      default_kms_key_name = encryption.value
    }
  }

  depends_on = [time_sleep.apis, time_sleep.key_users]
}

# Who signs an upload address may put one object there; checkpoints are objects that are written once.
resource "google_storage_bucket_iam_member" "creates_own_recordings" {
  for_each = local.has_own ? toset(["api", "train"]) : toset([])

  bucket = google_storage_bucket.own_recordings[0].name
  role   = "roles/storage.objectCreator"
  member = google_service_account.this[each.key].member
}

# An owner deletes through the api, what comes late goes with the sweep, the rest with the job. Nobody
# else reads a recording: converters have no right to this bucket.
resource "google_storage_bucket_iam_member" "erases_own_characters" {
  for_each = !local.has_own ? {} : {
    for pair in setproduct(["api", "sweep", "train"], ["characters", "own_recordings"]) : join("_", pair) => {
      account = pair[0]
      bucket  = pair[1] == "characters" ? google_storage_bucket.characters[0].name : google_storage_bucket.own_recordings[0].name
    }
  }

  bucket = each.value.bucket
  role   = google_project_iam_custom_role.eraser.id
  member = google_service_account.this[each.value.account].member
}

resource "google_storage_bucket_iam_member" "train_creates_characters" {
  count = local.own

  bucket = google_storage_bucket.characters[0].name
  role   = "roles/storage.objectCreator"
  member = google_service_account.this["train"].member
}

resource "google_cloud_run_v2_job_iam_member" "starts_training" {
  for_each = local.has_own ? toset(["api", "sweep"]) : toset([])

  project  = var.project_id
  location = var.region
  name     = google_cloud_run_v2_job.train[0].name
  # It contains run.jobs.run, and nothing that changes the job.
  role   = "roles/run.invoker"
  member = google_service_account.this[each.key].member
}

# As for the converter's image.
resource "terraform_data" "train_image" {
  count = local.builds_train ? 1 : 0

  triggers_replace = concat([local.train_image_name], local.attested)

  provisioner "local-exec" {
    working_dir = local.source_root
    command     = "sh infra/terraform/build-image.sh"
    environment = {
      DOCKERFILE      = "functions/train/Dockerfile"
      IGNORE_FILE     = "functions/train/Dockerfile.dockerignore"
      IMAGE           = local.train_image_name
      PROJECT_ID      = var.project_id
      PROVIDER        = "cpu"
      PYTORCH_INDEX   = var.characters.own.pytorch_index
      REGION          = coalesce(var.images.build_region, var.region)
      SERVICE_ACCOUNT = google_service_account.this["build"].id
      STAGING         = "gs://${google_storage_bucket.sources.name}/staged"
    }
  }

  depends_on = [time_sleep.accounts]
}

data "google_artifact_registry_docker_image" "train" {
  count = local.builds_train ? 1 : 0

  project       = local.repository.project
  location      = local.repository.location
  repository_id = local.repository.name
  image_name    = "train:${local.train_image_tag}"

  depends_on = [terraform_data.train_image]
}

resource "google_cloud_run_v2_job" "train" {
  count = local.own

  name     = local.names.train
  project  = var.project_id
  location = var.region
  # It holds no data.
  deletion_protection = false
  labels              = var.labels

  dynamic "binary_authorization" {
    for_each = google_binary_authorization_policy.this
    content {
      use_default = true
    }
  }

  template {
    parallelism = 1
    task_count  = 1

    template {
      encryption_key        = var.storage.kms_key
      execution_environment = "EXECUTION_ENVIRONMENT_GEN2"
      # A killed task is started once more and goes on from what was kept; after that, the sweep.
      max_retries     = 1
      service_account = google_service_account.this["train"].email
      timeout         = "${local.training_job_seconds}s"

      containers {
        image = local.train_image

        resources {
          limits = { cpu = "2", memory = "4Gi" }
        }

        dynamic "env" {
          for_each = merge(local.environment_common, local.environment_train)
          content {
            name  = env.key
            value = env.value
          }
        }

        dynamic "env" {
          for_each = local.secret_variables["log-key"]
          content {
            name = env.key

            value_source {
              secret_key_ref {
                secret  = env.value.secret
                version = env.value.version
              }
            }
          }
        }
      }
    }
  }

  depends_on = [
    google_secret_manager_secret_iam_member.reads_log_key,
    time_sleep.accounts,
    time_sleep.key_users,
  ]
}

# As for voices: documents are read by their id, and by the moments that the job, the sweep and the
# list of public characters look for. A document without the moment is in no index.
resource "google_firestore_field" "own_unindexed" {
  for_each = local.has_own ? toset(["own_characters", "own_character_limits", "own_character_states"]) : toset([])

  project    = var.project_id
  database   = google_firestore_database.this.name
  collection = each.key
  field      = "*"

  index_config {}
}

resource "google_firestore_field" "own_moment" {
  for_each = local.has_own ? toset(["clean_at", "public_at", "train_at"]) : toset([])

  project    = var.project_id
  database   = google_firestore_database.this.name
  collection = "own_characters"
  field      = each.key

  index_config {
    indexes {
      order       = "ASCENDING"
      query_scope = "COLLECTION"
    }
  }

  # Firestore changes one field of a collection at a time.
  depends_on = [google_firestore_field.own_unindexed]
}

resource "google_firestore_field" "own_delete_at" {
  for_each = local.has_own ? toset(["own_characters", "own_character_states"]) : toset([])

  project    = var.project_id
  database   = google_firestore_database.this.name
  collection = each.key
  field      = "delete_at"

  index_config {}
  ttl_config {}

  depends_on = [google_firestore_field.own_moment]
}

# Finds the characters of one account, those that were begun last first.
resource "google_firestore_index" "own_of_owner" {
  count = local.own

  project     = var.project_id
  database    = google_firestore_database.this.name
  collection  = "own_characters"
  query_scope = "COLLECTION"

  fields {
    field_path = "owner"
    order      = "ASCENDING"
  }

  fields {
    field_path = "created_at"
    order      = "DESCENDING"
  }

  depends_on = [google_firestore_field.own_delete_at]
}
