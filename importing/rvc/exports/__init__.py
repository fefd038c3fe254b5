"""Voices that other tools have exported to ONNX, made to fit the one contract of the engine."""
