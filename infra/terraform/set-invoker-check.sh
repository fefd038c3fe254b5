#!/bin/sh
# Enables or disables Cloud Run's invoker check of one service. Run by the apply, from the repository's root,
# with the service and the flag in the environment.
set -eu

WITHOUT_GCLOUD="Install the Google Cloud CLI; api.domain_restricted_sharing needs it."
. infra/terraform/gcloud.sh

exec gcloud run services update "$SERVICE" \
    "$CHECK" \
    --quiet \
    --billing-project="$PROJECT_ID" \
    --project="$PROJECT_ID" \
    --region="$REGION"
