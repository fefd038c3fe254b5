"""Give a character the mean of the weights of two decoders.

    python -m tools.training.blend ID OTHER [--share S]

OTHER is a bundle of the same character, as another training made it. Both decoders began with the
average voice, so that what lies between them speaks, too.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import torch

from shared.characters.manifest import ManifestError, read_manifest
from tools.training.adaptation import REPOSITORY
from tools.training.content.graphs import HARMONIC, SIZE
from tools.training.decoder.export import ExportError, load_network
from tools.training.recordings.bundle import put_into


def blend(bundle: Path, other: Path, share: float) -> None:
    """Blend a character's decoder with a share, 0 to 1, of another one of the same character.

    M. Wortsman et al., "Model soups: averaging weights of multiple fine-tuned models improves
    accuracy without increasing inference time", ICML 2022.

    Raises:
        ExportError: a bundle is another character's, or has another kind of decoder.
        ManifestError: one of the folders holds no bundle.
    """
    who, whose = (read_manifest(one).id for one in (bundle, other))
    if who != whose:
        raise ExportError(f"{other}: expected another decoder of {who}, found {whose}.")
    own, theirs = (load_network(one / f"{HARMONIC}.onnx", size=SIZE) for one in (bundle, other))
    with torch.no_grad():
        for one, another in zip(
            own.state_dict().values(), theirs.state_dict().values(), strict=True
        ):
            one.lerp_(another, share)
    own.melody_mean += share * (theirs.melody_mean - own.melody_mean)
    own.melody_spread += share * (theirs.melody_spread - own.melody_spread)
    put_into(bundle, own)


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.training.blend", description=__doc__)
    add = parser.add_argument
    add("character", metavar="ID")
    add("other", type=Path, metavar="OTHER", help="a bundle")
    add("--share", type=float, default=0.5, help="of the other's (default: 0.5)")
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
