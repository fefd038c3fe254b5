"""The cheapest path through a trellis with a logarithmic number of array operations."""

import numpy as np
from numpy.typing import NDArray

Costs = NDArray[np.float32]
States = NDArray[np.intp]

_FEW = 16  # products; up to this many, all sums are computed at once


def cheapest_path(start: Costs, steps: Costs) -> States:
    """Find the state sequence of least total cost (Viterbi, 1967), exactly.

    The cost matrices of two steps are multiplied in the (min, +) semiring. This product is
    associative, so the steps are multiplied as a balanced tree (as in Hillis and Steele's "Data
    parallel algorithms", 1986) and not one after the other: a few operations on whole arrays
    replace a Python loop over the steps. On the way back only the states along the path are needed,
    so that the products do not store where their minima were.

    Args:
        start: cost of beginning in each state, float32 [S].
        steps: cost of going from state i to state j at each step, float32 [S, S, T-1]. The steps
            are the last axis, because the operations run along them.

    Returns:
        The state at each of the T instants, [T].
    """
    levels = [steps]
    while levels[-1].shape[2] > 1:
        levels.append(_multiply_pairs(levels[-1]))
    if steps.shape[2] == 0:
        return np.array([np.argmin(start)])
    whole = start[:, None] + levels[-1][:, :, 0]
    path = np.array(np.unravel_index(np.argmin(whole), whole.shape))
    for level in reversed(levels[:-1]):
        path = _fill_in(path, level)
    return path


def _multiply_pairs(level: Costs) -> Costs:
    """Multiply each step by the next one; with an odd number, the last one is copied."""
    states, _, count = level.shape
    pairs = count // 2
    first, second = (np.ascontiguousarray(level[:, :, side : 2 * pairs : 2]) for side in (0, 1))
    product = np.empty((states, states, count - pairs), np.float32)
    product[:, :, pairs:] = level[:, :, 2 * pairs :]
    if pairs <= _FEW:
        np.min(first[:, :, None] + second[None], axis=1, out=product[:, :, :pairs])
        return product
    least = first[:, 0, None] + second[None, 0]
    through = np.empty_like(least)
    for middle in range(1, states):
        np.add(first[:, middle, None], second[None, middle], out=through)
        np.minimum(least, through, out=least)
    product[:, :, :pairs] = least
    return product


def _fill_in(path: States, level: Costs) -> States:
    """Insert into a path the states in the middle of each pair of steps."""
    count = level.shape[2]
    pairs = count // 2
    at = np.arange(0, 2 * pairs, 2)
    through = level[path[:pairs], :, at] + level[:, path[1 : pairs + 1], at + 1].T
    filled = np.empty(count + 1, np.intp)
    filled[0 : 2 * pairs : 2] = path[:pairs]
    filled[1 : 2 * pairs : 2] = through.argmin(axis=1)
    filled[2 * pairs :] = path[pairs:]
    return filled
