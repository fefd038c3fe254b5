"""Clients that wait for a voice, and three ways in which the api can wait for them."""
