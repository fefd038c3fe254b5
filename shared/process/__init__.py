"""What every process needs: settings, logs, time limits."""
