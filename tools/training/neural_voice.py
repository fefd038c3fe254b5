"""Teaches a decoder and its neural head together, and writes them into a character's bundle.

    python -m tools.training.neural_voice ID RECORDINGS --readers FOLDER [--pairs FOLDER]
        [--whisper MODEL PROJECTION] [--steps N] [--head-alone]

The folders are those of `tools.training.adaptation`. Decoder and head learn the sound of the
recordings itself: by distances of spectra, by networks that tell recordings from what is spoken,
and, with `--whisper` (the `model.bin` that tools/training/README.md names), by what its encoder
hears in both. A third of the crops are readers' that are spoken in the character's voice: there,
only the judges and the encoder say how good they are. 6,000 steps take seven minutes on a GPU.

With `--head-alone` the head that all owners' characters have learns on, behind the average voice,
which stays as it is. ID is a voice that the average voice knows. Every crop is of somebody as
himself, and one judge alone hears each step, which a CPU can do.
"""

import argparse
import copy
import math
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import soundfile
import torch
from torch import Tensor, nn
from torch.nn import functional

from shared.speech.signal.samples import resample
from tools.training.adaptation import REPOSITORY, files_in, spoken_in
from tools.training.content.encoder import EncoderNetwork, Projection, load_encoder
from tools.training.content.graphs import HARMONIC, export_speaking
from tools.training.content.shared_encoder import SharedEncoder, read_encoder_weights
from tools.training.content.speaker_vectors import SpeakerVectors, begin
from tools.training.decoder.checkpoint import approach
from tools.training.decoder.head import Decoded, Head, HeadVoice, read_head, save_head
from tools.training.decoder.network import OUTPUT_HOP, OUTPUT_RATE, VOICING_SHARPNESS, Network
from tools.training.decoder.sound_judges import SoundJudges, spectral_distance
from tools.training.recordings.bundle import give_head
from tools.training.recordings.learner import contour, scale_of
from tools.training.recordings.lessons import (
    Lesson,
    Pair,
    Preparation,
    joined,
    voiced_frames,
    with_silence,
)
from tools.training.recordings.selection import readers_in
from tools.training.recordings.usable_speech import Utterance
from tools.training.recordings.work_folder import RecordingsError

_CHANNELS = 2
CROP, EDGE = 112, 12  # frames, and those at either end that nothing is asked of
_AS_LOUD = 1.6 / (32_768 * math.sqrt(2))  # of samples, where the decoder's cepstra say as much
_RECORDED = 0.925  # of half the rate
_OWN, _STRANGERS = 26, 12
_SHARES = (0.45, 0.45, 0.1)  # of recordings, pairs and readers as themselves
_SHARES_OF_HEAD = (0.25, 0.0, 0.75)
_CROPS_OF_HEAD = (8, 0)
_VERSIONS = 2
_STEPS, _RATE, _VECTORS, _JUDGES = 6_000, 5e-4, 8.0, 1.3
_WARM, _BEFORE_JUDGES, _JUDGES_BEGIN, _LEAST = 0.03, 400, 600, 0.02
_CONTENT_NOISE, _EDGE_HZ = 0.07, 60.0
_AVERAGED = 0.002


@dataclass(frozen=True)
class SoundLesson:
    """A lesson with the sound that is wanted, [T 240] at 24 kHz, and where it is voiced, [T].

    Nothing is known of the sound above `highest` Hz.
    """

    lesson: Lesson
    voiced: np.ndarray
    wave: np.ndarray
    highest: float


def with_sound(lessons: Iterator[Lesson], spoken: Sequence[Utterance]) -> list[SoundLesson]:
    """Add to lessons what was recorded; Harvest finds more of it voiced than the engine does."""
    made = []
    for lesson, utterance in zip(lessons, spoken, strict=True):
        frames, wave = len(lesson.log_f0), with_silence(utterance)
        sound = resample(wave, utterance.rate, OUTPUT_RATE)
        sound = np.resize(np.pad(sound, (0, OUTPUT_HOP)), frames * OUTPUT_HOP)
        sound = sound * math.exp(lesson.louder) * _AS_LOUD
        voiced = voiced_frames(wave, utterance.rate, frames) | (lesson.log_f0 > 0)
        if lesson.speaking.any() and lesson.log_f0.any() and frames > CROP:
            highest = _RECORDED * utterance.rate / 2
            made.append(SoundLesson(lesson, voiced, sound.astype(np.float32), highest))
    return made


@dataclass(frozen=True)
class SoundBatch:
    """Crops [batch, ...]; nothing is known of how the last `_STRANGERS` share should sound."""

    content: Tensor
    f0: Tensor
    heard: Tensor
    voiced: Tensor
    wave: Tensor
    highest: Tensor
    who: Tensor

    def inner(self, samples: Tensor) -> Tensor:
        """Samples [batch, ...] without the ends of the crops, and without what is unknown."""
        kept = samples[:, EDGE * OUTPUT_HOP : (CROP - EDGE) * OUTPUT_HOP]
        hertz = torch.fft.rfftfreq(kept.shape[1], 1 / OUTPUT_RATE, device=kept.device)
        known = torch.sigmoid((self.highest[: len(kept), None] - hertz) / _EDGE_HZ)
        return torch.fft.irfft(torch.fft.rfft(kept) * known, n=kept.shape[1])


class SoundLessons:
    """Draws crops of the character, of pairs and of readers, who are number 1 and more."""

    def __init__(
        self, own: Sequence[SoundLesson], pairs: Sequence[SoundLesson],
        readers: Sequence[Sequence[SoundLesson]], melody: float,
        shares: Sequence[float] = _SHARES,
    ) -> None:  # fmt: skip
        self._own, self._pairs, self._readers, self._melody = own, pairs or own, readers, melody
        self._shares = shares

    def batch(self, step: int, own: int = _OWN, strangers: int = _STRANGERS) -> SoundBatch:
        random = np.random.default_rng(step)
        kinds = random.choice(3, own, p=self._shares)
        rows = [self._crop(int(kind), random) for kind in kinds]
        rows += [self._crop(3, random) for _ in range(strangers)]
        columns = [torch.from_numpy(np.stack(column)) for column in zip(*rows, strict=True)]
        return SoundBatch(*columns)

    def _crop(self, kind: int, random: np.random.Generator) -> tuple[np.ndarray, ...]:
        reader = int(random.integers(len(self._readers)))
        group = (self._own, self._pairs, self._readers[reader], self._readers[reader])[kind]
        one = group[int(random.integers(len(group)))]
        lesson, first = one.lesson, int(random.integers(len(one.voiced) - CROP + 1))
        frames = slice(first, first + CROP)
        version = int(random.integers(len(lesson.contents)))
        melody = contour(lesson)
        if kind == 3:
            melody = melody - np.median(lesson.log_f0[lesson.log_f0 > 0]) + self._melody
        return (
            lesson.contents[version][frames].T.astype(np.float32),
            np.exp(melody[frames]).astype(np.float32),
            (lesson.log_f0[frames] > 0).astype(np.float32),
            one.voiced[frames].astype(np.float32),
            one.wave[first * OUTPUT_HOP : (first + CROP) * OUTPUT_HOP],
            np.array(one.highest, np.float32),
            np.array(reader + 1 if kind == 2 else 0),
        )


class NeuralVoices(nn.Module):
    def __init__(self, voices: SpeakerVectors) -> None:
        super().__init__()
        self.voices, self.head, self.voice = voices, Head(), HeadVoice()
        self.looks = nn.Parameter(torch.zeros(len(voices.vectors), self.head.norm.bias.shape[0]))

    def forward(self, given: SoundBatch, *noises: Tensor) -> tuple[list[Tensor], Tensor]:
        """Samples with each noise, and the share of pulses."""
        hidden, cepstrum, logit = self.voices.hidden(
            given.content, given.f0, given.heard, given.who
        )
        voiced = torch.sigmoid(logit * VOICING_SHARPNESS)
        said = Decoded(hidden, cepstrum, voiced, given.f0, given.heard)
        frames = self.head.frames(said, self.looks[given.who])
        both = [self.voice.speak(self.head, said, frames, noise) for noise in noises]
        return [samples for samples, _ in both], both[0][1]

    def alone(self) -> tuple[Network, Head]:
        return self.voices.alone(0), self.head_of(slice(1))

    def head_of(self, who: slice) -> Head:
        """The head with the mean look of some voices, from which all looks then differ."""
        with torch.no_grad():
            look = self.looks[who].mean(0)
            self.head.entry.bias += look  # type: ignore[operator]
            self.looks -= look
        return self.head.eval()


class SoundObjective(nn.Module):
    def __init__(self, encoder: EncoderNetwork | None) -> None:
        super().__init__()
        self.judges, self.encoder = SoundJudges(), encoder
        if encoder is not None:
            encoder.requires_grad_(requires_grad=False)

    def forward(
        self,
        given: SoundBatch,
        wanted: Tensor,
        spoken: Sequence[Tensor],
        gate: Tensor,
        judged: float,
        *,
        drawn: slice = slice(None),
    ) -> dict[str, Tensor]:
        """Losses by their names; the rows with an answer come first, as many as have one."""
        known = len(spoken[1])
        losses = {"spectra": spectral_distance(wanted[:known], spoken[0][:known], spoken[1])}
        gate = gate.clamp(1e-4, 1 - 1e-4)
        losses["voicing"] = 0.3 * functional.binary_cross_entropy(gate, given.voiced)
        if judged > 0:
            known_as, heard = self.judges.loss_of(wanted[:known], spoken[0], drawn)
            losses |= {"judges": judged * known_as, "features": 2 * judged * heard}
        if self.encoder is not None:
            with torch.no_grad():
                said = self._heard(self.encoder, wanted)
            losses["words"] = 1.5 * (1 - functional.cosine_similarity(
                said, self._heard(self.encoder, spoken[0]), dim=2, eps=1e-4).mean()
            )  # fmt: skip
        return losses

    def _heard(self, encoder: EncoderNetwork, samples: Tensor) -> Tensor:
        """Content without its mean; 16 kHz are two thirds of the bins of 24 kHz."""
        count = samples.shape[1]
        spectrum = torch.fft.rfft(samples)[:, : count // 3 + 1]
        content: Tensor = encoder(torch.fft.irfft(spectrum, n=count * 2 // 3) * (2 / 3))
        return content - content.mean(1, keepdim=True)


def learn(
    voices: NeuralVoices, lessons: SoundLessons, objective: SoundObjective, steps: int,
    sizes: tuple[int, int] = (_OWN, _STRANGERS), *, is_head_alone: bool = False,
) -> list[dict[str, float]]:  # fmt: skip
    voices.voices.requires_grad_(not is_head_alone)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    voices.to(device)
    objective.to(device)
    quick = [voices.voices.vectors, voices.looks]
    shared = [one for one in voices.parameters() if all(one is not other for other in quick)]
    groups = [{"params": shared}, {"params": quick, "weight_decay": 0.0}]
    teacher = torch.optim.AdamW(groups, betas=(0.8, 0.99), weight_decay=1e-3)
    referee = torch.optim.AdamW(objective.judges.parameters(), betas=(0.8, 0.99))
    average = copy.deepcopy(voices)
    told = []
    for step in range(steps):
        rate = _RATE * min(1, (step + 1) / (_WARM * steps)) * _LEAST ** ((step / steps) ** 1.3)
        rates = (rate, rate * _VECTORS, rate * _JUDGES)
        for group, each in zip([*teacher.param_groups, *referee.param_groups], rates, strict=True):
            group["lr"] = each
        crops = vars(lessons.batch(step, *sizes)).values()
        given = SoundBatch(*[column.to(device) for column in crops])
        given.content.add_(_CONTENT_NOISE * torch.randn_like(given.content))
        noises = torch.randn(2, sum(sizes), (CROP + 1) * OUTPUT_HOP, device=device)
        both, gate = voices(given, *noises)
        spoken = [given.inner(both[0]), given.inner(both[1][: sizes[0]])]
        count = len(objective.judges.judges)
        drawn = slice(step % count, None, count) if is_head_alone else slice(None)
        wanted = given.inner(given.wave)
        judging = objective.judges.own_loss(wanted[: sizes[0]], spoken[0].detach(), drawn)
        advance(referee, judging)
        judged = min(1.0, max(0.0, (step - _BEFORE_JUDGES) / _JUDGES_BEGIN))
        losses = objective(given, wanted, spoken, gate, judged, drawn=drawn)
        advance(teacher, torch.stack(list(losses.values())).sum())
        approach(average, voices, 1 - max(_AVERAGED, 1 / (step + 1)))
        told.append({name: float(loss.detach()) for name, loss in losses.items()})
    voices.load_state_dict(average.state_dict())
    voices.cpu().eval()
    return told


def advance(optimiser: torch.optim.Optimizer, loss: Tensor) -> None:
    optimiser.zero_grad(set_to_none=True)
    loss.backward()  # type: ignore[no-untyped-call]
    for group in optimiser.param_groups:
        nn.utils.clip_grad_norm_(group["params"], 3.0)
    optimiser.step()


def pairs_in(folder: Path) -> list[Pair]:
    found = []
    for file in files_in(folder):
        wave, rate = soundfile.read(file, dtype="float32", always_2d=True)
        if wave.shape[1] != _CHANNELS:
            raise RecordingsError(f"{file}: expected two channels, found {wave.shape[1]}.")
        stranger, owner = np.ascontiguousarray(wave.T)
        found.append(Pair(stranger, Utterance(file.name, 0.0, owner, rate)))
    return found


def prepare(
    ear: SharedEncoder, own: Sequence[Utterance], pairs: Sequence[Pair],
    readers: Mapping[str, Sequence[Utterance]], *, voice: str = "owner",
    shares: Sequence[float] = _SHARES,
) -> tuple[SoundLessons, NeuralVoices]:  # fmt: skip
    preparation = Preparation(ear, 1, is_harsh=True)
    rows = joined(own)
    taught = with_sound(preparation.of(rows), rows)
    alike = with_sound(preparation.of_pairs(pairs), [pair.owner for pair in pairs])
    few = Preparation(ear, 2, _VERSIONS, is_harsh=True)
    others = {}
    for name, spoken in readers.items():
        rows = joined(spoken)
        if lessons := with_sound(few.of(rows), rows):
            others[name] = lessons
    if not taught or not others:
        raise RecordingsError("expected recordings of more than a second by all, found shorter.")
    people = {voice: taught, **others}
    scales = {who: scale_of([one.lesson for one in some]) for who, some in people.items()}
    melody = scales[voice].melody[0]
    crops = SoundLessons(taught, alike, [*others.values()], melody, shares)
    return crops, NeuralVoices(begin(scales))


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tools.training.neural_voice", description=__doc__
    )
    add = parser.add_argument
    add("character", metavar="ID")
    add("recordings", type=Path)
    add("--pairs", type=Path, metavar="FOLDER")
    add("--readers", type=Path, required=True, metavar="FOLDER")
    add("--whisper", type=Path, nargs=2, metavar=("MODEL", "PROJECTION"))
    add("--steps", type=int, default=_STEPS)
    add("--head-alone", action="store_true")
    options = parser.parse_args(arguments)
    bundle = REPOSITORY / "characters" / options.character
    encoder = None
    if options.whisper:
        model, projection = options.whisper
        whisper = load_encoder(read_encoder_weights(model))
        encoder = EncoderNetwork(whisper, Projection.load(projection))
    try:
        own, pairs = spoken_in(options.recordings), pairs_in(options.pairs) if options.pairs else []
        people = readers_in(options.readers)
        ear, alone = SharedEncoder.of(bundle), options.head_alone
        voice, shares = (options.character, _SHARES_OF_HEAD) if alone else ("owner", _SHARES)
        lessons, voices = prepare(ear, own, pairs, people, voice=voice, shares=shares)
    except RecordingsError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    if alone:
        voices.head = read_head()
    sizes = _CROPS_OF_HEAD if alone else (_OWN, _STRANGERS)
    objective = SoundObjective(encoder)
    told = learn(voices, lessons, objective, options.steps, sizes, is_head_alone=alone)
    for step, losses in enumerate(told):
        if step % 100 == 0:
            print(step, {name: round(loss, 3) for name, loss in losses.items()})
    if alone:
        save_head(voices.head_of(slice(1, None)))
    else:
        with tempfile.TemporaryDirectory() as scratch:
            file = Path(scratch) / f"{HARMONIC}.onnx"
            export_speaking(*voices.alone(), file)
            give_head(bundle, file.read_bytes())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
