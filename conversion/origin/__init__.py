"""Where results come from: what marks and signs them, and what verifies a file."""
