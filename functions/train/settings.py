"""The settings of train."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Self

from pydantic import Field, model_validator

from shared.runtime.settings import BucketName, CharacterSettings


class TrainSettings(CharacterSettings):
    """Settings of train.

    Attributes:
        own_recordings_bucket: the bucket of the owners' recordings.
        trainings_at_once: how many characters are trained at once, by all jobs together.
        training_seconds: how long one training may take.
        job_seconds: the time after which Cloud Run ends the job; it begins no training that could
            last longer.
        cloud_run_task_attempt: how often Cloud Run has started this task again; it sets this.
        training_python: the Python with the packages of the training.
        training_folder: the working directory of its command: the repository's root.
    """

    own_recordings_bucket: BucketName
    trainings_at_once: Annotated[int, Field(ge=1, le=100)] = 1
    training_seconds: Annotated[int, Field(ge=60, le=86_400)] = 1800
    job_seconds: Annotated[int, Field(ge=60, le=604_800)] = 3600
    cloud_run_task_attempt: Annotated[int, Field(ge=0)] = 0
    training_python: Path = Path(sys.executable)
    training_folder: Path = Path(__file__).parents[2]

    @model_validator(mode="after")
    def _check_needs(self) -> Self:
        if self.characters_bucket is None:
            raise ValueError("CHARACTERS_BUCKET must be set for the trained characters")
        if self.training_seconds >= self.job_seconds:
            raise ValueError(
                f"TRAINING_SECONDS={self.training_seconds} must be less than"
                f" JOB_SECONDS={self.job_seconds}: no training could begin"
            )
        return self
