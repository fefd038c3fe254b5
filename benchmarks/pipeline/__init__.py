"""The cost of the way of a voice beside its conversion."""
