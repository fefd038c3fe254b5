"""The errors of whoever uses the planner."""

from __future__ import annotations


class PlanningError(ValueError):
    """The planner was asked for something it cannot do; the message says what to change."""
