"""Character bundles and their ONNX graphs: read, checked, run."""
