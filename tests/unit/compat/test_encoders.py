from __future__ import annotations

import io
from typing import TYPE_CHECKING

import av
import numpy as np
import pytest
import soxr

from functions.compat.openai import FORMATS
from functions.compat.service.encoders import Codec, SoundFormat, open_encoder
from shared.speech.results.audio_files import to_pcm16
from shared.speech.results.statement import DIGITAL_SOURCE_TYPE, Marking

if TYPE_CHECKING:
    from numpy.typing import NDArray

RATE = 24_000
MARKING = Marking("mei", "Mei", "Voice: somebody", is_from_text=True)
TONE = (0.4 * np.sin(np.arange(2 * RATE) * (2 * np.pi * 440 / RATE))).astype(np.float32)
DEMUXERS = {Codec.PCM: "s16le", Codec.ULAW: "mulaw", Codec.ALAW: "alaw"}


def encoded(sound: SoundFormat, pieces: int = 7) -> list[bytes]:
    encoder = open_encoder(sound, RATE, MARKING)
    return [*(encoder.encode(each) for each in np.array_split(TONE, pieces)), encoder.finish()]


def decoded(content: bytes, sound: SoundFormat) -> tuple[NDArray[np.float32], int]:
    raw = DEMUXERS.get(sound.codec)
    options = {"sample_rate": str(sound.sample_rate)} if raw else {}
    with av.open(io.BytesIO(content), "r", format=raw, options=options) as file:
        resampler = av.AudioResampler(format="fltp", layout="mono")
        frames = [
            each.to_ndarray().ravel()
            for frame in file.decode(audio=0)
            for each in resampler.resample(frame)
        ]
        return np.concatenate(frames), file.streams.audio[0].rate


@pytest.mark.parametrize("name", FORMATS)
def test_speech_in_every_format_is_decoded_as_the_same_tone(name: str) -> None:
    sound = FORMATS[name]
    pieces = encoded(sound)

    samples, rate = decoded(b"".join(pieces), sound)

    sizes = [len(each) for each in pieces]
    assert all(size > 0.3 * sum(sizes) / 7 for size in sizes[:-1]), "pieces wait for each other"
    assert rate == sound.sample_rate
    assert len(samples) / rate == pytest.approx(2.0, abs=0.1)
    spectrum = np.abs(np.fft.rfft(samples[rate // 2 : rate // 2 + rate]))
    assert np.argmax(spectrum) == 440
    assert np.abs(samples).max() == pytest.approx(0.4, abs=0.03)


@pytest.mark.parametrize("name", ["mp3", "aac", "opus", "flac", "wav"])
def test_a_file_says_at_its_beginning_that_it_is_synthetic(name: str) -> None:
    beginning = encoded(FORMATS[name])[0]
    # Also one in which nothing is said.
    empty = open_encoder(FORMATS[name], RATE, MARKING).finish()

    assert b"Synthetic speech" in beginning[:2000]
    assert DIGITAL_SOURCE_TYPE.encode() in beginning[:4000]
    assert DIGITAL_SOURCE_TYPE.encode() in empty or name not in {"mp3", "wav"}


@pytest.mark.parametrize(("rate", "stated"), [(24_000, 24_000), (44_100, 48_000)])
def test_opus_gets_the_voices_own_rate_if_it_knows_it(rate: int, stated: int) -> None:
    encoder = open_encoder(FORMATS["opus"], rate, MARKING)
    content = encoder.encode(TONE) + encoder.finish()

    # "OpusHead", version, channels, samples to skip, and the rate of what was encoded (RFC 7845).
    begin = content.index(b"OpusHead") + 12
    assert int.from_bytes(content[begin : begin + 4], "little") == stated


def test_pieces_are_resampled_without_seams() -> None:
    sound = SoundFormat(Codec.PCM, 8_000)

    joined = np.frombuffer(b"".join(encoded(sound, pieces=31)), np.int16)

    whole = to_pcm16(soxr.resample(TONE, RATE, 8_000, quality="HQ"))
    assert len(joined) == len(whole)
    assert np.abs(joined.astype(int) - whole).max() <= 1
