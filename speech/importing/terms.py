"""What a voice's owner said, as a manifest says it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from speech.importing.consent import Consent


def terms_of(consent: Consent) -> dict[str, Any]:
    """Return the fields of a manifest that the consent decides, but for the voice's origin."""
    licence = {"name": consent.licence, "spdx": consent.spdx, "url": consent.terms_url}
    return {
        "credit": consent.credit,
        "licence": licence | ({"text": consent.licence_text} if consent.licence_text else {}),
        "terms_url": consent.terms_url,
        "consent": f"{consent.owner}: {consent.consent}",
        "contact": consent.contact,
        "uses": {
            "commercial": consent.commercial,
            "redistribution": consent.redistribution,
            "adult": consent.adult,
            "politics": consent.politics,
        },
    }
