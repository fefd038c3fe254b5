mock_provider "archive" {}
mock_provider "google" {
  source = "./tests/mocks"
}
mock_provider "google-beta" {
  source = "./tests/mocks-beta"
}
mock_provider "random" {}
mock_provider "time" {}

variables {
  allowed_origins = ["https://voice.example.com"]
  convert         = { image = "europe-west1-docker.pkg.dev/demo-project/voice-avatar/convert@sha256:0000000000000000000000000000000000000000000000000000000000000000" }
  project_id      = "demo-project"
  region          = "europe-west1"
}

run "one_bucket_of_each_kind_unless_more_are_wanted" {
  assert {
    condition = (
      length(google_storage_bucket.shard) == 0
      && length(google_storage_bucket_iam_member.shard) == 0
      && length(google_storage_notification.shard) == 0
      && google_cloudfunctions2_function.this["api"].service_config[0].environment_variables["UPLOAD_SHARDS"] == "1"
    )
    error_message = "there are more buckets than were asked for"
  }
}

run "more_buckets_are_like_the_first" {
  variables {
    live    = {}
    quota   = { cpus = 100, memory_gib = 100 }
    signing = { method = "hmac" }
    storage = { shards = 3 }
  }

  assert {
    condition = toset([for bucket in google_storage_bucket.shard : bucket.name]) == toset([
      "demo-project-voice-avatar-results-1", "demo-project-voice-avatar-results-2",
      "demo-project-voice-avatar-uploads-1", "demo-project-voice-avatar-uploads-2",
    ])
    error_message = "the buckets are not called as the code expects"
  }

  assert {
    condition = alltrue([
      for bucket in google_storage_bucket.shard :
      bucket.public_access_prevention == "enforced"
      && bucket.uniform_bucket_level_access
      && !bucket.force_destroy
      && bucket.soft_delete_policy[0].retention_duration_seconds == 0
      && anytrue([for rule in bucket.lifecycle_rule : one(rule.action).type == "Delete" && one(rule.condition).age == 1])
      && anytrue([for rule in bucket.lifecycle_rule : one(rule.action).type == "AbortIncompleteMultipartUpload" && one(rule.condition).age == 1])
      && bucket.cors[0].origin == tolist(["https://voice.example.com"])
    ])
    error_message = "a further bucket is less protected than the first, or keeps recordings longer"
  }

  assert {
    condition = (
      google_storage_bucket.shard["uploads_2"].cors[0].method == tolist(["PUT"])
      && google_storage_bucket.shard["results_1"].cors[0].method == tolist(["GET", "HEAD"])
    )
    error_message = "a browser may do other things with a further bucket than with the first"
  }

  assert {
    condition = alltrue([
      for kind, first in { results = google_storage_bucket.results, uploads = google_storage_bucket.uploads } : alltrue([
        for number in ["1", "2"] :
        sort([for grant in google_storage_bucket_iam_member.shard : "${grant.role} ${grant.member}" if grant.bucket == "${first.name}-${number}"])
        == sort([for grant in concat(
          values(google_storage_bucket_iam_member.eraser),
          values(google_storage_bucket_iam_member.empties_uploads),
          values(google_storage_bucket_iam_member.reads_uploads),
          google_storage_bucket_iam_member.live_creates_results,
          google_storage_bucket_iam_member.live_creates_uploads,
          google_storage_bucket_iam_member.signer_creates_uploads,
          google_storage_bucket_iam_member.signer_reads_results,
          [google_storage_bucket_iam_member.api_creates_uploads, google_storage_bucket_iam_member.convert_creates_results],
        ) : "${grant.role} ${grant.member}" if grant.bucket == first.name])
      ])
    ])
    error_message = "somebody may do more or less in a further bucket than in the first"
  }

  assert {
    condition = (
      toset([for notification in google_storage_notification.shard : notification.bucket]) == toset(["demo-project-voice-avatar-uploads-1", "demo-project-voice-avatar-uploads-2"])
      && alltrue([for notification in google_storage_notification.shard : notification.topic == google_pubsub_topic.work["uploads"].id && notification.event_types == toset(["OBJECT_FINALIZE"])])
    )
    error_message = "an upload to a further bucket is not told to the topic uploads"
  }

  assert {
    condition = alltrue(concat(
      [for function in google_cloudfunctions2_function.this : function.service_config[0].environment_variables["UPLOAD_SHARDS"] == "3"],
      [for service in concat([google_cloud_run_v2_service.convert], google_cloud_run_v2_service.live) : anytrue([for variable in service.template[0].containers[0].env : variable.name == "UPLOAD_SHARDS" && variable.value == "3"])],
    ))
    error_message = "a service does not know how many buckets there are"
  }
}
