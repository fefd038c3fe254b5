"""`python -m functions.live_and_compat` runs the service."""

from shared.runtime.fast_start import pause_collector

pause_collector()

from functions.live_and_compat.main import main  # noqa: E402 - the collector is paused

if __name__ == "__main__":
    main()
