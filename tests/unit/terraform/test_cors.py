from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, cast
from unittest.mock import MagicMock

from google.auth.credentials import AnonymousCredentials

from shared.google.storage import CloudStorageBucket, Signer

if TYPE_CHECKING:
    from google.cloud.storage import Client

    from tests.unit.terraform.reading import TerraformModule


async def test_a_browser_may_send_every_header_that_an_upload_must_have(
    terraform: TerraformModule,
) -> None:
    client = MagicMock()
    client.bucket().blob().generate_signed_url.return_value = "https://storage.example.com/object"
    signer = Signer(AnonymousCredentials())
    uploads = CloudStorageBucket(
        cast("Client", client), "uploads", signer, lambda: datetime.now(UTC)
    )

    upload = await uploads.sign_upload(
        "a-recording", content_type="audio/webm", max_bytes=1000, lifetime=timedelta(minutes=1)
    )

    cors = terraform.resources["google_storage_bucket", "uploads"]["cors"][0]
    assert set(upload.headers) <= set(cors["response_header"])
    assert cors["method"] == [upload.method]
