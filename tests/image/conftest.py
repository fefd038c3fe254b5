"""The images, each built once for all tests, where a container engine works."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, NoReturn

import pytest

from tests.image.engines import CONVERTER, TRAINER, base_image, find_engine

if TYPE_CHECKING:
    from pathlib import Path

    from tests.image.engines import Engine, Recipe

CREDENTIALS = {
    "type": "authorized_user",
    "client_id": "nobody",
    "client_secret": "none",
    "refresh_token": "none",
}


@pytest.fixture(scope="session")
def image() -> Engine:
    """An engine that has built the converter's image.

    IMAGE_BASE replaces the base image, for example where no registry can be reached. With
    IMAGE_REQUIRED set, the tests fail where the image cannot be built, instead of being skipped.
    """
    return built(CONVERTER)


@pytest.fixture(scope="session")
def trainer_image() -> Engine:
    """An engine that has built the trainer's image, with PyTorch from PYTORCH_INDEX."""
    index = os.environ.get("PYTORCH_INDEX")
    if index is None:
        leave_out(
            "PyTorch's packages for CPUs have an index of their own: name it in PYTORCH_INDEX"
        )
    return built(TRAINER, PYTORCH_INDEX=index)


@pytest.fixture
def credentials(tmp_path: Path) -> Path:
    """Credentials of no account, for clients that are only created and not used."""
    tmp_path.chmod(0o755)
    path = tmp_path / "credentials.json"
    path.write_text(json.dumps(CREDENTIALS))
    path.chmod(0o644)
    return path


def built(recipe: Recipe, **arguments: str) -> Engine:
    engine = find_engine(recipe)
    if engine is None:
        leave_out("no container engine works here: install and start docker, podman or buildah")
    base = os.environ.get("IMAGE_BASE", base_image(recipe))
    if not engine.has(base):
        leave_out(f"{base} cannot be pulled here: name another base image in IMAGE_BASE")
    engine.build({"BASE": base, **arguments})
    return engine


def leave_out(reason: str) -> NoReturn:
    if os.environ.get("IMAGE_REQUIRED"):
        pytest.fail(reason)
    pytest.skip(reason)
