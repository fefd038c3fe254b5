"""Everything in Google Cloud, and the check of it."""
