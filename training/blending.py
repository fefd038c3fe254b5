"""Gives a character the mean of the weights of its decoder and of another one.

    python -m training.blending ID OTHER [--share S]

OTHER is a bundle, such as `characters/hina`, or the same character as another training made it. All
decoders began with the average voice, so that what lies between two of them speaks, too. Of another
character's decoder only what is said is taken: vector, envelopes' mean and spread, and melody stay
the character's own, and with them its timbre. Of the same character's, all of them are blended.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import torch

from shared.characters.manifest import ManifestError, read_manifest
from training.adaptation import REPOSITORY, put_into
from training.content.graphs import HARMONIC, SIZE
from training.content.voices import vector_of
from training.decoder.export import ExportError
from training.decoder.graph_weights import load_network

_SCALES = ("cepstrum_mean", "cepstrum_spread")


def blend(bundle: Path, other: Path, share: float) -> None:
    """Blend a character's decoder with another one.

    M. Wortsman et al., "Model soups: averaging weights of multiple fine-tuned models improves
    accuracy without increasing inference time", ICML 2022.

    Args:
        bundle: of the character; its graphs get new weights.
        other: a bundle whose decoder began with the average voice, too.
        share: of the other's weights, 0 to 1.

    Raises:
        ExportError: one of the bundles has another kind of decoder.
        ManifestError: one of the folders holds no bundle.
    """
    who, whose = (read_manifest(one).id for one in (bundle, other))
    own, theirs = (load_network(one / f"{HARMONIC}.onnx", size=SIZE) for one in (bundle, other))
    kept = () if who == whose else _SCALES
    with torch.no_grad():
        for (name, one), another in zip(
            own.state_dict().items(), theirs.state_dict().values(), strict=True
        ):
            if name not in kept:
                one.lerp_(another, share)
        # The exported bias of the first layer has the voice's vector in it.
        own.join.bias += share * torch.from_numpy(vector_of(who) - vector_of(whose))
    if not kept:
        own.melody_mean += share * (theirs.melody_mean - own.melody_mean)
        own.melody_spread += share * (theirs.melody_spread - own.melody_spread)
    put_into(bundle, own)


def main(arguments: Sequence[str]) -> int:
    """Do what is asked for; exit with 0 if it was done, otherwise 1."""
    parser = argparse.ArgumentParser(prog="python -m training.blending", description=__doc__)
    parser.add_argument("character", metavar="ID")
    parser.add_argument("other", type=Path, metavar="OTHER", help="a bundle")
    parser.add_argument("--share", type=float, default=0.5, help="of the other's (default: 0.5)")
    options = parser.parse_args(arguments)
    if not 0 <= options.share <= 1:
        parser.error(f"--share: expected 0 to 1, found {options.share:g}")
    try:
        blend(REPOSITORY / "characters" / options.character, options.other, options.share)
    except (ExportError, ManifestError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
