"""Analysis and finishing of recordings while they come."""
