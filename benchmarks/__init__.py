"""Measures the speed of the service; see README.md."""

# First of all, because this package decides how NumPy's matrix library runs where conversions are measured.
import conversion  # noqa: F401
