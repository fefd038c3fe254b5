"""Measures the speed of the service; see README.md."""

# First of all, because it decides how NumPy's matrix library runs where conversions are measured.
import functions.convert  # noqa: F401
