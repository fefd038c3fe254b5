"""The local cloud: every service on one machine."""
