"""Starts the VOICEVOX service."""

from functions.compat.voicevox.main import main

main()
