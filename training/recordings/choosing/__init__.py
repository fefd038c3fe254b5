"""Which speech of a folder is used, and what is not, and why."""
