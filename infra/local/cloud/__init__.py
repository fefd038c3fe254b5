"""Starts the services of the local cloud and connects them."""
