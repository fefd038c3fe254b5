"""Entry of `python -m tools.capacity`."""

from __future__ import annotations

import sys

from tools.capacity.command import main

if __name__ == "__main__":
    sys.exit(main())
