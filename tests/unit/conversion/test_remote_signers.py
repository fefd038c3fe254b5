"""Cloud KMS and time-stamp authorities over the wire: they sign, rotate, refuse and hang."""

from __future__ import annotations

import logging
import time
from dataclasses import replace

import pytest
from google.auth.credentials import AnonymousCredentials
from google.auth.transport.requests import AuthorizedSession

from infra.local.configuration.keys import (
    CERTIFICATES,
    PRIVATE_KEY,
    make_provenance_keys,
)
from shared.conversion.provenance import ResultCredentials
from shared.google.signatures import KmsKey
from shared.speech.results.credentials import (
    Credentials,
    CredentialSigner,
    raw_signature,
    read_credentials,
)
from shared.voices.voice import OutputFormat
from tests.support.http_server import Answer, Asked, serving
from tests.support.signers import KEY_NAME, KeyServer, TimeStampAuthority
from tests.unit.results.test_credentials import KEYS, MARKING, MEI, SIGNER
from tests.unit.results.test_credentials import encoded as encoded_as

WAV = encoded_as(OutputFormat.WAV)
LATER = make_provenance_keys()
LIMIT = 0.5


def events(caplog: pytest.LogCaptureFixture) -> list[str]:
    """What the service says; the library writes a record of its own."""
    return [vars(each)["event"] for each in caplog.records if hasattr(each, "event")]


def kms_signer(address: str, version: int, certificates: str) -> CredentialSigner:
    session = AuthorizedSession(AnonymousCredentials())
    key = KmsKey(f"{KEY_NAME}/{version}", session, LIMIT, address)
    return CredentialSigner(certificates, lambda data: raw_signature(key.sign(data)))


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> TimeStampAuthority:
    return TimeStampAuthority(tmp_path_factory.mktemp("authority"))


async def test_a_key_in_cloud_kms_signs_and_a_newer_version_takes_over() -> None:
    server = KeyServer({1: KEYS[PRIVATE_KEY], 2: LATER[PRIVATE_KEY]})
    both = LATER[CERTIFICATES] + "\n" + KEYS[CERTIFICATES]
    with serving(server) as address:
        for version, certificates in ((1, KEYS[CERTIFICATES]), (2, LATER[CERTIFICATES])):
            credentials = ResultCredentials(kms_signer(address, version, certificates), 10.0)
            result = await credentials.add(WAV, MEI, MARKING)
            credentials.close()
            # What the earlier version signed stays the deployment's own.
            assert read_credentials(result.data, "audio/wav", both).state is Credentials.OURS
            alone = read_credentials(result.data, "audio/wav", KEYS[CERTIFICATES]).state
            assert alone is (Credentials.OURS if version == 1 else Credentials.VALID)
    assert [path.split("/")[-1] for path in server.asked] == [
        "1:asymmetricSign",
        "2:asymmetricSign",
    ]


async def test_a_certificate_of_another_version_is_noticed_before_a_result_goes_out(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with serving(KeyServer({2: LATER[PRIVATE_KEY]})) as address:
        credentials = ResultCredentials(kms_signer(address, 2, KEYS[CERTIFICATES]), 10.0)
        with caplog.at_level(logging.WARNING):
            result = await credentials.add(WAV, MEI, MARKING)
        credentials.close()
    assert result is WAV
    assert events(caplog) == ["result_unsigned"]


async def test_a_time_stamp_says_when_a_result_was_signed(authority: TimeStampAuthority) -> None:
    with serving(authority) as address:
        credentials = ResultCredentials(replace(SIGNER, time_stamp_url=address), 10.0)
        result = await credentials.add(WAV, MEI, MARKING)
        credentials.close()
    assert authority.asked == 1
    trusted = KEYS[CERTIFICATES] + "\n" + authority.certificate
    found = read_credentials(result.data, "audio/wav", trusted)
    assert found.state is Credentials.OURS
    assert found.signed_at.startswith(time.strftime("%Y-", time.gmtime()))


async def test_a_time_stamp_authority_that_answers_nonsense_costs_the_statement_alone() -> None:
    def echo(asked: Asked) -> Answer:
        return Answer(asked.body, headers={"Content-Type": "application/timestamp-reply"})

    with serving(echo) as url:
        credentials = ResultCredentials(replace(SIGNER, time_stamp_url=url), 10.0)
        assert await credentials.add(WAV, MEI, MARKING) is WAV
        credentials.close()
