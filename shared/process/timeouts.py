"""The chain of timeouts, derived from one number.

conversion deadline < request timeout <= acknowledgement deadline. So a conversion ends before its
request is cut off, and a message is not delivered again while its request still runs.
Terraform derives the same chain in `infra/terraform/locals.tf`; a test compares the two.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

REQUEST_MARGIN_SECONDS: Final = 25
"""How long a request may take beside the conversion; it may wait for a dead worker's lease."""

ACKNOWLEDGEMENT_MARGIN_SECONDS: Final = 30
"""How much longer than a conversion Pub/Sub waits; at least as long as the request's margin."""


@dataclass(frozen=True, slots=True)
class Timeouts:
    """The chain for one conversion deadline, all in seconds."""

    conversion_deadline: int

    @property
    def request(self) -> int:
        """Cloud Run's request timeout."""
        return self.conversion_deadline + REQUEST_MARGIN_SECONDS

    @property
    def acknowledgement(self) -> int:
        """The acknowledgement deadline of the push subscription."""
        return self.conversion_deadline + ACKNOWLEDGEMENT_MARGIN_SECONDS
