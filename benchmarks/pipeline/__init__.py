"""What the way of a voice costs beside the conversion."""
