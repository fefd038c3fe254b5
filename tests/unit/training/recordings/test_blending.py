"""A decoder is blended with another one."""

import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from shared.characters.manifest import ENCODERS
from training import blending
from training.adaptation import put_into
from training.blending import blend
from training.content.graphs import SIZE
from training.content.voices import vector_of
from training.decoder.export import ExportError
from training.decoder.graph_weights import load_network
from training.decoder.network import Network
from training.quality.converter import Converter
from training.quality.similarity import SpeakerEncoder, SpeakerLikeness

ROOT = Path(__file__).parents[4]
CHARACTERS = ROOT / "characters"
RATE = 16_000
Floats = NDArray[np.float32]


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    shutil.copytree(CHARACTERS / "mei", tmp_path / "mei")
    (tmp_path / ENCODERS).symlink_to(CHARACTERS / ENCODERS)
    return tmp_path / "mei"


def decoder(folder: Path) -> Network:
    return load_network(folder / "harmonic.onnx", size=SIZE)


def test_a_character_that_is_blended_with_another_one_sounds_like_itself(
    bundle: Path, man: Floats
) -> None:
    heard = man[: 6 * RATE]
    mei, hina = (Converter.of(CHARACTERS / name)(heard) for name in ("mei", "hina"))
    blend(bundle, CHARACTERS / "hina", 0.5)
    converter = Converter.of(bundle)  # which checks the SHA-256 of every graph
    encoder = SpeakerEncoder()
    blended = converter(heard)
    likeness = SpeakerLikeness([mei], encoder).of(blended)
    assert likeness > 0.8
    assert likeness > SpeakerLikeness([hina], encoder).of(blended) + 0.02
    assert np.abs(converter.heard(heard)).max() > 0.05


def test_of_another_character_only_what_is_said_is_taken(bundle: Path) -> None:
    own, theirs = decoder(CHARACTERS / "mei"), decoder(CHARACTERS / "hina")
    blend(bundle, CHARACTERS / "hina", 0.25)
    blended = decoder(bundle)
    for name in ("join.weight", "decoder.3.wide.weight", "exit.bias"):
        one, another = own.get_parameter(name), theirs.get_parameter(name)
        wanted = 0.75 * one + 0.25 * another
        torch.testing.assert_close(blended.get_parameter(name), wanted, rtol=1e-3, atol=1e-3)
    vectors = torch.from_numpy(vector_of("mei") - vector_of("hina"))
    bias = 0.75 * own.join.bias + 0.25 * (theirs.join.bias + vectors)
    torch.testing.assert_close(blended.join.bias, bias, rtol=1e-3, atol=1e-3)
    assert torch.equal(blended.cepstrum_mean, own.cepstrum_mean)
    assert torch.equal(blended.cepstrum_spread, own.cepstrum_spread)
    assert blended.melody_mean == own.melody_mean


def test_of_the_same_character_everything_is_blended(bundle: Path, tmp_path: Path) -> None:
    other = tmp_path / "again" / "mei"
    shutil.copytree(bundle, other)
    (other.parent / ENCODERS).symlink_to(CHARACTERS / ENCODERS)
    changed = decoder(other)
    changed.cepstrum_mean[0] += 2
    changed.melody_mean += 0.5
    put_into(other, changed)
    own = decoder(bundle)
    blend(bundle, other, 0.5)
    assert float(decoder(bundle).cepstrum_mean[0] - own.cepstrum_mean[0]) == pytest.approx(1, 1e-3)
    assert decoder(bundle).melody_mean - own.melody_mean == pytest.approx(0.25, 1e-3)


def test_a_bundle_of_another_kind_is_refused(bundle: Path) -> None:
    before = (bundle / "harmonic.onnx").read_bytes()
    with pytest.raises(ExportError, match=r"harmonic\.onnx: expected the weights of this network"):
        blend(bundle, ROOT / "tests" / "data" / "bundles" / "mei", 0.5)
    assert (bundle / "harmonic.onnx").read_bytes() == before


def test_a_folder_without_a_bundle_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert blending.main(["mei", str(tmp_path / "none")]) == 1
    assert "none" in capsys.readouterr().err
