"""The settings of on_upload."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from shared.settings import PushSettings


class OnUploadSettings(PushSettings):
    """Settings of on_upload.

    Attributes:
        conversions_topic: short id of the topic of the conversion messages.
    """

    conversions_topic: Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9._~+%-]{2,254}$")]
