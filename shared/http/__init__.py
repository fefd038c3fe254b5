"""HTTP, as far as two or more deployables need it."""
