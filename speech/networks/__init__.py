"""Runs ONNX graphs: sessions, and what several characters and processes share."""
