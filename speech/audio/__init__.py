"""A recording's way into samples, and samples' way into a result."""
