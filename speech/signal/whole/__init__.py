"""Analysis and finishing of whole recordings."""
