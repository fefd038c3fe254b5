"""Writes character bundles: manifest, consent and portrait."""
