"""Builds the trainer's real Dockerfile, and starts the job and the training command in it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from tests.image.engines import Engine

SECONDS = 120.0


def test_the_image_starts_the_job_which_asks_for_its_settings(
    trainer_image: Engine, credentials: Path
) -> None:
    process = trainer_image.run(environment={}, credentials=credentials)
    said, _ = process.communicate(timeout=SECONDS)
    assert "OWN_RECORDINGS_BUCKET is not set" in said
    assert process.returncode != 0


def test_the_image_starts_the_training_command_as_the_job_does(
    trainer_image: Engine, credentials: Path
) -> None:
    command = ("python", "-m", "tools.training", "--recordings", "/tmp/none", "--as", "ada")  # noqa: S108
    process = trainer_image.run(*command, environment={}, credentials=credentials)
    said, _ = process.communicate(timeout=SECONDS)
    assert "/tmp/none: expected a folder with recordings, found none." in said  # noqa: S108
    assert process.returncode == 1
