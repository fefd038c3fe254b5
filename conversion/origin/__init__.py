"""The origin of results: marks, signatures, and the verification of files."""
