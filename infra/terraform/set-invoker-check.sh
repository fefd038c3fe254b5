#!/bin/sh
# Enables or disables Cloud Run's invoker check of one service. The apply runs it and passes the service
# and the flag in environment variables.
set -eu

if ! command -v gcloud >/dev/null; then
    echo "domain_restricted_sharing needs gcloud, which is not on the PATH." \
        "Install the Google Cloud CLI." >&2
    exit 1
fi

exec gcloud run services update "$SERVICE" \
    "$CHECK" \
    --billing-project="$PROJECT_ID" \
    --quiet \
    --project="$PROJECT_ID" \
    --region="$REGION"
