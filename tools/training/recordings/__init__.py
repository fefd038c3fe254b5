"""A character from a few minutes of its owner's recordings; see tools/training/README.md."""
