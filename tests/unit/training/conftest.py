"""Training is tested where its packages are installed (`nox -s train` installs them)."""

import pytest

pytest.importorskip("torch", reason="the packages of training/requirements.txt are not installed")
