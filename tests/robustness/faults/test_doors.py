"""Access that must be refused, and secrets that must not appear in logs."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

import pytest
import requests

from infra.local.configuration.environments import FIRESTORE_VARIABLE, PUBSUB_VARIABLE
from infra.local.configuration.names import (
    CONVERSIONS_TOPIC,
    DEAD_SUFFIX,
    RESULTS_BUCKET,
    UPLOADS_BUCKET,
    topic_path,
)
from shared.google.tokens import CertificateCache, GoogleTokenVerifier
from shared.ports import TokenRefusedError
from shared.voices.messages import ConversionMessage
from shared.voices.voice import Input, new_voice_id
from tests.integration.served import SAMPLE, served_cloud
from tests.support.logs import logged_as
from tests.support.tokens import AUDIENCE, EMAIL, CertificateServer, Issuer, push_claims, unsigned

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

SECONDS = 60
SECRET = "ya29.nobody-may-read-this"
SIGNED_IN = {"Authorization": f"Bearer {SECRET}"}
CUT_OFF = SAMPLE.read_bytes()[:4000]
PAGE = "https://page.example"
ISSUER = Issuer()


def signed_with_the_certificate_as_a_password() -> str:
    """Return a token that only a verifier accepts that trusts the token's own algorithm."""

    def part(value: dict[str, Any]) -> bytes:
        return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=")

    said = part({"alg": "HS256", "typ": "JWT", "kid": ISSUER.key_id}) + b"." + part(push_claims())
    digest = hmac.digest(ISSUER.certificate.encode(), said, hashlib.sha256)
    return (said + b"." + base64.urlsafe_b64encode(digest).rstrip(b"=")).decode()


def cut_in_the_middle() -> str:
    header, claims, signature = ISSUER.sign(push_claims()).split(".")
    forged = base64.urlsafe_b64encode(json.dumps(push_claims(sub="5678")).encode()).decode()
    assert forged != claims
    return f"{header}.{forged.rstrip('=')}.{signature}"


# tests/unit/google/test_tokens.py has every claim and every form of a token.
FORGERIES = {
    "no signature": unsigned(push_claims()),
    "a certificate as password": signed_with_the_certificate_as_a_password(),
    "other claims": cut_in_the_middle(),
}


def verifier(*, behind_iam: bool) -> GoogleTokenVerifier:
    certificates = CertificateCache(CertificateServer(ISSUER).fetch)
    return GoogleTokenVerifier(
        certificates, audience=AUDIENCE, email=EMAIL, signature_may_be_removed=behind_iam
    )


@pytest.mark.parametrize("behind_iam", [False, True])
@pytest.mark.parametrize("forgery", FORGERIES)
async def test_a_forged_token_of_a_push_is_refused(forgery: str, *, behind_iam: bool) -> None:
    with pytest.raises(TokenRefusedError):
        await verifier(behind_iam=behind_iam).verify(f"Bearer {FORGERIES[forgery]}")


@pytest.mark.parametrize(
    "claims",
    [
        {"aud": "https://other.example"},
        {"email": "a@b.example"},
        {"iss": "https://issuer.example"},
        {"exp": 1_000_000_000},
    ],
    ids=str,
)
async def test_the_claims_of_a_token_whose_signature_cloud_run_has_removed_are_checked(
    claims: dict[str, Any],
) -> None:
    said = ISSUER.sign(push_claims(**claims)).rpartition(".")[0]
    with pytest.raises(TokenRefusedError):
        await verifier(behind_iam=True).verify(f"Bearer {said}.SIGNATURE_REMOVED_BY_GOOGLE")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("doors")


@pytest.fixture(scope="module")
def endpoints(folder: Path) -> Iterator[dict[str, Any]]:
    with pytest.MonkeyPatch.context() as environment:
        # The most detailed level: what it does not log is never logged.
        environment.setenv("LOG_LEVEL", "DEBUG")
        # Separate emulators, so that their logs belong to this cloud alone.
        for variable in (FIRESTORE_VARIABLE, PUBSUB_VARIABLE):
            environment.delenv(variable, raising=False)
        with served_cloud(folder, "--emulators") as served:
            yield served


def create(endpoints: dict[str, Any]) -> dict[str, Any]:
    answer = requests.post(
        f"{endpoints['api']}/api/v1/voices",
        json={"content_type": "audio/webm"},
        headers=SIGNED_IN,
        timeout=SECONDS,
    )
    assert answer.status_code == 201, answer.text
    created: dict[str, Any] = answer.json()
    return created


def upload(created: dict[str, Any], recording: bytes | None = None) -> requests.Response:
    signed = created["upload"]
    recording = SAMPLE.read_bytes() if recording is None else recording
    return requests.put(signed["url"], headers=signed["headers"], data=recording, timeout=SECONDS)


def wait(endpoints: dict[str, Any], created: dict[str, Any]) -> dict[str, Any]:
    address = f"{endpoints['api']}/api/v1/conversion/{created['voice_id']}"
    answer: dict[str, Any] = requests.get(address, headers=SIGNED_IN, timeout=SECONDS).json()
    return answer


def send_form(endpoints: dict[str, Any], created: dict[str, Any]) -> requests.Response:
    return requests.put(
        f"{endpoints['api']}/api/v1/voices",
        data={"voice_id": created["voice_id"]},
        files={"file": ("hello.webm", SAMPLE.read_bytes(), "audio/webm")},
        headers=SIGNED_IN,
        timeout=SECONDS,
    )


def put_back(endpoints: dict[str, Any], created: dict[str, Any]) -> None:
    """Send the dead letter of a voice without a recording and wait until the voice has ended."""
    voice_id = created["voice_id"]
    upload = Input(UPLOADS_BUCKET, voice_id, 1, "audio/webm", 1)
    data = base64.b64encode(ConversionMessage(voice_id, upload).encode()).decode()
    message = {"data": data, "attributes": {"voice_id": voice_id}}
    topic = topic_path(CONVERSIONS_TOPIC + DEAD_SUFFIX)
    address = f"http://{endpoints['pubsub']}/v1/{topic}:publish"
    requests.post(address, json={"messages": [message]}, timeout=SECONDS).raise_for_status()
    # The voice is young, so it is put back, and its worker finds no recording.
    assert wait(endpoints, created)["code"] == "source_missing"


@dataclass(frozen=True)
class Traces:
    """What a full run leaves: every process's log, and the secrets that no log may contain."""

    logs: Mapping[str, bytes]
    voices: Mapping[str, str]
    secrets: Mapping[str, Sequence[bytes]]


def ways_to_tell(piece: bytes) -> list[bytes]:
    """Return the forms in which bytes may appear in a log."""
    return [piece, base64.b64encode(piece), piece.hex().encode(), repr(piece)[2:-1].encode()]


@pytest.fixture(scope="module")
def traces(endpoints: dict[str, Any], folder: Path) -> Traces:
    """Send voices along every path, with a token that is valid nowhere."""
    names = ("done", "sent through the api", "cut off", "erased", "put back")
    voices = {name: create(endpoints) for name in names}
    assert upload(voices["done"]).ok
    assert upload(voices["done"], b"again").status_code == 412
    assert send_form(endpoints, voices["sent through the api"]).status_code == 202
    assert upload(voices["cut off"], CUT_OFF).ok
    assert upload(voices["erased"]).ok
    put_back(endpoints, voices["put back"])
    done = [wait(endpoints, voices[name]) for name in ("done", "sent through the api", "erased")]
    contents = [requests.get(each["result"]["url"], timeout=SECONDS).content for each in done]
    assert wait(endpoints, voices["cut off"])["code"] == "corrupt"
    erased = f"{endpoints['api']}/api/v1/voices/{voices['erased']['voice_id']}"
    assert requests.delete(erased, headers=SIGNED_IN, timeout=SECONDS).status_code == 204

    urls = [voice["upload"]["url"] for voice in voices.values()]
    urls += [each["result"]["url"] for each in done]
    signatures = [parse_qs(urlsplit(url).query)["X-Goog-Signature"][0] for url in urls]
    pieces = [content[2000:2060] for content in (SAMPLE.read_bytes(), CUT_OFF, *contents)]
    return Traces(
        logs={path.stem: path.read_bytes() for path in (folder / "logs").iterdir()},
        voices={name: voice["voice_id"] for name, voice in voices.items()},
        secrets={
            "token": [SECRET.encode()],
            "signature": [b"X-Goog-Signature=", *(each[:40].encode() for each in signatures)],
            "key": [b"PRIVATE KEY"],
            "recording or result": [told for piece in pieces for told in ways_to_tell(piece)],
        },
    )


@pytest.mark.emulators
class TestLogs:
    def test_no_log_contains_a_secret_and_none_of_ours_a_voice_id(self, traces: Traces) -> None:
        ours = {"api", "convert", "dead_letter", "live", "on_upload", "sweep"}
        assert traces.logs.keys() == ours | {"firestore", "pubsub", "storage"}
        for process, log in traces.logs.items():
            for kind, secrets in traces.secrets.items():
                assert [secret for secret in secrets if secret in log] == [], (process, kind)
            if process in ours:
                named = [name for name, voice in traces.voices.items() if voice.encode() in log]
                assert named == [], process

    @pytest.mark.parametrize(
        ("process", "event", "name"),
        [
            ("api", "voice_created", "done"),
            ("api", "voice_deleted", "erased"),
            ("on_upload", "upload_received", "done"),
            ("convert", "conversion_done", "sent through the api"),
            ("convert", "conversion_failed", "cut off"),
            ("dead_letter", "delayed", "put back"),
        ],
    )
    def test_the_run_with_read_logs_took_every_path(
        self, traces: Traces, process: str, event: str, name: str
    ) -> None:
        entries = [
            json.loads(line) for line in traces.logs[process].splitlines() if line.startswith(b"{")
        ]
        about = [entry for entry in entries if entry.get("voice") == logged_as(traces.voices[name])]

        assert event in [entry.get("event") for entry in about]
        assert "DEBUG" in [entry["severity"] for entry in entries]


@pytest.mark.emulators
class TestTheWholeService:
    def test_without_its_id_a_voice_is_neither_found_nor_listed(
        self, endpoints: dict[str, Any]
    ) -> None:
        created = create(endpoints)
        api = endpoints["api"]
        for guess in (new_voice_id(), created["voice_id"].upper(), created["voice_id"][:-1], "*"):
            for method, path in (("GET", "conversion"), ("DELETE", "voices")):
                answer = requests.request(method, f"{api}/api/v1/{path}/{guess}", timeout=SECONDS)
                assert answer.status_code in {404, 422}, answer.text
        for path in ("voices", "voices/", "conversion", "conversion/"):
            listing = requests.get(f"{api}/api/v1/{path}", timeout=SECONDS)
            assert listing.status_code in {404, 405}
            assert created["voice_id"] not in listing.text
        assert upload(created).ok

    def test_an_address_for_one_object_cannot_be_used_for_another(
        self, endpoints: dict[str, Any]
    ) -> None:
        mine, other = create(endpoints), create(endpoints)
        assert upload(other).ok
        signed = mine["upload"]
        for method in ("GET", "DELETE", "HEAD"):
            answer = requests.request(
                method, signed["url"], headers=signed["headers"], timeout=SECONDS
            )
            # The local storage server signs no deletions, so it refuses the method.
            assert answer.status_code == (405 if method == "DELETE" else 403)
        elsewhere = signed["url"].replace(mine["voice_id"], other["voice_id"])
        to_results = signed["url"].replace(UPLOADS_BUCKET, RESULTS_BUCKET)
        for url in (elsewhere, to_results, signed["url"].partition("?")[0]):
            answer = requests.put(url, headers=signed["headers"], data=b"x", timeout=SECONDS)
            assert answer.status_code in {401, 403}, answer.text

    @pytest.mark.parametrize("name", ["../../etc/passwd", "\x00"])
    def test_a_name_never_becomes_a_path(self, endpoints: dict[str, Any], name: str) -> None:
        form = {"voice_id": name}
        files = {"file": ("../../hello.webm", SAMPLE.read_bytes(), "audio/webm")}
        answer = requests.put(
            f"{endpoints['api']}/api/v1/voices", data=form, files=files, timeout=SECONDS
        )
        assert (answer.status_code, answer.json()["code"]) == (422, "invalid_voice_id")

    def test_another_sites_page_may_not_call_the_api(self, endpoints: dict[str, Any]) -> None:
        address = f"{endpoints['api']}/api/v1/voices"
        ask = {"Access-Control-Request-Method": "POST", "Origin": PAGE}
        preflight = requests.options(address, headers=ask, timeout=SECONDS)
        answer = requests.post(address, json={}, headers={"Origin": PAGE}, timeout=SECONDS)
        own = requests.options(address, headers=ask | {"Origin": endpoints["api"]}, timeout=SECONDS)

        assert "Access-Control-Allow-Origin" not in preflight.headers
        assert "Access-Control-Allow-Origin" not in answer.headers
        assert (answer.status_code, answer.json()["code"]) == (403, "origin_refused")
        assert own.headers["Access-Control-Allow-Origin"] == endpoints["api"]

    def test_another_sites_page_may_neither_upload_nor_read_a_result(
        self, endpoints: dict[str, Any]
    ) -> None:
        created = create(endpoints)
        ask = {"Access-Control-Request-Method": "PUT"}
        assert upload(created).ok
        result = wait(endpoints, created)["result"]["url"]

        for origin, allowed in ((PAGE, None), (endpoints["api"], endpoints["api"])):
            said = {"Origin": origin}
            uploads = requests.options(
                created["upload"]["url"], headers=ask | said, timeout=SECONDS
            )
            reads = requests.get(result, headers=said, timeout=SECONDS)
            for answer in (uploads, reads):
                assert answer.headers.get("Access-Control-Allow-Origin") == allowed
