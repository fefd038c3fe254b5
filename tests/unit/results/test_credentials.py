"""Signed statements: written by us, read by the library of the standard's makers."""

from __future__ import annotations

import io
import json
import tomllib
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import c2pa
import numpy as np
import pytest

from infra.local.configuration.keys import (
    CERTIFICATES,
    PRIVATE_KEY,
    make_provenance_keys,
    provenance_environment,
)
from shared.characters.manifest import Uses, read_manifest
from shared.speech.results.audio_files import encode_result
from shared.speech.results.credentials import (
    Credentials,
    CredentialsError,
    CredentialsFinding,
    CredentialSigner,
    read_credentials,
    sign_with,
)
from shared.speech.results.statement import (
    SIGNED_MEDIA_TYPES,
    SOFTWARE_VERSION,
    Marking,
    describe,
    describe_character,
)
from shared.voices.voice import OutputFormat

if TYPE_CHECKING:
    from shared.speech.results.audio_files import EncodedResult

ROOT = Path(__file__).parents[3]
MEI = read_manifest(ROOT / "characters" / "mei")
MARKING = Marking("mei", "Mei", MEI.credit)
AT = datetime(2026, 11, 23, 12, 0, tzinfo=UTC)
KEYS = make_provenance_keys()
SIGNER = CredentialSigner(KEYS[CERTIFICATES], sign_with(KEYS[PRIVATE_KEY].encode()))
SIGNED = (OutputFormat.WAV, OutputFormat.MP3, OutputFormat.M4A)


def encoded(output_format: OutputFormat) -> EncodedResult:
    samples = (np.random.default_rng(0).standard_normal(24_000) / 10).astype(np.float32)
    return encode_result(samples, 24_000, output_format, MARKING)


def signed(output_format: OutputFormat) -> tuple[bytes, str]:
    result = encoded(output_format)
    said = describe(MEI, MARKING, AT)
    return SIGNER.add_credentials(result.data, result.content_type, said), result.content_type


@pytest.mark.parametrize("output_format", SIGNED)
def test_a_signed_result_is_valid_and_ours_where_its_certificate_is(
    output_format: OutputFormat,
) -> None:
    data, content_type = signed(output_format)

    nobody = read_credentials(data, content_type, "")
    somebody = read_credentials(data, content_type, KEYS[CERTIFICATES])
    another = read_credentials(data, content_type, make_provenance_keys()[CERTIFICATES])

    assert (nobody.state, another.state) == (Credentials.VALID, Credentials.VALID)
    assert somebody == CredentialsFinding(
        Credentials.OURS,
        made_with=f"Voice Avatar {SOFTWARE_VERSION}",
        character="mei",
        issuer="A local cloud of Voice Avatar, which nobody trusts",
    )


@pytest.mark.parametrize("output_format", SIGNED)
def test_a_changed_sample_and_a_missing_signature_are_noticed(output_format: OutputFormat) -> None:
    data, content_type = signed(output_format)
    plain = encoded(output_format).data
    changed = bytearray(data)
    # Sound is in the middle of the file as it was before it was signed.
    piece = plain[len(plain) // 2 : len(plain) // 2 + 64]
    changed[data.index(piece) + 32] ^= 1

    assert read_credentials(bytes(changed), content_type, "").state is Credentials.CHANGED
    assert content_type in SIGNED_MEDIA_TYPES
    assert read_credentials(plain, content_type, "").state is Credentials.MISSING


def test_the_statement_says_how_it_was_made_what_is_forbidden_and_nothing_of_the_visitor() -> None:
    data, content_type = signed(OutputFormat.WAV)

    report = json.loads(c2pa.Reader(content_type, io.BytesIO(data)).json())
    manifest = report["manifests"][report["active_manifest"]]
    said = {each["label"]: each["data"] for each in manifest["assertions"]}

    action = said["c2pa.actions.v2"]["actions"][0]
    assert action["action"] == "c2pa.created"
    assert action["digitalSourceType"].endswith("/trainedAlgorithmicMedia")
    assert said["org.voice-avatar.character"] == describe_character(MEI) | {"notice": "off"}
    assert "owners" not in json.dumps(said), "the consent's text itself"
    assert set(said) == {"c2pa.actions.v2", "org.voice-avatar.character"}

    strict = MEI.model_copy(update={"uses": Uses(commercial=False, politics=False, adult=None)})
    result = encoded(OutputFormat.WAV)
    statement = describe(strict, MARKING, AT, notice="after")
    data = SIGNER.add_credentials(result.data, result.content_type, statement)
    found = read_credentials(data, result.content_type, "")
    assert found.forbidden_uses == ("commercial", "politics")


def test_a_signer_that_fails_is_told() -> None:
    def fail(data: bytes) -> bytes:
        raise ConnectionError(len(data))

    result = encoded(OutputFormat.WAV)
    failing = CredentialSigner(KEYS[CERTIFICATES], fail)

    with pytest.raises(CredentialsError, match="not signed"):
        failing.add_credentials(result.data, result.content_type, describe(MEI, MARKING, AT))


@pytest.mark.parametrize("wrong", [b"", b"-----BEGIN PRIVATE KEY-----\nAAAA\n"])
def test_a_key_that_is_none_is_refused_without_being_shown(wrong: bytes) -> None:
    with pytest.raises(ValueError, match="private key"):
        sign_with(wrong)


def test_the_version_is_that_of_the_project() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]

    assert project["version"] == SOFTWARE_VERSION


def test_a_local_cloud_keeps_its_keys_to_itself_and_whoever_is_second_takes_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from infra.local.configuration import keys  # noqa: PLC0415 - one function is replaced

    first: dict[str, str] = {}

    def be_late() -> dict[str, str]:
        monkeypatch.undo()
        first.update(provenance_environment(tmp_path / "origin"))
        return make_provenance_keys()

    monkeypatch.setattr(keys, "make_provenance_keys", be_late)

    assert provenance_environment(tmp_path / "origin") == first
    assert {path.stat().st_mode & 0o777 for path in (tmp_path / "origin").iterdir()} == {0o600}
    assert [path.name for path in tmp_path.iterdir()] == ["origin"]
