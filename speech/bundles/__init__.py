"""Character bundles: read, checked and tried out; `python -m speech.bundles FOLDER` does all three.

`bundle` says what a bundle is, `reading` loads one, `contracts`, `onnx_model` and `portraits` check
its parts, and `trial` measures what it needs. The engines lie above this package: whoever reads a
bundle passes in those that it may name.
"""
