"""Starts the service."""

from functions.compat.main import main

main()
