"""live: speech while the client waits; the second entry of the container's image."""
