"""The names in the local cloud; they are the same as Terraform's defaults."""

from __future__ import annotations

from typing import Final

PROJECT_ID: Final = "demo-voice-avatar"
"""Firebase's tools treat a project whose name begins with demo- as one that exists only locally."""

UPLOADS_BUCKET: Final = "voice-avatar-uploads"
RESULTS_BUCKET: Final = "voice-avatar-results"
CHARACTERS_BUCKET: Final = "voice-avatar-characters"
OWN_RECORDINGS_BUCKET: Final = "voice-avatar-own-recordings"

UPLOADS_TOPIC: Final = "uploads"
CONVERSIONS_TOPIC: Final = "conversions"
DEAD_SUFFIX: Final = "-dead"

LIVE_TICKET_KEY: Final = "the tickets of every local cloud are signed with this"

SIGNER: Final = f"signer@{PROJECT_ID}.iam.gserviceaccount.com"


def topic_path(topic: str) -> str:
    """Return a topic's full name."""
    return f"projects/{PROJECT_ID}/topics/{topic}"


def subscription_path(subscription: str) -> str:
    """Return a subscription's full name."""
    return f"projects/{PROJECT_ID}/subscriptions/{subscription}"
