"""Parts of the wire format."""
