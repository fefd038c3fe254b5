"""The time that converting a recording while it comes saves the visitor of a slow voice."""
