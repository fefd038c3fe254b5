"""APIs that other clients speak."""

import shared.conversion  # noqa: F401 - before NumPy, whose threads it limits
