"""Entry of `python -m capacity`."""

from __future__ import annotations

import sys

from capacity.command import main

if __name__ == "__main__":
    sys.exit(main())
