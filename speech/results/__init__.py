"""Results: encoded, and marked as synthetic."""
