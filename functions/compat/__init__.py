"""APIs that other clients speak."""
