"""What a user of the planner can do wrong."""

from __future__ import annotations


class PlanningError(ValueError):
    """The planner was asked for something it cannot do; the message says what to change."""
