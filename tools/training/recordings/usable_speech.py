"""Finds usable speech in a recording, and says what is not used and why.

Each test looks at one stretch of sound between pauses. Its limit lies between what hundreds of
recordings of people gave and what the bad kind gave.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import av
import numpy as np
import scipy.ndimage

from shared.speech.decoding.demuxing import Demuxer
from shared.speech.decoding.frames import Format
from shared.speech.decoding.recording import as_float, downmix
from shared.speech.signal.analysis import Analysis, analyse, cut_at_pauses
from shared.speech.signal.samples import FRAMES_PER_SECOND, decibels, ranked, resample
from shared.speech.signal.sound import NoClock
from shared.voices.media import SNIFF_BYTES, SOUND_SUFFIXES, sniff
from shared.voices.voice import VoiceError
from tools.training.decoder.features import RATE, Floats
from tools.training.recordings.work_folder import RecordingsError

SLOWEST_FALL = -105.0  # of speech, in dB a second; slower ones are a room's
_FRAMES = 12
_FASTEST_SHARE = 0.1
_LEAST_FALLS = 20
_ABOVE_FLOOR_DB = 20.0
_END_ABOVE_FLOOR_DB = 6.0
_BELOW_LOUD_DB = 30.0


def resounds(wave: Floats) -> bool:
    """Return whether the room of a 16 kHz recording has an echo.

    Of 70 readers of LibriSpeech, 9 s each, none seems to; after an invented room of 0.8 s as loud
    as the voice, 69 of 70 do, after one of 0.4 s at half that power, none.
    """
    fall = fast_fall(wave)
    return fall is not None and fall > SLOWEST_FALL


def fast_fall(wave: Floats) -> float | None:
    """Measure the fast decay of a 16 kHz recording in dB a second; None if there is hardly any.

    The tenth of the falls that is the steepest begins here; each lasts 120 ms and is the slope of
    the level in that time. After the signal's decay rates of Wen, Habets and Naylor, "Blind
    estimation of reverberation time based on the distribution of signal decay rates" (2008).
    """
    # Differences: what is low falls slowly in any voice.
    steps = np.diff(wave)
    size = RATE // FRAMES_PER_SECOND
    count = len(steps) // size
    if count < _FRAMES:
        return None
    level = decibels(np.square(steps[: count * size].reshape(count, size)).mean(1))
    floor, loud = ranked(level, 0.05), ranked(level, 0.95)
    falls = np.lib.stride_tricks.sliding_window_view(level, _FRAMES)
    time = (np.arange(_FRAMES) - (_FRAMES - 1) / 2) / FRAMES_PER_SECOND
    slope = falls @ (time / (time @ time))
    begins = falls[:, 0] > max(floor + _ABOVE_FLOOR_DB, loud - _BELOW_LOUD_DB)
    # What ends in the noise says how loud that is.
    slope = slope[begins & (falls[:, -1] > floor + _END_ABOVE_FLOOR_DB) & (slope < 0)]
    return float(ranked(slope, _FASTEST_SHARE)) if len(slope) >= _LEAST_FALLS else None


PIECE_SECONDS = 60
HIGHEST_RATE = 48_000
MAX_FILE_BYTES = 1 << 30
_LONGEST_SECONDS = 12 * 3600.0
_DTYPES = {"u8": "u1", "s16": "<i2", "s32": "<i4", "s64": "<i8", "flt": "<f4", "dbl": "<f8"}


@dataclass(frozen=True)
class RecordingPiece:
    file: str
    start: float
    samples: Floats
    rate: int


@dataclass(frozen=True)
class OwnerRecording:
    path: Path
    name: str


def find_recordings(folder: Path) -> list[OwnerRecording]:
    """Find the recordings in a folder and the folders in it; RecordingsError if there are none."""
    if not folder.is_dir():
        raise RecordingsError(f"{folder}: expected a folder with recordings, found none.")
    paths = (path for path in sorted(folder.rglob("*")) if path.suffix.lower() in SOUND_SUFFIXES)
    found = [
        OwnerRecording(path, path.relative_to(folder).as_posix())
        for path in paths
        if path.is_file() and not path.name.startswith(".")  # as companion files of macOS do
    ]
    if not found:
        raise RecordingsError(
            f"{folder}: expected recordings (WAV, FLAC, MP3 or M4A), found none; put at least two"
            " minutes of speech there, better five."
        )
    return found


def read_pieces(recording: OwnerRecording) -> Iterator[RecordingPiece]:
    """Decode in pieces of up to a minute; RecordingsError says why it cannot be read."""
    demuxer = open_recording(recording.path)
    parts: list[bytes] = []
    size = read = 0
    try:
        for chunk in demuxer.chunks(_LONGEST_SECONDS, 1 << 62):
            parts.append(bytes(chunk))
            size += len(parts[-1])
            form = format_of(demuxer)
            if size >= PIECE_SECONDS * form.sample_rate * form.bytes_per_sample:
                yield piece_of(recording, read, parts, form)
                read += size // form.bytes_per_sample
                parts, size = [], 0
    except VoiceError as error:
        # What was read before a file breaks off is as good as any other recording.
        if not read and not parts:
            message = error.message[:1].lower() + error.message[1:].rstrip(".")
            raise RecordingsError(message) from error
    if parts:
        yield piece_of(recording, read, parts, format_of(demuxer))


def recording_seconds(recording: OwnerRecording) -> float:
    """Estimate how long a recording is, from its head; 0 if that says nothing."""
    try:
        with av.open(str(recording.path)) as container:
            return (container.duration or 0) / av.time_base
    except (av.FFmpegError, OSError, ValueError):
        return 0.0


def open_recording(path: Path) -> Demuxer:
    try:
        if path.stat().st_size > MAX_FILE_BYTES:
            raise RecordingsError("it has more than 1 GiB; save it as FLAC or in several files")
        data = path.read_bytes()
    except OSError as error:
        raise RecordingsError(f"it cannot be opened ({error.strerror})") from error
    container = sniff(data[:SNIFF_BYTES])
    if container is None:
        raise RecordingsError("it is no WAV, FLAC, MP3, M4A, AAC, Ogg or WebM")
    return Demuxer(data, container)


def format_of(demuxer: Demuxer) -> Format:
    if demuxer.format is None:
        raise RecordingsError("nothing in it can be decoded")
    return demuxer.format


def piece_of(
    recording: OwnerRecording, read: int, parts: list[bytes], form: Format
) -> RecordingPiece:
    interleaved = as_float(np.frombuffer(b"".join(parts), _DTYPES[form.sample_type]))
    mono = downmix(interleaved.reshape(-1, len(form.sent)), form.weights)
    rate = min(form.sample_rate, HIGHEST_RATE)
    samples = resample(mono, form.sample_rate, rate)
    usable = np.clip(np.nan_to_num(samples), -8, 8).astype(np.float32)
    return RecordingPiece(recording.name, read / form.sample_rate, usable, rate)


SILENCE = "silence"
CLIPPED = "clipped"
NOISE = "noise"
ECHO = "echo"
MUSIC = "music"
TELEPHONE = "telephone quality"
SHORT = "too short"

LONGEST_FRAMES = 1_200
SHORTEST_FRAMES = 35
_REPORTED_SILENCE = 100
_AROUND = 60
_QUIET_SHARE = 0.05

_LEAST_ABOVE_NOISE_DB = 18.0
_FLAT = 3
_FLAT_STEP = 1e-4
_NEAR_PEAK = 0.9
_MOST_CLIPPED = 5e-4
_MOST_PERSISTENT = 0.3
_LEAST_FOR_MUSIC = 2  # seconds; a short word may be one sound
_LEAST_HIGH_DB = -25.0
_FFT = 1_024
_LAG = 8
_STEP = RATE // 50


@dataclass(frozen=True)
class Utterance:
    """Usable speech without long pauses; `start` in seconds of the file, `rate` in Hz."""

    file: str
    start: float
    samples: Floats
    rate: int

    @property
    def seconds(self) -> float:
        return len(self.samples) / self.rate


@dataclass(frozen=True)
class DroppedSpeech:
    file: str
    start: float
    end: float
    reason: str

    @property
    def seconds(self) -> float:
        return self.end - self.start


def screen(piece: RecordingPiece) -> tuple[list[Utterance], list[DroppedSpeech]]:
    analysis = analyse(piece.samples, piece.rate, NoClock())
    kept: list[Utterance] = []
    dropped: list[DroppedSpeech] = []
    stretches = list(stretches_of(analysis))
    echo = ECHO if resounds(analysis.wave) else None
    for begin, end in stretches:
        reason = fault_of(piece, analysis, begin, end)
        if reason in (None, MUSIC):
            # Partials that go on sounding in a room seem to be an instrument's.
            reason = echo or reason
        if reason is None:
            kept.append(cut(piece, begin, end))
        else:
            dropped.append(dropped_part(piece, begin, end, reason))
    edges = [0, *(edge for stretch in stretches for edge in stretch), len(analysis.speech)]
    gaps = list(pairwise(edges))[::2]
    silent = [gap for gap in gaps if gap[1] - gap[0] >= _REPORTED_SILENCE]
    dropped += [dropped_part(piece, begin, end, SILENCE) for begin, end in silent]
    return kept, sorted(dropped, key=lambda part: part.start)


def stretches_of(analysis: Analysis) -> Iterator[tuple[int, int]]:
    """First frame and frame after the last of every stretch of sound, at most 12 s long."""
    edges = np.flatnonzero(np.diff(np.pad(analysis.speech.astype(np.int8), 1)))
    for first, last in edges.reshape(-1, 2).tolist():
        levels = analysis.levels.frames[first:last]
        for chunk in cut_at_pauses(levels, LONGEST_FRAMES):
            yield first + chunk.begin, first + chunk.end


def cut(piece: RecordingPiece, begin: int, end: int) -> Utterance:
    hop = piece.rate / FRAMES_PER_SECOND
    samples = piece.samples[round(begin * hop) : round(end * hop)].copy()
    return Utterance(piece.file, piece.start + begin / FRAMES_PER_SECOND, samples, piece.rate)


def dropped_part(piece: RecordingPiece, begin: int, end: int, reason: str) -> DroppedSpeech:
    start = piece.start + begin / FRAMES_PER_SECOND
    stop = min(piece.start + end / FRAMES_PER_SECOND, piece.start + len(piece.samples) / piece.rate)
    return DroppedSpeech(piece.file, start, stop, reason)


def fault_of(piece: RecordingPiece, analysis: Analysis, begin: int, end: int) -> str | None:
    heard = analysis.wave[begin * RATE // FRAMES_PER_SECOND : end * RATE // FRAMES_PER_SECOND]
    if end - begin < SHORTEST_FRAMES:
        return SHORT
    if persistence(heard) > _MOST_PERSISTENT:
        return MUSIC
    if clipped_share(cut(piece, begin, end).samples, piece.samples) > _MOST_CLIPPED:
        return CLIPPED
    levels = analysis.levels.frames
    quiet = ranked(levels[max(begin - _AROUND, 0) : end + _AROUND], _QUIET_SHARE)
    if ranked(levels[begin:end], 0.9) - quiet < _LEAST_ABOVE_NOISE_DB:
        return NOISE
    return None


def persistence(wave: Floats) -> float:
    """Measure how steady the partials are for 160 ms: speech up to 0.2, music above 0.3.

    The correlation of the spectra's fine structure with that of 160 ms later, where it is loud. The
    partials of a voice glide; those of instruments last as long as a note.
    """
    if len(wave) < _LEAST_FOR_MUSIC * RATE:
        return 0.0
    frames = np.lib.stride_tricks.sliding_window_view(wave, _FFT)[::_STEP]
    power = np.abs(np.fft.rfft(frames * np.hanning(_FFT).astype(np.float32)))[:, 6:256] ** 2
    level = decibels(power.sum(1))
    fine = np.log(power + 1e-10 * max(float(power.max()), 1e-20))
    fine -= scipy.ndimage.uniform_filter1d(fine, 21, axis=1)
    fine /= np.linalg.norm(fine, axis=1, keepdims=True) + 1e-9
    likeness = np.einsum("tb,tb->t", fine[:-_LAG], fine[_LAG:])
    is_loud = level > level.max() - 30
    both = is_loud[:-_LAG] & is_loud[_LAG:]
    return float(likeness[both].mean()) if both.any() else 0.0


def clipped_share(samples: Floats, whole: Floats) -> float:
    """Share of samples in flat tops near the recording's peak; of unclipped speech none."""
    peak = float(np.abs(whole).max(initial=0.0))
    is_high = np.abs(samples) > _NEAR_PEAK * peak
    is_flat = is_high[1:] & (np.abs(np.diff(samples)) < _FLAT_STEP * peak)
    runs = np.convolve(is_flat, np.ones(_FLAT - 1), "valid") >= _FLAT - 1
    return float(runs.mean()) if len(runs) else 0.0


def is_telephone(utterances: list[Utterance]) -> bool:
    """Compare the level of 4.3 to 5.5 kHz with that of 2.3 to 3.3 kHz.

    20 s of anybody gave -20 dB or more; telephones and their codecs give -30 or less.
    """
    spectra = []
    for utterance in utterances:
        wave = analyse(utterance.samples, utterance.rate, NoClock()).wave
        padded = np.pad(wave, (0, max(0, _FFT - len(wave))))
        frames = np.lib.stride_tricks.sliding_window_view(padded, _FFT)[:: _FFT // 2]
        spectra.append(np.abs(np.fft.rfft(frames * np.hanning(_FFT))) ** 2)
    power, hertz = np.concatenate(spectra), np.arange(_FFT // 2 + 1) * RATE / _FFT
    low = power[:, (hertz > 2_300) & (hertz < 3_300)].mean(1)
    high = power[:, (hertz > 4_300) & (hertz < 5_500)].mean(1)
    height = 10 * np.log10((ranked(high, 0.97) + 1e-20) / (ranked(low, 0.97) + 1e-20))
    return bool(height < _LEAST_HIGH_DB)
