#!/bin/sh
# Switches Cloud Run's invoker check of one service on or off. Run by the apply; which service, where
# and what comes in the environment.
set -eu

if ! command -v gcloud >/dev/null; then
    echo "With domain_restricted_sharing the api is opened through gcloud, which is not on the PATH." \
        "Install the Google Cloud CLI." >&2
    exit 1
fi

exec gcloud run services update "$SERVICE" \
    "$CHECK" \
    --quiet \
    --project="$PROJECT_ID" \
    --region="$REGION"
