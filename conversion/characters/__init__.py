"""The characters that an instance can convert to: loaded, fetched and lent."""
