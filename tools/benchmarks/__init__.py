"""Measures the speed of the service; see README.md."""

# First of all, because these packages decide how NumPy's matrix library and ONNX Runtime run, as
# they do in the services.
import shared.conversion
import shared.speech  # noqa: F401
