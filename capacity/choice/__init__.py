"""From simulated days to a choice: cost, summary, comparison, and the search for settings."""
