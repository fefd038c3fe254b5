"""`python -m functions.live_and_compat` runs the service."""

import gc

# Modules that are imported leave hardly any garbage. Without the collector a start takes a tenth
# less; `log_start` turns it on.
gc.disable()

from functions.live_and_compat.main import main  # noqa: E402 - see above

if __name__ == "__main__":
    main()
