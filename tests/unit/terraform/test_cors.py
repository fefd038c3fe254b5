from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, cast

import pytest
from google.auth.credentials import AnonymousCredentials

from shared.google.storage import CloudStorageBucket, Signer

if TYPE_CHECKING:
    from google.cloud.storage import Client

    from tests.unit.terraform.reading import TerraformModule


class UnsignedBlob:
    """Stands for an object whose address needs no signature here."""

    def generate_signed_url(self, **_arguments: Any) -> str:
        return "https://storage.example.com/bucket/object"


class StorageClient:
    """Stands for Cloud Storage's client, and for its bucket."""

    def bucket(self, _name: str) -> StorageClient:
        return self

    def blob(self, _name: str) -> UnsignedBlob:
        return UnsignedBlob()


@pytest.fixture
def uploads() -> CloudStorageBucket:
    client = cast("Client", StorageClient())
    return CloudStorageBucket(
        client, "uploads", Signer(AnonymousCredentials()), lambda: datetime.now(UTC)
    )


async def test_a_browser_may_send_every_header_that_an_upload_must_have(
    terraform: TerraformModule, uploads: CloudStorageBucket
) -> None:
    upload = await uploads.sign_upload(
        "a-recording", content_type="audio/webm", max_bytes=1000, lifetime=timedelta(minutes=1)
    )
    cors = terraform.resources["google_storage_bucket", "uploads"]["cors"][0]

    assert set(upload.headers) <= set(cors["response_header"])
    assert cors["method"] == [upload.method]
    assert cors["origin"] == "local.origins"
