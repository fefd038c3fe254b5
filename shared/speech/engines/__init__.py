"""The engines, which turn recordings or texts into speech."""
