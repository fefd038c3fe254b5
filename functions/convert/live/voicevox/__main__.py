"""Starts the VOICEVOX service."""

from functions.convert.live.voicevox.main import main

main()
