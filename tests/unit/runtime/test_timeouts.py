from __future__ import annotations

import pytest

from shared.runtime.settings import Timeouts
from shared.voices.voice import LONGEST_LEASE


@pytest.mark.parametrize("deadline", [5, 60, 500])
def test_each_timeout_leaves_room_for_the_one_before(deadline: int) -> None:
    timeouts = Timeouts(deadline)

    assert timeouts.conversion_deadline < timeouts.request <= timeouts.acknowledgement
    assert 10 <= timeouts.acknowledgement <= 600
    # A request has time to wait for a dead worker's lease.
    assert timeouts.request - deadline > LONGEST_LEASE.total_seconds()
