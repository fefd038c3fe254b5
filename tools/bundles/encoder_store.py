"""The encoders that characters share: each kept once, named by its SHA-256."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from shared.characters.manifest import ENCODERS
from shared.runtime.process import read_at_most, write_whole
from shared.runtime.quoting import printable
from tools.bundles.files import VoiceFileError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

_SHORTEST_PREFIX = 6
_MOST_FACTS_BYTES = 64 * 1024


FEATURE_SIZES = {"v1": 256, "v2": 768}


@dataclass(frozen=True)
class FeatureOutput:
    """An output with features every 20 ms.

    Attributes:
        width: numbers per frame.
        channels_first: whether it is [1, C, T], in place of [1, T, C].
    """

    name: str
    width: int
    channels_first: bool

    @property
    def version(self) -> str | None:
        """The RVC voices that take such features: "v1", "v2", or None."""
        versions = (version for version, size in FEATURE_SIZES.items() if size == self.width)
        return next(versions, None)


@dataclass(frozen=True)
class StoredEncoder:
    sha256: str
    bytes: int
    origin: str
    outputs: Sequence[FeatureOutput] = ()

    def output_for(self, width: int) -> FeatureOutput | None:
        return next((output for output in self.outputs if output.width == width), None)


class EncoderStore:
    def __init__(self, characters: Path) -> None:
        self._folder = characters / ENCODERS

    def add(
        self, content: bytes, origin: str, outputs: Sequence[FeatureOutput] = ()
    ) -> StoredEncoder:
        sha256 = hashlib.sha256(content).hexdigest()
        stored = StoredEncoder(sha256, len(content), origin, outputs)
        self._folder.mkdir(parents=True, exist_ok=True)
        write_whole(self._folder / f"{sha256}.onnx", content)
        said = {
            "bytes": stored.bytes,
            "origin": origin,
            "outputs": [asdict(each) for each in outputs],
        }
        facts = json.dumps(said, indent=2) + "\n"
        write_whole(self._folder / f"{sha256}.json", facts.encode())
        return stored

    def choose(self, width: int, prefix: str | None) -> StoredEncoder:
        """Choose the encoder for a voice.

        Args:
            prefix: how the encoder's SHA-256 begins, or None if there is but one that fits.
        """
        fitting = [each for each in self._all() if each.output_for(width) is not None]
        return only(fitting, prefix, f"encoder of {width} features", "--encoder")

    def choose_pitch_model(self, prefix: str) -> StoredEncoder:
        models = [each for each in self._all() if not each.outputs]
        return only(models, prefix, "pitch model", "--pitch-model")

    def _all(self) -> list[StoredEncoder]:
        paths = sorted(self._folder.glob("*.json"))
        return [read(path) for path in paths if path.with_suffix(".onnx").is_file()]


def only(fitting: list[StoredEncoder], prefix: str | None, what: str, option: str) -> StoredEncoder:
    if prefix is not None:
        if len(prefix) < _SHORTEST_PREFIX:
            raise VoiceFileError(
                f"{option} {prefix}: expected at least {_SHORTEST_PREFIX} digits of a SHA-256."
            )
        fitting = [each for each in fitting if each.sha256.startswith(prefix.lower())]
    if not fitting:
        raise VoiceFileError(
            f"expected one {what}, found none; add one with: nox -s character -- encoder FILE;"
            " hubert_base.pt out of RVC's own folder is the encoder of most RVC voices."
        )
    if len(fitting) > 1:
        names = ", ".join(f"{each.sha256[:12]} ({printable(each.origin)})" for each in fitting)
        raise VoiceFileError(f"expected one {what}, found {names}; choose one with {option}.")
    return fitting[0]


def read(path: Path) -> StoredEncoder:
    try:
        said = json.loads(read_at_most(path, _MOST_FACTS_BYTES))
        outputs = [FeatureOutput(**each) for each in said["outputs"]]
        return StoredEncoder(path.stem, int(said["bytes"]), str(said["origin"]), outputs)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise VoiceFileError(
            f"{printable(path.name)}: expected what is known of an encoder, found"
            f" {printable(repr(error))}; add it anew."
        ) from error
