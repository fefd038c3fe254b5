"""Training of characters: data, learning, export and measured quality."""

import os

# As in the conversion container: before NumPy is first imported, or a measurement counts the
# processor time of threads that only wait for each other.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
# As in shared/speech/__init__.py: before anything loads ONNX Runtime.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
