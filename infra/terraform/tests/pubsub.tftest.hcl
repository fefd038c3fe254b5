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

run "messages" {
  assert {
    condition = alltrue([
      for subscription in concat(values(google_pubsub_subscription.work), values(google_pubsub_subscription.dead_push)) :
      subscription.push_config[0].oidc_token[0].service_account_email == "voice-avatar-push@demo-project.iam.gserviceaccount.com"
      && startswith(subscription.push_config[0].oidc_token[0].audience, "https://")
    ])
    error_message = "a push subscription sends no OIDC token of the push account, or one without an audience"
  }

  assert {
    condition = (
      google_pubsub_subscription.work["conversions"].push_config[0].oidc_token[0].audience == one([for env in google_cloud_run_v2_service.convert.template[0].containers[0].env : env.value if env.name == "PUSH_AUDIENCE"])
      && contains(google_cloud_run_v2_service.convert.custom_audiences, google_pubsub_subscription.work["conversions"].push_config[0].oidc_token[0].audience)
    )
    error_message = "convert does not expect the audience that its pushes are made out to"
  }

  assert {
    condition = alltrue([
      for pair in [
        [google_pubsub_subscription.work["uploads"], google_cloudfunctions2_function.this["on_upload"]],
        [google_pubsub_subscription.dead_push["uploads"], google_cloudfunctions2_function.this["dead_letter"]],
        [google_pubsub_subscription.dead_push["conversions"], google_cloudfunctions2_function.this["dead_letter"]],
      ] :
      pair[0].push_config[0].oidc_token[0].audience == pair[1].service_config[0].environment_variables["PUSH_AUDIENCE"]
      && pair[0].push_config[0].oidc_token[0].service_account_email == pair[1].service_config[0].environment_variables["PUSH_SERVICE_ACCOUNT"]
    ])
    error_message = "a function does not expect the audience or the account that its pushes carry"
  }

  assert {
    condition     = google_pubsub_subscription.work["conversions"].push_config[0].push_endpoint == "https://voice-avatar-convert-abcdefghij-ew.a.run.app/push"
    error_message = "conversion messages are not pushed to convert's /push"
  }

  assert {
    condition = alltrue([
      for topic, subscription in google_pubsub_subscription.work :
      subscription.dead_letter_policy[0].dead_letter_topic == google_pubsub_topic.dead[topic].id
      && subscription.dead_letter_policy[0].max_delivery_attempts == 30
      && subscription.retry_policy[0].minimum_backoff == "1s"
      && subscription.retry_policy[0].maximum_backoff == "10s"
    ])
    error_message = "a subscription has no dead-letter policy to its own dead-letter topic, or no backoff"
  }

  assert {
    condition = (
      google_pubsub_subscription.work["uploads"].filter == "NOT attributes:overwroteGeneration"
      && google_pubsub_subscription.work["conversions"].filter == null
    )
    error_message = "on_upload is told of recordings that were emptied, or a conversion message is filtered out"
  }

  assert {
    condition = alltrue([
      for subscription in concat(
        values(google_pubsub_subscription.work),
        values(google_pubsub_subscription.dead_push),
        values(google_pubsub_subscription.dead_retained),
      ) :
      subscription.message_retention_duration == "604800s" && subscription.expiration_policy[0].ttl == ""
    ])
    error_message = "a subscription keeps its messages for less than a week, or can expire"
  }

  assert {
    condition = alltrue([
      for topic, subscription in google_pubsub_subscription.dead_retained :
      subscription.topic == google_pubsub_topic.dead[topic].id && subscription.retain_acked_messages && length(subscription.push_config) == 0
    ])
    error_message = "a dead-letter topic has no pull subscription that keeps what it gets"
  }

  assert {
    condition = alltrue([
      for topic in ["conversions", "uploads"] :
      google_pubsub_topic_iam_member.dead_letter_publisher[topic].topic == google_pubsub_topic.dead[topic].name
      && google_pubsub_topic_iam_member.dead_letter_publisher[topic].role == "roles/pubsub.publisher"
      && google_pubsub_topic_iam_member.dead_letter_publisher[topic].member == "serviceAccount:service-123456789012@gcp-sa-pubsub.iam.gserviceaccount.com"
    ])
    error_message = "the Pub/Sub agent may not publish to a dead-letter topic"
  }

  assert {
    condition = alltrue([
      for topic in ["conversions", "uploads"] :
      google_pubsub_subscription_iam_member.dead_letter_subscriber[topic].subscription == google_pubsub_subscription.work[topic].name
      && google_pubsub_subscription_iam_member.dead_letter_subscriber[topic].role == "roles/pubsub.subscriber"
      && google_pubsub_subscription_iam_member.dead_letter_subscriber[topic].member == "serviceAccount:service-123456789012@gcp-sa-pubsub.iam.gserviceaccount.com"
    ])
    error_message = "the Pub/Sub agent may not take a message that it must move to the dead letters"
  }

  assert {
    condition = (
      google_storage_notification.uploads.topic == google_pubsub_topic.work["uploads"].id
      && google_storage_notification.uploads.bucket == google_storage_bucket.uploads.name
      && google_storage_notification.uploads.event_types == toset(["OBJECT_FINALIZE"])
      && google_pubsub_topic_iam_member.storage_agent.role == "roles/pubsub.publisher"
      && google_pubsub_topic_iam_member.storage_agent.topic == google_pubsub_topic.work["uploads"].name
    )
    error_message = "a finished upload is not told to the topic uploads"
  }
}

run "the_chain_of_timeouts" {
  assert {
    condition = (
      local.timeouts.conversion_deadline < local.timeouts.request
      && local.timeouts.request <= local.timeouts.acknowledgement
    )
    error_message = "the timeouts are no chain"
  }

  assert {
    condition     = google_cloud_run_v2_service.convert.template[0].timeout == "85s"
    error_message = "convert's request timeout does not follow from the conversion deadline"
  }

  assert {
    condition = alltrue([
      for subscription in concat(values(google_pubsub_subscription.work), values(google_pubsub_subscription.dead_push)) :
      subscription.ack_deadline_seconds == 90
    ])
    error_message = "an acknowledgement deadline does not follow from the conversion deadline"
  }

  assert {
    condition = alltrue([
      for name in ["dead_letter", "on_upload"] :
      google_cloudfunctions2_function.this[name].service_config[0].timeout_seconds == 85
    ])
    error_message = "a function's request timeout is not within the acknowledgement deadline"
  }
}

run "the_chain_follows_the_one_number" {
  variables {
    convert = { image = var.convert.image, deadline_seconds = 500 }
  }

  assert {
    condition = (
      google_cloud_run_v2_service.convert.template[0].timeout == "525s"
      && google_pubsub_subscription.work["conversions"].ack_deadline_seconds == 530
      && one([for env in google_cloud_run_v2_service.convert.template[0].containers[0].env : env.value if env.name == "CONVERSION_DEADLINE_SECONDS"]) == "500"
    )
    error_message = "a timeout is not derived from conversion_deadline_seconds"
  }

  assert {
    condition     = google_pubsub_subscription.work["conversions"].ack_deadline_seconds <= 600
    error_message = "the acknowledgement deadline is longer than Pub/Sub allows"
  }
}
