"""Who may call, and what is counted for each key."""
