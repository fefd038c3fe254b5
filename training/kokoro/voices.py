"""The voices that are mixed of Kokoro's for the training."""

from collections.abc import Mapping
from types import MappingProxyType

from numpy.random import Generator, default_rng

from speech.engines.kokoro.mixture import NOBODY, Mixture

_ALL = ("jf_alpha", "jf_gongitsune", "jf_nezumi", "jf_tebukuro", "jm_kumo")

JUDGES = ("jf_alpha", "jf_gongitsune", "jm_kumo")
"""Who speaks the sentences that characters are judged by; nobody is trained with them."""

_LITTLE = ("jf_gongitsune", "jm_kumo")
"""Of whom mixed strangers have little."""

_OF_PAIRS = ("jf_alpha", "jf_nezumi", "jf_tebukuro")
"""Of whom the strangers are mixed that say the same as Hina."""
_OWN_MANNER = 0.3

_TRACTS: Mapping[str, tuple[float, float]] = MappingProxyType(
    {"low": (0.8, 0.9), "middle": (0.9, 1.05), "high": (1.05, 1.2)}
)


def alone(name: str) -> Mixture:
    """One of Kokoro's voices as it is."""
    return Mixture({name: 1.0}, {name: 1.0})


def stranger(seed: int, tract: str) -> Mixture:
    """Mix a voice by chance, with little of those that judge.

    Args:
        seed: of the chance.
        tract: `low`, `middle` or `high`.
    """
    random = default_rng(seed)
    parts: list[dict[str, float]] = []
    for spread in (0.6, 0.4):
        while True:
            weights = random.normal(1 / len(_ALL), spread, len(_ALL))
            weights = (weights + (1 - weights.sum()) / len(_ALL)).round(2)
            weights[0] += round(1 - weights.sum(), 2)
            by_name = dict(zip(_ALL, weights.tolist(), strict=True))
            if max(by_name[name] for name in _LITTLE) <= 0.4 and abs(weights).max() <= 1:
                break
        parts.append(by_name)
    return Mixture(parts[0], parts[1], round(float(random.uniform(*_TRACTS[tract])), 3))


def pair_of(seed: int) -> tuple[Mixture, Mixture]:
    """Mix a stranger, and give Hina the same rhythm and melody.

    The rhythm is Hina's own in three of ten pairs, and else mixed by chance.
    """
    random = default_rng((11, seed))
    sound, mixed = _by_chance(random), _by_chance(random)
    manner = NOBODY.manner if random.random() < _OWN_MANNER else mixed
    return Mixture(sound, manner, NOBODY.tract), Mixture(NOBODY.sound, manner, NOBODY.tract)


def _by_chance(random: Generator) -> dict[str, float]:
    count = len(_OF_PAIRS)
    weights = random.normal(1 / count, 0.35, count)
    weights = (weights + (1 - weights.sum()) / count).round(3)
    return dict(zip(_OF_PAIRS, weights.tolist(), strict=True))
