"""on_upload: turns Cloud Storage's event of a finished upload into a conversion message.

The path of a voice, part two: topic `uploads` -> **on_upload** -> topic `conversions`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, partial
from typing import TYPE_CHECKING

from functions.on_upload.settings import OnUploadSettings
from functions.on_upload.uploads import UploadHandler
from shared.google import clients
from shared.runtime.function import cloud_function
from shared.runtime.push import push_app
from shared.runtime.traces import open_traces

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.applications import Starlette

    from shared.ports import Bucket, Publisher
    from shared.voices.store import VoiceStore


@dataclass(frozen=True, slots=True)
class OnUploadServices:
    voices: VoiceStore
    conversions: Publisher
    uploads: Callable[[], Bucket]


def build(config: OnUploadSettings, services: OnUploadServices) -> Starlette:
    # As long as a conversion may take, and less than a request.
    patience = config.timeouts.conversion_deadline
    traces = open_traces(config, "on_upload")
    handler = UploadHandler(
        services.voices, services.conversions, services.uploads, patience, traces=traces
    )
    return push_app(clients.open_push_verifier(config), handler.handle)


def open_services(config: OnUploadSettings) -> OnUploadServices:
    return OnUploadServices(
        voices=clients.open_voices(config),
        conversions=clients.open_publisher(config, config.conversions_topic),
        uploads=cache(partial(clients.open_bucket, config, config.uploads_bucket)),
    )


on_upload = cloud_function("on_upload", OnUploadSettings, open_services, build)
