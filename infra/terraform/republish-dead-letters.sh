#!/usr/bin/env bash
# Publishes the dead letters of a topic again, oldest first: bash republish-dead-letters.sh uploads|conversions
# PROJECT and NAME in the environment are the project and the variable `name` (voice-avatar). Needs gcloud and jq.
set -euo pipefail

topic="${1:?uploads or conversions}"
name="${NAME:-voice-avatar}"
found="dead-$topic.jsonl"
touch "$found"

# One pull gives a hundred messages at most and often fewer. What was pulled is kept in a file, so that a run
# that broke off is run again.
empty=0
while [ "$empty" -lt 3 ]; do
    batch="$(gcloud pubsub subscriptions pull "$name-$topic-dead-retained" --project "$PROJECT" \
        --limit 100 --auto-ack --format json | jq -c '.[].message')"
    if [ -n "$batch" ]; then printf '%s\n' "$batch" >> "$found"; empty=0; else empty=$((empty + 1)); fi
done

attributes='.attributes | with_entries(select(.key | startswith("CloudPubSub") | not))'
jq -s -c 'unique_by(.messageId) | sort_by(.publishTime) | .[]' "$found" | while read -r message; do
    gcloud pubsub topics publish "$name-$topic" --project "$PROJECT" \
        --message "$(jq -r .data <<< "$message" | base64 -d)" \
        --attribute "$(jq -r "$attributes | to_entries | map(\"\(.key)=\(.value)\") | join(\",\")" <<< "$message")" \
        < /dev/null
done
rm "$found"
