"""The error-correcting code of the payload: the extended BCH code (64, 16) with distance 24."""

from __future__ import annotations

from functools import cache
from typing import Final

import numpy as np
import numpy.typing as npt

PAYLOAD_BITS: Final = 16
LENGTH: Final = 64
"""Bits of a code word."""

# Of the BCH code (63, 16), which corrects 11 errors; see S. Lin and D. J. Costello, "Error Control
# Coding", table of generator polynomials.
_GENERATOR: Final = 0o6331141367235453

NEGATIVE: Final = 0o120755
"""Payloads that differ by these bits have words that differ in every place."""


@cache
def code_words() -> npt.NDArray[np.int8]:
    """Return the code word of every payload: int8 [65536, 64], each -1 or 1.

    Two of them differ in at least 24 places. A word is the product of the payload's and the
    generator's polynomials, and a bit that makes its parity even.
    """
    payloads = np.arange(1 << PAYLOAD_BITS, dtype=np.uint64)
    products = np.zeros_like(payloads)
    for place in range(PAYLOAD_BITS):
        is_set = payloads >> np.uint64(place) & np.uint64(1)
        products ^= is_set * np.uint64(_GENERATOR << place)
    places = np.arange(LENGTH - 1, dtype=np.uint64)
    bits = (products[:, None] >> places & np.uint64(1)).astype(np.int8)
    parity = bits.sum(axis=1, keepdims=True, dtype=np.int8) & 1
    return np.concatenate([bits, parity], axis=1) * np.int8(2) - np.int8(1)
