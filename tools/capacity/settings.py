"""The settings of a deployment, named like Terraform's variables."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final, Self

from tools.capacity.parameters import PlanningError

CONVERSIONS_PER_CPU: Final = 2
PLACES_PER_CONVERSION: Final = 2
"""Messages in a converter, of which the others wait for their turn."""

MOST_INSTANCES: Final = 1000
"""The most that Terraform's variable allows."""

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
class Instances:
    """A number of instances of each service."""

    api: int
    on_upload: int
    convert: int
    live: int = 0


@dataclass(frozen=True, slots=True)
class BusyHours:
    """Full hours of the day with more warm instances of the converter."""

    begin: int
    end: int
    min_instances: int


@dataclass(frozen=True, slots=True)
class Settings:
    """A deployment.

    Attributes:
        minimum: warm instances at any hour.
        convert_concurrency: slots of a converter; twice its CPUs if None.
        warm_ups_at_once: the most warm-ups that one instance of the api has under way.
        upload_shards: the number of buckets for recordings, and for results.
        delivery_attempts: deliveries of a message before it goes to the dead-letter topic.
        lifted: quotas that do not bind.
    """

    warm_up: bool = True
    minimum: Instances = Instances(api=0, on_upload=1, convert=1)
    maximum: Instances = Instances(MOST_INSTANCES, MOST_INSTANCES, MOST_INSTANCES)
    busy_hours: BusyHours | None = None
    convert_cpu: int = 2
    convert_concurrency: int | None = None
    api_concurrency: int = 500
    warm_ups_at_once: int = 80
    upload_shards: int = 1
    signing: Signing = Signing.IAM
    delivery_attempts: int = 30
    lifted: frozenset[Quota] = field(default_factory=frozenset)

    def __post_init__(self) -> None:
        if self.convert_cpu not in GIB_OF_CPUS:
            raise PlanningError(
                f"convert_cpu is {self.convert_cpu}; Cloud Run has 1, 2, 4 and 8 CPUs."
            )
        for name in ("api", "on_upload", "convert"):
            least, most = getattr(self.minimum, name), getattr(self.maximum, name)
            if not 0 <= least <= most or most < 1:
                raise PlanningError(
                    f"{name} has at least {least} and at most {most} instances; "
                    "the least must not be negative or more than the most."
                )

    @property
    def slots(self) -> int:
        """The conversions at once in one converter."""
        return self.convert_concurrency or CONVERSIONS_PER_CPU * self.convert_cpu

    @property
    def places(self) -> int:
        """The messages at once in one converter."""
        return PLACES_PER_CONVERSION * self.slots

    @property
    def gib(self) -> float:
        """The memory of a converter."""
        return GIB_OF_CPUS[self.convert_cpu]

    def without_warm_up(self) -> Self:
        """Return the deployment with neither a warm-up nor warm converters."""
        return replace(self.with_warm_up_only(), warm_up=False)

    def with_warm_up_only(self) -> Self:
        """Return the deployment without warm converters."""
        minimum = replace(self.minimum, convert=0)
        return replace(self, warm_up=True, minimum=minimum, busy_hours=None)

    def with_minimum(self, convert: int) -> Self:
        """Return the deployment with this many warm converters at any hour."""
        return replace(self, minimum=replace(self.minimum, convert=convert))

    def terraform(self, used: Instances | None = None) -> str:
        """Return these settings as Terraform variables.

        `used` is the most instances of the simulation; `max_instances` is a fifth above it.
        """
        most = self.maximum if used is None else _with_room(used, self.maximum)
        lines = [
            f"min_instances          = {self.minimum.convert}",
            (
                f"max_instances          = {{ api = {most.api}, convert = {most.convert}, "
                f"on_upload = {most.on_upload} }}"
            ),
            (
                f"function_min_instances = {{ api = {self.minimum.api}, "
                f"on_upload = {self.minimum.on_upload} }}"
            ),
            f"quota                  = {self._quota(most)}",
            f'convert_cpu            = "{self.convert_cpu}"',
            f'convert_memory         = "{self.gib:g}Gi"',
            f"convert_concurrency    = {self.slots}",
            f"api_concurrency        = {self.api_concurrency}",
            f'signing                = "{self.signing}"',
            f"upload_shards          = {self.upload_shards}",
            f"warm_ups_at_once       = {self.warm_ups_at_once}",
        ]
        if self.busy_hours is not None:
            hours = self.busy_hours
            lines.append(
                f"busy_hours             = {{ crowd = {{ from = {hours.begin}, to = {hours.end}, "
                f"min_instances = {hours.min_instances} }} }}"
            )
        return "\n".join(lines)

    def _quota(self, most: Instances) -> str:
        functions = most.api + most.on_upload + OTHER_FUNCTIONS
        containers = most.convert + most.live
        cpus = functions + self.convert_cpu * containers
        memory = math.ceil(functions / 2 + self.gib * containers)
        return f"{{ cpus = {cpus}, memory_gib = {memory} }}"


def _with_room(used: Instances, most: Instances) -> Instances:
    def room(name: str) -> int:
        count = int(getattr(used, name))
        return min(int(getattr(most, name)), count + -(-count // 5) + 1)

    live = used.live + -(-used.live // 5)
    return Instances(room("api"), room("on_upload"), room("convert"), live)
