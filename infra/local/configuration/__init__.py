"""The options of a local cloud, and where its services listen."""
