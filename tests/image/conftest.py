"""The image, built once for all tests, where a container engine works."""

from __future__ import annotations

import os
from typing import NoReturn

import pytest

from tests.image.engines import Engine, base_image, find_engine


@pytest.fixture(scope="session")
def image() -> Engine:
    """An engine that has built the image.

    IMAGE_BASE replaces the base image, for example where no registry can be reached. With
    IMAGE_REQUIRED set, the tests fail where the image cannot be built, instead of being skipped.
    """
    engine = find_engine()
    if engine is None:
        leave_out("no container engine works here: install and start docker, podman or buildah")
    base = os.environ.get("IMAGE_BASE", base_image())
    if not engine.has(base):
        leave_out(f"{base} cannot be pulled here: name another base image in IMAGE_BASE")
    engine.build({"BASE": base})
    return engine


def leave_out(reason: str) -> NoReturn:
    """Skip the tests, or fail if they are required."""
    if os.environ.get("IMAGE_REQUIRED"):
        pytest.fail(reason)
    pytest.skip(reason)
