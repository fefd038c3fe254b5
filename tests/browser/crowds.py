"""Invented characters, for a page that has many of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import httpx

if TYPE_CHECKING:
    from tests.browser.endpoints import Endpoints

NAMES: Final = (
    ("Akira", "アキラ"),
    ("Bruno", "ブルーノ"),
    ("Chiyo", "チヨ"),
    ("Dara", "ダラ"),
    ("Emil", "エミール"),
    ("Fumiko", "フミコ"),
    ("Goro", "ゴロウ"),
    ("Hana", "ハナ"),
    ("Ines", "イネス"),
    ("Jun", "ジュン"),
    ("Kaede", "カエデ"),
    ("Lotte", "ロッテ"),
    ("Momo", "モモ"),
    ("Nils", "ニルス"),
    ("Otoha", "オトハ"),
    ("Rin", "リン"),
    ("Sena", "セナ"),
    ("Tove", "トーヴェ"),
    ("Uta", "ウタ"),
    ("Wren", "レン"),
)
COLOURS: Final = ("#2f6f9f", "#7a5cb8", "#5d8534", "#b5651d", "#a8434f")


def crowd(cloud: Endpoints, count: int) -> list[dict[str, Any]]:
    """Return the cloud's characters and `count` invented ones, every fourth with a portrait."""
    real: list[dict[str, Any]] = httpx.get(f"{cloud.api}/api/v1/characters").json()["characters"]
    return [*real, *(_invented(real[0], number) for number in range(count))]


def only_mei_types(cloud: Endpoints) -> dict[str, Any]:
    """Return the api's answer as if Mei alone spoke text, and everybody took recordings."""
    told: dict[str, Any] = httpx.get(f"{cloud.api}/api/v1/characters").json()
    for each in told["characters"]:
        each["takes"] = "both" if each["id"] == "mei" else "speech"
    return told


def _invented(model: dict[str, Any], number: int) -> dict[str, Any]:
    (english, japanese), round_ = NAMES[number % len(NAMES)], number // len(NAMES)
    suffix = f" {round_ + 1}" if round_ else ""
    credit = f"Voice of {english}{suffix}, an invented character"
    return model | {
        "id": f"invented-{number}",
        "name": {"en": f"{english}{suffix}", "ja": f"{japanese}{suffix}"},
        "credit": credit,
        "credits": {"en": credit, "ja": credit},
        "colour": COLOURS[number % len(COLOURS)],
        "portrait_url": f"{model['portrait_url']}?of={number}" if number % 4 == 0 else None,
    }
