"""Makes characters of visitors' recordings: takes them one by one and runs a trainer for each."""
