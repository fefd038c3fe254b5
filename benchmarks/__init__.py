"""Measures the speed of the service; see README.md."""

# First of all, because this package decides how NumPy's matrix library runs, as it does in the
# services.
import conversion  # noqa: F401
