"""APIs that other clients speak."""

import shared.speech  # noqa: F401 - before NumPy, whose threads it limits
