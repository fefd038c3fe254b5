"""A decoder with a neural head learns the sound of recordings."""

from pathlib import Path

import numpy as np
import pytest
import torch

from shared.characters.manifest import read_manifest
from tests.unit.training.conftest import CHARACTERS, RATE, Floats, copy_bundle, write_speech
from tools.training.content.encoder import EncoderNetwork, Projection, WhisperEncoder
from tools.training.content.graphs import export_speaking
from tools.training.content.shared_encoder import SharedEncoder
from tools.training.decoder.head import read_head, save_head
from tools.training.judges.converter import BundleConverter
from tools.training.neural_voice import SoundObjective, learn, main, pairs_in, prepare
from tools.training.recordings.bundle import give_head
from tools.training.recordings.lessons import Pair
from tools.training.recordings.usable_speech import Utterance
from tools.training.recordings.work_folder import RecordingsError


def said(wave: Floats) -> Utterance:
    return Utterance("said.wav", 0.0, wave, RATE)


@pytest.mark.filterwarnings("ignore")  # the exporter warns of its own deprecations
def test_a_character_learns_the_sound_of_recordings_and_is_heard_live_as_before(
    woman: Floats, man: Floats, tmp_path: Path
) -> None:
    torch.manual_seed(1)
    bundle = copy_bundle("mei", tmp_path)
    live = BundleConverter.of(bundle).heard(man[: 2 * RATE])
    own, alike = woman[: 4 * RATE], [Pair(man[: 3 * RATE], said(woman[: 3 * RATE]))]
    lessons, voices = prepare(
        SharedEncoder.of(bundle), [said(own)], alike, {"en_1": [said(man[: 3 * RATE])]}
    )
    encoder = EncoderNetwork(
        WhisperEncoder(), Projection(np.zeros(512, "f4"), np.eye(512, 128, dtype="f4"))
    )

    told = learn(voices, lessons, SoundObjective(encoder), steps=6, sizes=(2, 1))
    export_speaking(*voices.alone(), tmp_path / "harmonic.onnx")
    give_head(bundle, (tmp_path / "harmonic.onnx").read_bytes())

    spectra = [losses["spectra"] for losses in told]
    assert np.mean(spectra[-2:]) < 0.95 * np.mean(spectra[:2])
    assert {"voicing", "words"} < told[0].keys()
    assert read_manifest(bundle).graphs["harmonic"].bytes > 6_000_000
    converter = BundleConverter.of(bundle)  # which checks the SHA-256 of every graph
    assert np.abs(converter(man[: 2 * RATE])).max() > 0.05
    np.testing.assert_allclose(converter.heard(man[: 2 * RATE]), live, atol=1e-3)


def test_a_head_learns_alone_behind_the_average_voice_and_is_kept(
    woman: Floats, man: Floats, tmp_path: Path
) -> None:
    torch.manual_seed(1)
    readers = {"en_26": [said(man[: 4 * RATE])], "en_198": [said(woman[: 4 * RATE])]}
    lessons, voices = prepare(
        SharedEncoder.of(CHARACTERS / "mei"), [said(woman[4 * RATE : 8 * RATE])], [], readers,
        voice="hina", shares=(0.5, 0, 0.5),
    )  # fmt: skip
    decoder = {name: value.clone() for name, value in voices.voices.state_dict().items()}

    told = learn(voices, lessons, SoundObjective(None), 8, (2, 0), is_head_alone=True)
    head = voices.head_of(slice(1, None))
    save_head(head, tmp_path / "head.npz")

    spectra = [losses["spectra"] for losses in told]
    assert np.mean(spectra[-2:]) < 0.95 * np.mean(spectra[:2])
    for name, value in voices.voices.state_dict().items():
        assert torch.equal(value, decoder[name]), name
    kept = read_head(tmp_path / "head.npz").state_dict()
    for name, value in head.state_dict().items():
        torch.testing.assert_close(kept[name], value, atol=2e-3, rtol=2e-3)


def test_a_training_needs_no_pairs_and_refuses_recordings_that_are_too_short(
    man: Floats, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_speech(tmp_path / "1-2-3.wav", man[: RATE // 2])
    assert main(["mei", str(tmp_path), "--readers", str(tmp_path)]) == 1
    assert "expected recordings of more than a second" in capsys.readouterr().err


def test_a_pair_without_two_channels_is_refused(man: Floats, tmp_path: Path) -> None:
    write_speech(tmp_path / "0.wav", man[: 4 * RATE])
    with pytest.raises(RecordingsError, match=r"0\.wav: expected two channels, found 1"):
        pairs_in(tmp_path)
