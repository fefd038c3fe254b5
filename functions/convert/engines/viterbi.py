"""The cheapest path through a trellis, in a logarithmic number of array operations."""

import numpy as np
from numpy.typing import NDArray

Costs = NDArray[np.float32]
States = NDArray[np.intp]


def cheapest_path(start: Costs, steps: Costs) -> States:
    """Find the state sequence of least total cost (Viterbi, 1967), exactly.

    A step's cost matrix composes with the next one's in the (min, +) semiring, and that product
    is associative; so the steps are multiplied as a balanced tree (as in Hillis and Steele's
    "Data parallel algorithms", 1986) instead of one after the other. A few whole-array operations
    replace a Python loop over the steps.

    Args:
        start: cost of beginning in each state, float32 [S].
        steps: cost of going from state i to state j at each step, float32 [T-1, S, S].

    Returns:
        The state at each of the T instants, [T].
    """
    products, middles = _multiply_up(steps)
    first, last = np.unravel_index(np.argmin(start[:, None] + products), products.shape)
    left, right = np.array([first]), np.array([last])
    for middle in reversed(middles):
        nodes = np.arange(len(left))
        between = middle[nodes, left, right].astype(np.intp)
        left = np.stack([left, between], axis=1).ravel()
        right = np.stack([between, right], axis=1).ravel()
    return np.concatenate([left[:1], right[: len(steps)]])


def _multiply_up(steps: Costs) -> tuple[Costs, list[NDArray[np.uint8]]]:
    """Multiply all the steps; also return, level by level, the state in the middle of each pair."""
    count, states = len(steps), steps.shape[1]
    level = np.concatenate([steps, _stay_in_place(_next_power_of_two(count) - count, states)])
    middles = []
    while len(level) > 1:
        through = level[0::2, :, :, None] + level[1::2, None, :, :]
        middle = through.argmin(axis=2)
        middles.append(middle.astype(np.uint8))
        level = np.take_along_axis(through, middle[:, :, None, :], axis=2)[:, :, 0, :]
    return level[0], middles


def _stay_in_place(count: int, states: int) -> Costs:
    """Make steps that change nothing: the identity of the (min, +) product."""
    identity = np.full((states, states), np.inf, np.float32)
    np.fill_diagonal(identity, 0.0)
    return np.broadcast_to(identity, (count, states, states))


def _next_power_of_two(count: int) -> int:
    return 1 << max(count - 1, 0).bit_length()
