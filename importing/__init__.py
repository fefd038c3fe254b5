"""Makes character bundles of files that a voice owner has; `python -m importing` is the command."""

import speech  # noqa: F401 - switches the runtime's telemetry off
