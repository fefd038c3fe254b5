"""Needed by every process: settings, logs, time limits."""
