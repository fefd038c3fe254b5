"""Signs statements and puts them into files, with the C2PA library of the standard's makers.

The library is loaded when it is first needed: that takes 0.15 s, and signing 2 ms of a result.
"""

from __future__ import annotations

import asyncio
import io
import json
import sys
from contextlib import suppress
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature

from shared.speech.decoding.wire import bare_environment, python_command
from shared.speech.results.statement import CHARACTER_LABEL
from shared.voices.media import Container

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    # Signs bytes: ECDSA over P-256 with SHA-256, as r and s, 32 bytes each (ES256).
    Sign = Callable[[bytes], bytes]

_COORDINATE_BYTES: Final = 32
_MOST_TEXT: Final = 300  # the longest text from a file that is shown


class CredentialsError(Exception):
    """A result cannot be signed now."""


@dataclass(frozen=True)
class CredentialSigner:
    """Puts signed statements into results; several threads may use it. Time stamps are RFC 3161."""

    certificates: str
    sign: Sign
    time_stamp_url: str | None = None

    def load(self) -> None:
        import c2pa  # noqa: F401, PLC0415 - so that the first result need not wait for it

    def add_credentials(
        self, data: bytes, content_type: str, statement: Mapping[str, Any]
    ) -> bytes:
        """Return a file with a signed statement in it; CredentialsError if nobody signs it now."""
        import c2pa  # noqa: PLC0415 - see the module

        target = io.BytesIO()
        try:
            with (
                c2pa.Signer.from_callback(
                    self.sign, c2pa.C2paSigningAlg.ES256, self.certificates, self.time_stamp_url
                ) as signer,
                c2pa.Builder(dict(statement)) as builder,
            ):
                builder.sign(signer, content_type, io.BytesIO(data), target)
        except c2pa.C2paError as error:
            raise CredentialsError(f"the result is not signed: {error}") from error
        return target.getvalue()


def sign_with(key_pem: bytes) -> Sign:
    """Build the signer of a private key: PKCS 8 as PEM, on the curve P-256; or ValueError."""
    try:
        key = serialization.load_pem_private_key(key_pem, None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise ValueError("expected a private key as PEM (PKCS 8) without a password") from None
    if not isinstance(key, ec.EllipticCurvePrivateKey) or not isinstance(key.curve, ec.SECP256R1):
        raise ValueError("expected a private key on the curve P-256")  # noqa: TRY004 - of a text
    return lambda data: raw_signature(key.sign(data, ec.ECDSA(hashes.SHA256())))


def raw_signature(der: bytes) -> bytes:
    """Return a signature in the form of ES256: r and s, 32 bytes each (RFC 7518, 3.4)."""
    return b"".join(part.to_bytes(_COORDINATE_BYTES, "big") for part in decode_dss_signature(der))


class Credentials(StrEnum):
    OURS = "ours"  # it holds, and this deployment signed it
    VALID = "valid"  # it holds, but somebody unknown to this deployment signed it
    CHANGED = "changed"  # it was signed for other content
    INVALID = "invalid"  # it is broken, or its signature is
    MISSING = "missing"


@dataclass(frozen=True, slots=True)
class CredentialsFinding:
    """The content of a file's statement; `signed_at` is in RFC 3339, empty without a time stamp."""

    state: Credentials
    made_with: str = ""
    character: str = ""
    issuer: str = ""
    signed_at: str = ""
    forbidden_uses: tuple[str, ...] = ()


def read_credentials(data: bytes, content_type: str, own_certificates: str) -> CredentialsFinding:
    """Read the statement of a file, without the network; only where a bad file does no harm."""
    import c2pa  # noqa: PLC0415 - only verification needs it, and it is large

    settings: dict[str, dict[str, bool | str]] = {
        "verify": {"verify_trust": True, "remote_manifest_fetch": False, "ocsp_fetch": False}
    }
    own_serials = set()
    if own_certificates:
        settings["trust"] = {"trust_anchors": own_certificates}
        certificates = x509.load_pem_x509_certificates(own_certificates.encode())
        own_serials = {str(each.serial_number) for each in certificates}
    try:
        with c2pa.Context(settings=c2pa.Settings.from_dict(settings)) as context:
            reader = c2pa.Reader.try_create(content_type, io.BytesIO(data), context=context)
            if reader is None:
                return CredentialsFinding(Credentials.MISSING)
            with reader:
                return _understand(json.loads(reader.json()), own_serials)
    except c2pa.C2paError:
        return CredentialsFinding(Credentials.INVALID)


def _understand(report: dict[str, Any], own_serials: set[str]) -> CredentialsFinding:
    def text(value: object) -> str:
        return str(value).strip()[:_MOST_TEXT] if isinstance(value, str) else ""

    manifest = report.get("manifests", {}).get(report.get("active_manifest"), {})
    assertions = {each["label"]: each.get("data") for each in manifest.get("assertions", [])}
    character = assertions.get(CHARACTER_LABEL)
    said = character if isinstance(character, dict) else {}
    generators = manifest.get("claim_generator_info") or [{}]
    signature = manifest.get("signature_info") or {}
    codes = {str(each.get("code")) for each in report.get("validation_status") or ()}
    state = Credentials.INVALID
    if any(code.endswith("Hash.mismatch") for code in codes):
        state = Credentials.CHANGED
    elif report.get("validation_state") in {"Valid", "Trusted"}:
        state = Credentials.VALID
        # The authority may have certified others, too: its numbers tell its certificates apart.
        is_own = signature.get("cert_serial_number") in own_serials
        if report["validation_state"] == "Trusted" and is_own:
            state = Credentials.OURS
    return CredentialsFinding(
        state,
        made_with=text(f"{generators[0].get('name', '')} {generators[0].get('version', '')}"),
        character=text(said.get("id")),
        issuer=text(signature.get("issuer")),
        signed_at=text(signature.get("time")),
        forbidden_uses=tuple(map(text, said.get("forbidden_uses") or ()))[:10],
    )


CPU_SECONDS: Final = 3
WALL_SECONDS: Final = 10.0
MEMORY_BYTES: Final = 768 << 20  # of addresses; the library alone takes a hundred megabytes

_SIGNED: Final = {
    Container.WAV: "audio/wav",
    Container.MP3: "audio/mpeg",
    Container.MP4: "audio/mp4",
}
_MARK: Final = b"A result of reading: "


async def read_credentials_apart(
    data: bytes, container: Container, own_certificates: str
) -> CredentialsFinding:
    content_type = _SIGNED.get(container)
    if content_type is None:
        return CredentialsFinding(Credentials.MISSING)
    process = await asyncio.create_subprocess_exec(
        *python_command(__name__),
        env=bare_environment(),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    question = json.dumps({"content_type": content_type, "own": own_certificates}).encode()
    try:
        async with asyncio.timeout(WALL_SECONDS):
            answer, _ = await process.communicate(question + b"\n" + data)
    except TimeoutError:
        answer = b""
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()
    _, mark, finding = answer.rpartition(_MARK)
    if not mark or process.returncode != 0:
        return CredentialsFinding(Credentials.INVALID)
    said = json.loads(finding)
    said["state"] = Credentials(said["state"])
    said["forbidden_uses"] = tuple(said["forbidden_uses"])
    return CredentialsFinding(**said)


def main() -> None:
    # Windows has no such limits; there only the time is limited, from outside.
    with suppress(ImportError):
        import resource  # noqa: PLC0415 - see above

        resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS))
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
        for limit in (resource.RLIMIT_CORE, resource.RLIMIT_FSIZE):
            resource.setrlimit(limit, (0, 0))
    question = json.loads(sys.stdin.buffer.readline())
    data = sys.stdin.buffer.read()
    finding = read_credentials(data, question["content_type"], question["own"])
    sys.stdout.buffer.write(_MARK + json.dumps(asdict(finding)).encode())
