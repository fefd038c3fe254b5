"""Decoding, conversion and encoding of speech, and the character bundles; knows no cloud."""

import os

# Before anything loads ONNX Runtime, which otherwise keeps events for Microsoft's collector: what
# models are loaded and how (since 1.31 on Linux, too), with a number for the machine.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")

# numpy's matrix library reads this at its first import. Otherwise it starts a thread per processor;
# these threads wait in a busy loop, which costs other conversions more than it helps the small
# matrices of this one.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
