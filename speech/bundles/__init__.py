"""Character bundles: read and checked; `importing.trial` tries them out.

`bundle` says what a bundle is, `reading` loads one, and `contracts`, `onnx_model` and `portraits`
check its parts. The engines lie above this package: whoever reads a
bundle passes in those that it may name.
"""
