"""Imports of voices that other tools have made."""

import shared.speech  # noqa: F401 - switches the runtime's telemetry off
