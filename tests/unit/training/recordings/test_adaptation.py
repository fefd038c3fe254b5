"""A character that comes with the repository is taught its voice anew, or blended with another."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import soxr
import torch

from tests.unit.training.conftest import CHARACTERS, RATE, Floats, copy_bundle, write_speech
from tests.unit.training.decoder.test_spectrum import spoken_more
from tools.training import adaptation
from tools.training.adaptation import AdaptationFolders, adapt, blend
from tools.training.content.graphs import SIZE
from tools.training.decoder.export import ExportError, load_network
from tools.training.decoder.network import OUTPUT_RATE, Network
from tools.training.decoder.spectrum import lacking
from tools.training.judges.converter import BundleConverter
from tools.training.judges.measures import SpeakerEncoder, voice_of
from tools.training.recordings.bundle import give_spectrum, put_into
from tools.training.recordings.selection import readers_in
from tools.training.recordings.usable_speech import Utterance
from tools.training.recordings.work_folder import RecordingsError


@pytest.fixture
def places(tmp_path: Path, man: Floats) -> AdaptationFolders:
    for number in range(2):
        part = man[number * 4 * RATE : (number + 1) * 4 * RATE]
        write_speech(tmp_path / "others" / str(number) / "said.wav", part)
    # Ned's decoder without his head, as he is heard while somebody speaks, as high as he speaks.
    bundle = copy_bundle("mei", tmp_path / "characters")
    manifest, his = (
        json.loads((folder / "character.json").read_text("utf-8"))
        for folder in (bundle, CHARACTERS / "ned")
    )
    (bundle / "character.json").write_text(json.dumps(manifest | {"pitch": his["pitch"]}), "utf-8")
    put_into(bundle, load_network(CHARACTERS / "ned" / "harmonic_stream.onnx", size=SIZE))
    return AdaptationFolders(bundle, tmp_path / "work", tmp_path / "others")


def test_a_character_learns_from_recordings(
    places: AdaptationFolders, woman: Floats, man: Floats, tmp_path: Path
) -> None:
    for number in range(3):
        part = woman[number * 4 * RATE : (number + 1) * 4 * RATE]
        write_speech(tmp_path / "recordings" / f"{number}.wav", part)
    write_speech(tmp_path / "readers" / "1-2-3.wav", man[16 * RATE : 20 * RATE])
    encoder = SpeakerEncoder()
    her = voice_of([woman[: 8 * RATE]], encoder)
    heard = man[20 * RATE : 24 * RATE]
    before = encoder.embed(BundleConverter.of(places.bundle)(heard)) @ her
    named = json.loads((places.bundle / "character.json").read_text("utf-8"))["graphs"]

    adapt(replace(places, readers=tmp_path / "readers"), tmp_path / "recordings", steps=30)

    converter = BundleConverter.of(places.bundle)  # which checks the SHA-256 of every graph
    assert encoder.embed(converter(heard)) @ her > before + 0.1
    assert encoder.embed(converter.heard(heard)) @ her > before
    now = json.loads((places.bundle / "character.json").read_text("utf-8"))["graphs"]
    assert now["content"] == named["content"]
    assert now["harmonic"]["sha256"] != named["harmonic"]["sha256"]


def test_a_voice_that_learns_like_owners_gets_less_of_the_variance(
    places: AdaptationFolders, woman: Floats, tmp_path: Path
) -> None:
    write_speech(tmp_path / "recordings" / "0.wav", woman[: 4 * RATE])
    spreads = []
    for is_like_owners in (True, False):
        adapt(places, tmp_path / "recordings", steps=1, is_like_owners=is_like_owners)
        network = decoder_of(places.bundle)
        spreads.append(float(network.cepstrum_spread[1:].mean()))
    assert spreads[0] < 0.95 * spreads[1]


def test_conversions_get_the_long_term_spectrum_of_the_recordings(
    places: AdaptationFolders, woman: Floats
) -> None:
    wave = np.asarray(soxr.resample(woman[: 8 * RATE], RATE, OUTPUT_RATE), np.float32)

    def lacks() -> float:
        conversion = BundleConverter.of(places.bundle).raw(wave, OUTPUT_RATE)
        return float(np.abs(lacking([wave], [conversion], RATE)).mean())

    network = decoder_of(places.bundle)
    before = lacks(), spoken_more(network, 10_000)
    spoken = Utterance("she.wav", 0.0, woman[: 8 * RATE], RATE)
    give_spectrum(places.bundle, network, [spoken])
    assert lacks() < 0.6 * before[0]
    # Above 8 kHz the recording says nothing, and takes nothing away.
    assert spoken_more(network, 10_000) > before[1] - 6


def test_more_readers_are_learnt_but_for_those_who_judge(man: Floats, tmp_path: Path) -> None:
    for name in ("103-1240-0000.flac", "367-130732-0005.flac", "84/84-121123-0000.wav"):
        write_speech(tmp_path / name, man[: 2 * RATE])
    assert set(readers_in(tmp_path)) == {"en_103", "en_84"}  # 367 is one of the strangers


def test_a_folder_without_recordings_is_named(places: AdaptationFolders, tmp_path: Path) -> None:
    with pytest.raises(RecordingsError, match="expected a folder with recordings, found none"):
        adapt(places, tmp_path / "none", steps=1)


def decoder_of(folder: Path) -> Network:
    return load_network(folder / "harmonic.onnx", size=SIZE)


def test_everything_of_two_decoders_of_a_character_is_blended(tmp_path: Path, man: Floats) -> None:
    bundle, other = (copy_bundle("mei", tmp_path / str(number)) for number in range(2))
    own, changed = decoder_of(other), decoder_of(other)
    name = "decoder.3.wide.weight"
    with torch.no_grad():
        changed.get_parameter(name).mul_(1.5)
    changed.cepstrum_mean[0] += 2
    changed.melody_mean += 0.5
    put_into(other, changed)

    blend(bundle, other, 0.25)

    blended = decoder_of(bundle)
    wanted = 1.125 * own.get_parameter(name)
    torch.testing.assert_close(blended.get_parameter(name), wanted, rtol=1e-3, atol=1e-3)
    assert float(blended.cepstrum_mean[0] - own.cepstrum_mean[0]) == pytest.approx(0.5, 1e-3)
    assert blended.melody_mean - own.melody_mean == pytest.approx(0.125, 1e-3)
    converter = BundleConverter.of(bundle)  # which checks the SHA-256 of every graph
    assert np.abs(converter(man[: 2 * RATE])).max() > 0.05


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (CHARACTERS / "hina", "hina: expected another decoder of mei, found hina"),
        (
            CHARACTERS.parent / "tests" / "data" / "bundles" / "mei",
            r"harmonic\.onnx: expected the weights of this network",
        ),
    ],
)
def test_another_character_and_another_kind_of_decoder_are_refused(
    tmp_path: Path, other: Path, message: str
) -> None:
    bundle = copy_bundle("mei", tmp_path)
    with pytest.raises(ExportError, match=message):
        blend(bundle, other, 0.5)
    assert (bundle / "harmonic.onnx").read_bytes() == (
        CHARACTERS / "mei" / "harmonic.onnx"
    ).read_bytes()


def test_a_folder_without_a_bundle_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert adaptation.main(["mei", "--blend", str(tmp_path / "none")]) == 1
    assert "none" in capsys.readouterr().err
