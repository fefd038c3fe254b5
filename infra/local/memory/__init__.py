"""Voices and topics in memory, for machines without the emulators."""
