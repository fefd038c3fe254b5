"""The settings of a deployment, named like the command's options."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from tools.capacity.parameters import check_range

Instances = Mapping[str, int]
"""A number of instances of each service, by its name."""

CONVERSIONS_PER_CPU: Final = 2
MOST_INSTANCES: Final = 1000
"""The most that Terraform's variable allows."""

MOST: Final = 20_000
"""More instances than any rate of a million visitors an hour needs."""

MOST_SHARDS: Final = 32
"""The most that Terraform's `storage.shards` allows."""

GIB_OF_CPUS: Final = {1: 1.0, 2: 1.0, 4: 2.0, 8: 4.0}
"""Memory of a converter with so many CPUs: the module's default, or the least Cloud Run gives."""

OTHER_FUNCTIONS: Final = 2
"""Instances of dead_letter and sweep, each with one CPU and half a GiB."""


class Signing(StrEnum):
    """The signature of signed URLs."""

    IAM = "iam"
    HMAC = "hmac"


class Quota(StrEnum):
    """The quotas of the simulation, in the order in which a voice meets them."""

    SIGN_BLOB = "signBlob calls"
    FIRESTORE_INDEX = "Firestore writes under the sweep's index"
    FIRESTORE_RAMP = "Firestore's write ramp"
    UPLOADS_WRITES = "writes to the bucket uploads"
    UPLOADS_READS = "reads of the bucket uploads"
    RESULTS_WRITES = "writes to the bucket results"


@dataclass(frozen=True, slots=True)
class Settings:
    """A deployment.

    Attributes:
        convert_concurrency: slots of a converter; twice its CPUs if None.
        warm_ups_at_once: the most warm-ups that one instance of the api has under way.
        upload_shards: the number of buckets for recordings, and for results.
        delivery_attempts: deliveries of a message before it goes to the dead-letter topic.
        lifted: quotas that do not bind.
    """

    warm_up: bool = True
    min_instances: int = 1
    api_min_instances: int = 0
    on_upload_min_instances: int = 1
    max_instances: int = MOST_INSTANCES
    convert_cpu: int = 2
    convert_concurrency: int | None = None
    api_concurrency: int = 500
    warm_ups_at_once: int = 80
    upload_shards: int = 1
    signing: Signing = Signing.IAM
    delivery_attempts: int = 30
    lifted: frozenset[Quota] = frozenset()

    def __post_init__(self) -> None:
        for name in ("min_instances", "api_min_instances", "on_upload_min_instances"):
            check_range(name, getattr(self, name), 0, self.max_instances)
        for name in ("max_instances", "convert_concurrency", "api_concurrency", "warm_ups_at_once"):
            check_range(name, getattr(self, name), 1, MOST)
        check_range("upload_shards", self.upload_shards, 1, MOST_SHARDS)

    @property
    def slots(self) -> int:
        """The conversions at once in one converter."""
        return self.convert_concurrency or CONVERSIONS_PER_CPU * self.convert_cpu

    @property
    def gib(self) -> float:
        """The memory of a converter."""
        return GIB_OF_CPUS[self.convert_cpu]

    def terraform(self, used: Instances) -> str:
        """Return these settings as groups of the Terraform module.

        `used` is the most instances of the simulation; `max_instances` is a fifth above it.
        """
        most = {
            name: min(self.max_instances, used[name] + math.ceil(used[name] / 5) + 1)
            for name in ("api", "convert", "on_upload")
        }
        containers = most["convert"] + used["live"] + math.ceil(used["live"] / 5)
        functions = most["api"] + most["on_upload"] + OTHER_FUNCTIONS
        groups: dict[str, dict[str, object]] = {
            "convert": {
                "cpu": f'"{self.convert_cpu}"',
                "memory": f'"{self.gib:g}Gi"',
                "concurrency": self.slots,
                "min_instances": self.min_instances,
                "max_instances": most["convert"],
            },
            "api": {
                "concurrency": self.api_concurrency,
                "min_instances": self.api_min_instances,
                "max_instances": most["api"],
                "warm_ups_at_once": self.warm_ups_at_once,
            },
            "on_upload": {
                "min_instances": self.on_upload_min_instances,
                "max_instances": most["on_upload"],
            },
            "quota": {
                "cpus": functions + self.convert_cpu * containers,
                "memory_gib": math.ceil(functions / 2 + self.gib * containers),
            },
            "signing": {"method": f'"{self.signing}"'},
            "storage": {"shards": self.upload_shards},
        }
        lines = []
        for name, group in groups.items():
            settings = ", ".join(f"{setting} = {value}" for setting, value in group.items())
            lines.append(f"{name:9} = {{ {settings} }}")
        return "\n".join(lines)
