"""Settings, logs, traces and HTTP endpoints of every deployable."""
