"""The training job with leases of seconds: `tests.robustness.faults.train_with_short_leases`.

It is functions.train as it is; what it waits for a minute in production, it waits for some seconds.
"""

from __future__ import annotations

from functions.train import artifacts, runner

runner.LEASE_SECONDS = 6.0  # type: ignore[misc]
runner.RENEW_SECONDS = 0.5  # type: ignore[misc]
artifacts.SAVE_SECONDS = 0.2  # type: ignore[misc]
runner.LOOK_AGAIN_SECONDS = 0.2  # type: ignore[misc]
runner.RESTARTED_PATIENCE_SECONDS = 10.0  # type: ignore[misc]

if __name__ == "__main__":
    from functions.train.main import main

    main()
