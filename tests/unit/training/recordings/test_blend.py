"""A decoder is blended with another one."""

import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from shared.characters.manifest import ENCODERS
from tools.training import blend as blending
from tools.training.blend import blend
from tools.training.content.graphs import SIZE
from tools.training.decoder.export import ExportError, load_network
from tools.training.decoder.network import Network
from tools.training.judges.converter import BundleConverter
from tools.training.recordings.bundle import put_into

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


def test_everything_of_two_decoders_of_a_character_is_blended(
    bundle: Path, tmp_path: Path, man: Floats
) -> None:
    other = tmp_path / "again" / "mei"
    shutil.copytree(bundle, other)
    (other.parent / ENCODERS).symlink_to(CHARACTERS / ENCODERS)
    own, changed = decoder(other), decoder(other)
    with torch.no_grad():
        changed.get_parameter("decoder.3.wide.weight").mul_(1.5)
    changed.cepstrum_mean[0] += 2
    changed.melody_mean += 0.5
    put_into(other, changed)
    blend(bundle, other, 0.25)
    blended = decoder(bundle)
    name = "decoder.3.wide.weight"
    wanted = 1.125 * own.get_parameter(name)
    torch.testing.assert_close(blended.get_parameter(name), wanted, rtol=1e-3, atol=1e-3)
    assert float(blended.cepstrum_mean[0] - own.cepstrum_mean[0]) == pytest.approx(0.5, 1e-3)
    assert blended.melody_mean - own.melody_mean == pytest.approx(0.125, 1e-3)
    converter = BundleConverter.of(bundle)  # which checks the SHA-256 of every graph
    assert np.abs(converter(man[: 3 * RATE])).max() > 0.05


def test_another_character_is_refused(bundle: Path) -> None:
    with pytest.raises(ExportError, match="hina: expected another decoder of mei, found hina"):
        blend(bundle, CHARACTERS / "hina", 0.5)


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
