"""A character that comes with the repository is taught its voice anew."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import soundfile
import soxr
from numpy.typing import NDArray

from shared.characters.manifest import ENCODERS
from tests.unit.training.decoder.test_spectrum import spoken_more
from tools.training.adaptation import AdaptationFolders, adapt
from tools.training.content.graphs import SIZE
from tools.training.decoder.export import load_network
from tools.training.decoder.network import OUTPUT_RATE
from tools.training.decoder.spectrum import lacking
from tools.training.judges.converter import BundleConverter
from tools.training.judges.measures import SpeakerEncoder, SpeakerLikeness
from tools.training.recordings.bundle import give_spectrum
from tools.training.recordings.selection import readers_in
from tools.training.recordings.usable_speech import Utterance
from tools.training.recordings.work_folder import RecordingsError

CHARACTERS = Path(__file__).parents[4] / "characters"
RATE = 16_000
Floats = NDArray[np.float32]


@pytest.fixture
def places(tmp_path: Path, man: Floats) -> AdaptationFolders:
    shutil.copytree(CHARACTERS / "ned", tmp_path / "characters" / "ned")
    (tmp_path / "characters" / ENCODERS).symlink_to(CHARACTERS / ENCODERS)
    for number in range(2):
        folder = tmp_path / "others" / str(number)
        folder.mkdir(parents=True)
        part = man[number * 8 * RATE : (number + 1) * 8 * RATE]
        soundfile.write(folder / "said.wav", part, RATE)
    return AdaptationFolders(
        tmp_path / "characters" / "ned", tmp_path / "work", tmp_path / "others"
    )


def test_a_character_learns_from_recordings(
    places: AdaptationFolders, woman: Floats, man: Floats, tmp_path: Path
) -> None:
    recordings = tmp_path / "recordings"
    recordings.mkdir()
    for number in range(5):
        part = woman[number * 4 * RATE : (number + 1) * 4 * RATE]
        soundfile.write(recordings / f"{number}.wav", part, RATE)
    like = SpeakerLikeness([woman[: 10 * RATE]], SpeakerEncoder())
    heard = man[20 * RATE : 25 * RATE]
    before = like.of(BundleConverter.of(places.bundle)(heard))
    named = json.loads((places.bundle / "character.json").read_text("utf-8"))["graphs"]
    readers = tmp_path / "readers"
    readers.mkdir()
    soundfile.write(readers / "1-2-3.wav", man[16 * RATE : 20 * RATE], RATE)
    adapt(replace(places, readers=readers), recordings, steps=60)
    converter = BundleConverter.of(places.bundle)  # which checks the SHA-256 of every graph
    assert like.of(converter(heard)) > before + 0.1
    assert like.of(converter.heard(heard)) > before
    now = json.loads((places.bundle / "character.json").read_text("utf-8"))["graphs"]
    assert now["content"] == named["content"]
    assert now["harmonic"]["sha256"] != named["harmonic"]["sha256"]


def test_a_voice_that_learns_like_owners_gets_less_of_the_variance(
    places: AdaptationFolders, woman: Floats, tmp_path: Path
) -> None:
    recordings = tmp_path / "recordings"
    recordings.mkdir()
    soundfile.write(recordings / "0.wav", woman[: 8 * RATE], RATE)
    spreads = []
    for is_like_owners in (True, False):
        adapt(places, recordings, steps=1, is_like_owners=is_like_owners)
        network = load_network(places.bundle / "harmonic.onnx", size=SIZE)
        spreads.append(float(network.cepstrum_spread[1:].mean()))
    assert spreads[0] < 0.95 * spreads[1]


def test_conversions_get_the_long_term_spectrum_of_the_recordings(
    places: AdaptationFolders, woman: Floats
) -> None:
    wave = np.asarray(soxr.resample(woman[: 8 * RATE], RATE, OUTPUT_RATE), np.float32)

    def lacks() -> float:
        conversion = BundleConverter.of(places.bundle).raw(wave, OUTPUT_RATE)
        return float(np.abs(lacking([wave], [conversion], RATE)).mean())

    network = load_network(places.bundle / "harmonic.onnx", size=SIZE)
    before = lacks(), spoken_more(network, 10_000)
    spoken = Utterance("she.wav", 0.0, woman[: 8 * RATE], RATE)
    give_spectrum(places.bundle, network, [spoken])
    assert lacks() < 0.6 * before[0]
    # Above 8 kHz the recording says nothing, and takes nothing away.
    assert spoken_more(network, 10_000) > before[1] - 6


def test_more_readers_are_learnt_but_for_those_who_judge(man: Floats, tmp_path: Path) -> None:
    for name in ("103-1240-0000.flac", "367-130732-0005.flac", "84/84-121123-0000.wav"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        soundfile.write(tmp_path / name, man[: 6 * RATE], RATE)
    assert set(readers_in(tmp_path)) == {"en_103", "en_84"}  # 367 is one of the strangers


def test_a_folder_without_recordings_is_named(places: AdaptationFolders, tmp_path: Path) -> None:
    with pytest.raises(RecordingsError, match="expected a folder with recordings, found none"):
        adapt(places, tmp_path / "none", steps=1)
