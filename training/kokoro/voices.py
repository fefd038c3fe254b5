"""The voices that are mixed of Kokoro's for the training."""

from collections.abc import Sequence

from numpy.random import Generator, default_rng

from speech.engines.kokoro.mixture import NOBODY, Mixture

JUDGES = ("jf_alpha", "jf_gongitsune", "jm_kumo")
"""Who speaks the sentences that characters are judged by; nobody is trained with them."""

_KONIWA = ("jf_gongitsune", "jf_nezumi", "jf_tebukuro", "jm_kumo")
"""Voices made of recordings that Koniwa publishes under CC BY."""

_LITTLE = ("jf_gongitsune", "jm_kumo")
"""Of whom mixed strangers have little."""

_OF_PAIRS = ("jf_alpha", "jf_nezumi", "jf_tebukuro")
"""Of whom the strangers are mixed that say the same as Hina."""
_OWN_MANNER = 0.3

_TRACTS = (0.8, 1.2)


def alone(name: str) -> Mixture:
    """One of Kokoro's voices as it is."""
    return Mixture({name: 1.0}, {name: 1.0})


def stranger(seed: int) -> Mixture:
    """Mix a voice by chance, with little of those that judge, and of recordings under CC BY.

    Args:
        seed: of the chance.
    """
    random = default_rng((7, seed))
    sound, manner = (_mixed(random, _KONIWA, spread) for spread in (0.6, 0.4))
    while max(abs(sound[name]) for name in _KONIWA) > 1 or max(sound[n] for n in _LITTLE) > 0.4:
        sound = _mixed(random, _KONIWA, 0.6)
    return Mixture(sound, manner, round(float(random.uniform(*_TRACTS)), 3))


def pair_of(seed: int) -> tuple[Mixture, Mixture]:
    """Mix a stranger, and give Hina the same rhythm and melody.

    The rhythm is Hina's own in three of ten pairs, and else mixed by chance.
    """
    random = default_rng((11, seed))
    sound, mixed = (_mixed(random, _OF_PAIRS, 0.35) for _ in range(2))
    manner = NOBODY.manner if random.random() < _OWN_MANNER else mixed
    return Mixture(sound, manner, NOBODY.tract), Mixture(NOBODY.sound, manner, NOBODY.tract)


def _mixed(random: Generator, names: Sequence[str], spread: float) -> dict[str, float]:
    weights = random.normal(1 / len(names), spread, len(names))
    weights = (weights + (1 - weights.sum()) / len(names)).round(3)
    return dict(zip(names, weights.tolist(), strict=True))
