"""The image, built once for all tests, where a container engine works."""

from __future__ import annotations

import os

import pytest

from tests.image.engines import Engine, find_engine


@pytest.fixture(scope="session")
def image() -> Engine:
    """An engine that has built the image.

    IMAGE_BASE replaces the base image, for example where no registry can be reached.
    """
    engine = find_engine()
    if engine is None:
        pytest.skip("no container engine works here: install and start docker, podman or buildah")
    base = os.environ.get("IMAGE_BASE")
    engine.build({"BASE": base} if base else {})
    return engine
