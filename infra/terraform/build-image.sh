#!/bin/sh
# Builds and pushes the image of the conversion container, or another one, with Cloud Build. Run by the apply,
# from the repository's root; what to build, where and as whom comes in the environment.
set -eu

WITHOUT_GCLOUD="Install the Google Cloud CLI, or set convert.image to an image that is built already."
. infra/terraform/gcloud.sh

exec gcloud builds submit . \
    --quiet \
    --billing-project="$PROJECT_ID" \
    --config=infra/terraform/cloudbuild.yaml \
    --gcs-source-staging-dir="$STAGING" \
    --ignore-file="${IGNORE_FILE:-.gcloudignore}" \
    --project="$PROJECT_ID" \
    --region="$REGION" \
    --service-account="$SERVICE_ACCOUNT" \
    --substitutions="_DOCKERFILE=${DOCKERFILE:-functions/convert/Dockerfile},_IMAGE=$IMAGE,_KOKORO=${KOKORO:-on},_PROVIDER=$PROVIDER,_PYTORCH_INDEX=${PYTORCH_INDEX:-}"
