"""Measures a character against its owner's recordings, each figure with what was reachable."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import soxr
import torch
from numpy.typing import NDArray

from shared.characters.manifest import read_manifest
from shared.speech.signal.samples import resample
from tools.training.content.shared_encoder import SharedEncoder
from tools.training.decoder.features import RATE, Floats
from tools.training.decoder.network import OUTPUT_HOP, OUTPUT_RATE, HarmonicVoice
from tools.training.judges.converter import BundleConverter
from tools.training.judges.judgement import Figures
from tools.training.judges.measures import Embedding, voice_of
from tools.training.recordings.lessons import PAD_SECONDS, Preparation
from tools.training.recordings.usable_speech import Utterance
from tools.training.recordings.work_folder import RecordingsError


def synthesise(voice: HarmonicVoice, cepstra: NDArray[np.floating], log_f0: Floats) -> Floats:
    """Speak parameters, at 16 kHz.

    Args:
        cepstra: mel-generalised cepstrum, [frames, 35].
        log_f0: natural logarithm of Hz, 0 where unvoiced, [frames]; not all of it may be.
    """
    voiced = log_f0 > 0
    frames = np.arange(len(voiced))
    f0 = np.exp(np.interp(frames, frames[voiced], log_f0[voiced])).astype(np.float32)
    noise = torch.Generator().manual_seed(len(f0))
    with torch.no_grad():
        samples = voice(
            torch.from_numpy(cepstra.astype(np.float32))[None],
            torch.from_numpy(voiced.astype(np.float32))[None],
            torch.from_numpy(f0)[None],
            torch.randn(1, (len(f0) + 1) * OUTPUT_HOP, generator=noise),
        )[0].numpy()
    result: Floats = soxr.resample(samples, OUTPUT_RATE, RATE).astype(np.float32)
    return result


CLIP_SECONDS = 6.0
_PAUSE_SECONDS = 0.2
_REFERENCES = 40
_MOST_CLIPS = 12


@dataclass(frozen=True)
class ComparedClip:
    """A recording, the owner's synthesis alone, and the conversion; float32 [N] at 16 kHz."""

    name: str
    original: Floats
    synthesis: Floats | None
    converted: Floats


@dataclass(frozen=True)
class Comparison:
    owner: Figures
    strangers: Figures
    owner_clips: Sequence[ComparedClip]
    stranger_clips: Sequence[ComparedClip]


class Judge:
    def __init__(
        self, bundle: Path, references: Sequence[Utterance], encoder: Embedding, ear: SharedEncoder
    ) -> None:
        self._converter = BundleConverter.of(bundle)
        if read_manifest(bundle).pitch is None:
            raise RecordingsError(
                f"{bundle}: expected a character whose pitch is known, found none."
            )
        self._encoder = encoder
        clips = join(references)
        step = max(1, len(clips) // _REFERENCES)
        self._reference = voice_of(clips[::step], encoder)
        self._preparation = Preparation(ear, 0, versions=0)
        self._voice = HarmonicVoice()

    def clip_of_owner(self, name: str, utterance: Utterance) -> ComparedClip:
        (lesson,) = self._preparation.of([utterance])
        synthesis = synthesise(self._voice, lesson.cepstra, lesson.log_f0)
        wave = resample(utterance.samples, utterance.rate, RATE)
        return ComparedClip(name, wave, align(synthesis, wave), self._converter(wave))

    def clip_of_stranger(self, name: str, wave: Floats) -> ComparedClip:
        return ComparedClip(name, wave, None, self._converter(wave))

    def figures(self, clip: ComparedClip) -> dict[str, float]:
        source, found = (self._encoder.embed(w) for w in (clip.original, clip.converted))
        figures = {
            "before": float(source @ self._reference),
            "after": float(found @ self._reference),
            "left": float(source @ found),
        }
        if clip.synthesis is not None:
            figures["synthesis"] = float(self._encoder.embed(clip.synthesis) @ self._reference)
        return figures


def align(synthesis: Floats, wave: Floats) -> Floats:
    begin = round(PAD_SECONDS * RATE)
    part = synthesis[begin : begin + len(wave)]
    loud = np.sqrt((wave**2).mean() / max(float((part**2).mean()), 1e-12))
    return np.pad(part * loud, (0, len(wave) - len(part))).astype(np.float32)


def judge(
    judging: Judge,
    held_out: Sequence[Utterance],
    strangers: Mapping[str, Sequence[Utterance]],
    report: Callable[[int, int], None],
) -> Comparison:
    own, strange = Figures(), Figures()
    heard = [Utterance("", 0.0, wave, RATE) for wave in join(held_out)[:_MOST_CLIPS]]
    people = [(name, wave) for name, speech in strangers.items() for wave in join(speech)[:1]]
    owner_clips, stranger_clips = [], []
    total = len(heard) + len(people)
    for number, utterance in enumerate(heard, 1):
        clip = judging.clip_of_owner(f"held out {number}", utterance)
        own.add(**judging.figures(clip))
        owner_clips.append(clip)
        report(number, total)
    for number, (name, wave) in enumerate(people, len(heard) + 1):
        clip = judging.clip_of_stranger(name, wave)
        strange.add(**judging.figures(clip))
        stranger_clips.append(clip)
        report(number, total)
    return Comparison(own, strange, owner_clips, stranger_clips)


def join(utterances: Sequence[Utterance]) -> list[Floats]:
    """Join utterances to clips of at least 6 s at 16 kHz; what is left over joins the last."""
    pause = np.zeros(round(_PAUSE_SECONDS * RATE), np.float32)
    clips: list[list[Floats]] = [[]]
    for utterance in utterances:
        if sum(len(part) for part in clips[-1]) >= CLIP_SECONDS * RATE:
            clips.append([])
        wave = resample(utterance.samples, utterance.rate, RATE)
        peak = max(float(np.abs(wave).max(initial=0.0)), 1e-4)
        clips[-1] += [pause, wave * np.float32(0.5 / peak)]
    if len(clips) > 1 and sum(len(part) for part in clips[-1]) < CLIP_SECONDS * RATE / 2:
        rest = clips.pop()
        clips[-1] += rest
    return [np.concatenate(parts) for parts in clips if parts]
