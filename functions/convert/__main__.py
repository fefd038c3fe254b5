"""`python -m functions.convert` runs the container."""

from shared.runtime.fast_start import pause_collector

pause_collector()

from functions.convert.process import main  # noqa: E402 - the collector is paused

if __name__ == "__main__":
    main()
