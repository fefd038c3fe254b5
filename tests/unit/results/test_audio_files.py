from __future__ import annotations

import io
import struct
import subprocess
import sys
import wave
from pathlib import Path

import av
import numpy as np
import pytest

from shared.speech.decoding.demuxing import Demuxer
from shared.speech.decoding.recording import as_float
from shared.speech.results.audio_files import encode_result, to_pcm16, write_wav
from shared.speech.results.statement import DIGITAL_SOURCE_TYPE, Marking
from shared.voices.media import content_type_matches, sniff
from shared.voices.voice import OutputFormat
from tests.integration.audio.recordings import voice_like

ROOT = Path(__file__).resolve().parents[3]
MARKING = Marking("mei", 'Mei <&> "声"', "Voice: somebody, CC BY 3.0.")


def decoded(data: bytes) -> tuple[np.ndarray, int]:
    container = sniff(data)
    assert container is not None
    demuxer = Demuxer(data, container)
    body = b"".join(demuxer.chunks(60, 1 << 26))
    assert demuxer.format is not None
    dtype = {"s16": np.int16, "flt": np.float32}[demuxer.format.sample_type]
    return as_float(np.frombuffer(body, dtype)), demuxer.format.sample_rate


@pytest.mark.parametrize("output_format", OutputFormat)
@pytest.mark.parametrize("rate", [16_000, 40_000, 48_000])
def test_every_format_plays_the_same_sound_for_the_same_time(
    output_format: OutputFormat, rate: int
) -> None:
    samples = voice_like(2.345, rate)
    encoded = encode_result(samples, rate, output_format, MARKING)
    heard, heard_rate = decoded(encoded.data)
    assert encoded.seconds == len(samples) / rate
    # FFmpeg plays the last block of AAC to its end; players that heed the edit list do not.
    slack = 1024 / heard_rate if output_format is OutputFormat.M4A else 1 / heard_rate
    assert 0 <= len(heard) / heard_rate - encoded.seconds + 1e-9 <= slack + 1e-9
    times = np.arange(0.1, 2.2, 1 / 8_000)
    said = np.interp(times, np.arange(len(samples)) / rate, samples)
    heard = np.interp(times, np.arange(len(heard)) / heard_rate, heard)
    assert np.corrcoef(said, heard)[0, 1] > 0.99
    # LAME turns everything down by a twentieth.
    assert np.std(heard) == pytest.approx(np.std(said), rel=0.06)


def test_the_m4a_file_says_how_long_it_plays_to_the_millisecond_and_its_index_comes_first() -> None:
    data = encode_result(voice_like(2.345, 24_000), 24_000, OutputFormat.M4A, MARKING).data
    at = data.index(b"elst")
    assert struct.unpack_from(">III", data, at + 8) == (1, 2345, 1024)
    assert data.index(b"moov") < data.index(b"mdat")


@pytest.mark.parametrize("output_format", OutputFormat)
def test_every_result_says_that_it_is_synthetic_speech_with_the_same_bytes_each_time(
    output_format: OutputFormat,
) -> None:
    samples = voice_like(1, 24_000)
    encoded = encode_result(samples, 24_000, output_format, MARKING)
    data = encoded.data
    assert encode_result(samples, 24_000, output_format, MARKING).data == data
    container_type = sniff(data)
    assert container_type is not None
    assert content_type_matches(container_type, encoded.content_type)
    assert encoded.extension == f".{output_format}"
    with av.open(io.BytesIO(data), "r") as container:
        tags = container.metadata | container.streams.audio[0].metadata
    assert tags["title"] == 'Synthetic speech: Mei <&> "声"'
    assert tags["artist"] == 'Mei <&> "声"'
    assert tags["comment"] == (
        'Synthetic speech, converted to the voice of Mei <&> "声". Voice: somebody, CC BY 3.0.'
    )
    assert DIGITAL_SOURCE_TYPE.encode() in data
    assert (MARKING.xmp() in data) == (output_format is not OutputFormat.OGG)
    if output_format in {OutputFormat.MP3, OutputFormat.OGG}:
        assert tags["digital_source_type"] == DIGITAL_SOURCE_TYPE
        assert tags["character"] == "mei"


def test_a_wav_file_is_read_by_others() -> None:
    samples = voice_like(1, 24_000)
    with wave.open(io.BytesIO(write_wav(samples, 24_000, MARKING))) as file:
        assert file.getframerate() == 24_000
        assert file.getnchannels() == 1
        assert file.getsampwidth() == 2
        frames = np.frombuffer(file.readframes(file.getnframes()), "<i2")
    np.testing.assert_array_equal(frames, to_pcm16(samples))


def test_samples_over_full_scale_are_clipped_and_never_wrapped() -> None:
    loud = np.asarray([0.0, 1.0, -1.0, 1.5, -7.0, 0.5], dtype=np.float32)
    np.testing.assert_array_equal(to_pcm16(loud), [0, 32767, -32767, 32767, -32767, 16384])


def test_wav_needs_none_of_ffmpegs_libraries() -> None:
    script = (
        "import sys, numpy\n"
        "from shared.speech.results.audio_files import encode_result\n"
        "from shared.speech.results.statement import Marking\n"
        "from shared.voices.voice import OutputFormat\n"
        "samples = numpy.zeros(100, numpy.float32)\n"
        "encode_result(samples, 24000, OutputFormat.WAV, Marking('a', 'A'))\n"
        "print('av' in sys.modules)\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert ended.stdout == "False\n"


def test_the_marking_is_well_formed_xml_whatever_the_names_are() -> None:
    text = MARKING.xmp().decode()
    assert 'Mei &lt;&amp;&gt; "声"' in text
    assert "Mei <&>" not in text
    assert Marking("a", "A").comment == "Synthetic speech, converted to the voice of A."
    spoken = Marking("a", "A", is_from_text=True)
    assert spoken.comment == "Synthetic speech, spoken from text in the voice of A."
