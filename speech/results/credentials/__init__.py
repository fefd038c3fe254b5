"""Content Credentials: a signed statement in a result of who made it and how (C2PA)."""
