"""The protocol of `live`, and its messages in both directions."""
