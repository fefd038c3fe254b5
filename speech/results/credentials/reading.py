"""Reads the signed statement in a file and says whether it holds."""

from __future__ import annotations

import io
import json
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any, Final, Self

from cryptography import x509

from speech.results.credentials.statement import CHARACTER_LABEL

_MOST_TEXT: Final = 300
"""How long a text from a file may be that is shown."""


class Credentials(StrEnum):
    """What became of a file's statement.

    OURS: it holds, and this deployment signed it.
    VALID: it holds, but another one signed it, whom nobody here knows.
    CHANGED: it was signed for other content.
    INVALID: it is broken, or its signature is.
    MISSING: there is none.
    """

    OURS = "ours"
    VALID = "valid"
    CHANGED = "changed"
    INVALID = "invalid"
    MISSING = "missing"


@dataclass(frozen=True, slots=True)
class CredentialsFinding:
    """What a file's statement says.

    Attributes:
        state: whether it holds.
        made_with: the software that it names.
        character: the id of the character that it names.
        issuer: who signed it, as the certificate says.
        signed_at: the time in its time stamp, in RFC 3339; empty without one.
        forbidden_uses: what it says that the character's owner forbids.
    """

    state: Credentials
    made_with: str = ""
    character: str = ""
    issuer: str = ""
    signed_at: str = ""
    forbidden_uses: tuple[str, ...] = ()

    def to_json(self) -> str:
        """Return it as JSON."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Read what `to_json` wrote."""
        said = json.loads(text)
        said["state"] = Credentials(said["state"])
        said["forbidden_uses"] = tuple(said["forbidden_uses"])
        return cls(**said)


def read_credentials(data: bytes, content_type: str, own_certificates: str) -> CredentialsFinding:
    """Read the statement of a file; nothing is fetched from the network.

    Call it where a file that somebody made to do harm can do none: the library is large.

    Args:
        data: the file.
        content_type: its media type.
        own_certificates: of the deployment's signers, the present and earlier ones, as PEM; may be
            empty. Those of their authorities must be among them.
    """
    import c2pa  # noqa: PLC0415 - only verification needs it, and it is large

    settings: dict[str, dict[str, bool | str]] = {
        "verify": {"verify_trust": True, "remote_manifest_fetch": False, "ocsp_fetch": False}
    }
    if own_certificates:
        settings["trust"] = {"trust_anchors": own_certificates}
    try:
        with c2pa.Context(settings=c2pa.Settings.from_dict(settings)) as context:
            reader = c2pa.Reader.try_create(content_type, io.BytesIO(data), context=context)
            if reader is None:
                return CredentialsFinding(Credentials.MISSING)
            with reader:
                return _understand(json.loads(reader.json()), _serials(own_certificates))
    except c2pa.C2paError:
        return CredentialsFinding(Credentials.INVALID)


def _serials(certificates: str) -> frozenset[str]:
    found = x509.load_pem_x509_certificates(certificates.encode()) if certificates else []
    return frozenset(str(each.serial_number) for each in found)


def _understand(report: dict[str, Any], own_serials: frozenset[str]) -> CredentialsFinding:
    manifest = report.get("manifests", {}).get(report.get("active_manifest"), {})
    assertions = {each["label"]: each.get("data") for each in manifest.get("assertions", [])}
    character = assertions.get(CHARACTER_LABEL)
    said = character if isinstance(character, dict) else {}
    generators = manifest.get("claim_generator_info") or [{}]
    signature = manifest.get("signature_info") or {}
    return CredentialsFinding(
        _state(report, is_own=signature.get("cert_serial_number") in own_serials),
        made_with=_text(f"{generators[0].get('name', '')} {generators[0].get('version', '')}"),
        character=_text(said.get("id")),
        issuer=_text(signature.get("issuer")),
        signed_at=_text(signature.get("time")),
        forbidden_uses=tuple(map(_text, said.get("forbidden_uses") or ()))[:10],
    )


def _state(report: dict[str, Any], *, is_own: bool) -> Credentials:
    codes = {str(each.get("code")) for each in report.get("validation_status") or ()}
    if any(code.endswith("Hash.mismatch") for code in codes):
        return Credentials.CHANGED
    state = report.get("validation_state")
    # The authority may have certified others, too: its numbers tell its certificates apart.
    if state == "Trusted" and is_own:
        return Credentials.OURS
    return Credentials.VALID if state in {"Valid", "Trusted"} else Credentials.INVALID


def _text(value: object) -> str:
    return str(value).strip()[:_MOST_TEXT] if isinstance(value, str) else ""
