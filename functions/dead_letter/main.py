"""dead_letter: decides about a voice whose message was delivered as often as allowed.

The path of a voice when it goes wrong: dead-letter topic -> **dead_letter** -> `failed`, or, if
only capacity was lacking, topic `conversions`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from functions.dead_letter.dead_letters import DeadLetterHandler
from functions.dead_letter.settings import DeadLetterSettings
from shared.google import clients
from shared.runtime.function import cloud_function
from shared.runtime.push import push_app

if TYPE_CHECKING:
    from starlette.applications import Starlette

    from shared.ports import Bucket, Publisher
    from shared.voices.store import VoiceStore


@dataclass(frozen=True, slots=True)
class DeadLetterServices:
    voices: VoiceStore
    uploads: Bucket
    results: Bucket
    conversions: Publisher


def build(config: DeadLetterSettings, services: DeadLetterServices) -> Starlette:
    handler = DeadLetterHandler(
        services.voices, services.uploads, services.results, services.conversions
    )
    return push_app(clients.open_push_verifier(config), handler.handle)


def open_services(config: DeadLetterSettings) -> DeadLetterServices:
    return DeadLetterServices(
        voices=clients.open_voices(config),
        uploads=clients.open_bucket(config, config.uploads_bucket),
        results=clients.open_bucket(config, config.results_bucket),
        conversions=clients.open_publisher(config, config.conversions_topic),
    )


dead_letter = cloud_function("dead_letter", DeadLetterSettings, open_services, build)
