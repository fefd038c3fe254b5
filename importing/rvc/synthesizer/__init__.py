"""Writes the synthesizer of an RVC voice as an ONNX graph, straight from the weights."""
