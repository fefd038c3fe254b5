"""Gives a bundle the long-term spectrum that its conversions lack."""

from collections.abc import Sequence
from pathlib import Path

from speech.signal.samples import resample
from training.decoder.network import OUTPUT_RATE, Network
from training.decoder.spectrum import give_back, lacking
from training.quality.converter import Converter
from training.recordings.choosing.screening import Utterance
from training.recordings.results.bundle import put_into

_MEASURED_WITH, _TIMES = 25, 2


def give_spectrum(bundle: Path, network: Network, spoken: Sequence[Utterance]) -> None:
    """Measure what conversions with a bundle lack in the long term, and give it back.

    Args:
        bundle: has the weights of the network.
        network: is changed in place.
        spoken: by the voice itself.
    """
    some = spoken[:: max(1, len(spoken) // _MEASURED_WITH)]
    waves = [resample(one.samples, one.rate, OUTPUT_RATE) for one in some]
    for _ in range(_TIMES):
        converter = Converter.of(bundle)
        said = [converter.raw(wave, OUTPUT_RATE) for wave in waves]
        give_back(network, lacking(waves, said, min(one.rate for one in some)))
        put_into(bundle, network)
