# Read by the programs that the apply runs: lets gcloud use Terraform's own credentials, so that whoever can
# apply needs no second sign-in. The token is asked for here, and so it is neither in the state nor in a plan.
if ! command -v gcloud >/dev/null; then
    echo "The apply runs gcloud, which is not on the PATH. $WITHOUT_GCLOUD" >&2
    exit 1
fi

if [ -n "${GOOGLE_OAUTH_ACCESS_TOKEN:-}" ]; then
    export CLOUDSDK_AUTH_ACCESS_TOKEN="$GOOGLE_OAUTH_ACCESS_TOKEN"
elif token="$(gcloud auth application-default print-access-token 2>/dev/null)"; then
    export CLOUDSDK_AUTH_ACCESS_TOKEN="$token"
fi
if [ -n "${GOOGLE_IMPERSONATE_SERVICE_ACCOUNT:-}" ]; then
    export CLOUDSDK_AUTH_IMPERSONATE_SERVICE_ACCOUNT="$GOOGLE_IMPERSONATE_SERVICE_ACCOUNT"
fi
