"""Conversion while somebody speaks: what the whole-recording stages do, on what came so far."""
