"""Building a simulation from parameters, settings and arrivals, and running it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from capacity.engine import state
from capacity.engine.loop import run
from capacity.model.settings import MOST_INSTANCES, BusyHours, Instances
from capacity.model.way import QUOTAS, Service, Subscription, Way

if TYPE_CHECKING:
    from capacity.engine.state import Records, World
    from capacity.model.arrivals import Arrivals
    from capacity.model.parameters import Parameters
    from capacity.model.settings import Quota, Settings
    from capacity.model.way import Program

AFTERWARDS: Final = 3_600.0
"""For how many seconds after the last arrival the simulation goes on, if voices are under way."""

JOBS_OF_A_VOICE: Final = 6
"""The most at once: visitor or message, record, warm-up, listener, notification of emptying."""


@dataclass(frozen=True, slots=True)
class Allowance:
    """How many voices may be late: with one more a simulation need not go on.

    Attributes:
        seconds: a voice that waits longer is late, and so is one that is lost.
        voices: how many may be.
    """

    seconds: float
    voices: int


@dataclass(frozen=True, slots=True, eq=False)
class Simulation:
    """A simulation, ready to run or over.

    Attributes:
        parameters: what it was made from.
        settings: the deployment.
        arrivals: the visitors.
        world: its state.
    """

    parameters: Parameters
    settings: Settings
    arrivals: Arrivals
    world: World

    @classmethod
    def prepare(cls, parameters: Parameters, settings: Settings, arrivals: Arrivals) -> Simulation:
        """Set everything to its beginning."""
        return cls(parameters, settings, arrivals, _Builder(parameters, settings, arrivals).world())

    def run(self, seed: int = 0, allowance: Allowance | None = None) -> Simulation:
        """Simulate, in place; other threads run meanwhile and may read `progress`.

        Args:
            seed: of everything random.
            allowance: ends the simulation as soon as more voices are late. Those that are under way
                then, and those that have not come yet, count as lost.
        """
        if allowance is not None:
            self.world.clock["late_after"] = allowance.seconds
            self.world.clock["most_late"] = allowance.voices
        chance, world = np.random.default_rng(seed), self.world
        while not run(world, chance):
            more = np.zeros(len(world.events), state.EVENT)
            world = world._replace(events=np.concatenate((world.events, more)))
        return self

    @property
    def progress(self) -> int:
        """How many voices have had their end."""
        return int(self.world.progress[0])

    def quota(self, quota: Quota) -> Any:
        """Return the use of a quota, an element of `state.QUOTA`."""
        return self.world.quotas[QUOTAS.index(quota)]

    def service(self, service: Service) -> Any:
        """Return a service, an element of `state.SERVICE`."""
        return self.world.services[service]

    @property
    def most_instances(self) -> Instances:
        """The most instances that each service had at once."""
        counts = self.world.services["most_instances"]
        return Instances(*(int(counts[service]) for service in Service))


@dataclass(frozen=True, slots=True)
class _Builder:
    parameters: Parameters
    settings: Settings
    arrivals: Arrivals

    def world(self) -> World:
        program = Way(self.parameters, self.settings).write()
        services, instances, hosts = self._services(program)
        voices = np.zeros(len(self.arrivals.times), state.VOICE)
        voices["arrived"] = self.arrivals.times
        if self.arrivals.at_once:
            voices["arrived"][self.arrivals.at_once :] = np.inf
        voices["spoken"] = self.arrivals.spoken
        clock = self._clock(program)
        clock["most_pushes"] = _most_pushes(services)
        return state.World(
            clock=clock,
            steps=program.records(),
            voices=voices,
            jobs=np.zeros(JOBS_OF_A_VOICE * len(voices) + len(instances) + 1, state.JOB),
            instances=instances,
            hosts=hosts,
            services=services,
            levels=np.full((len(services), int(services["slots"].max()) + 1), -1, np.int64),
            quotas=self._quotas(),
            subscriptions=self._subscriptions(program),
            samples=self._samples(clock),
            events=np.zeros(2 * int(clock[0]["most_pushes"]), state.EVENT),
            progress=np.zeros(1, np.int64),
        )

    def _clock(self, program: Program) -> Records:
        clock = np.zeros(1, state.CLOCK)
        tick = self.parameters["cloud_run.tick"]
        machine = self.parameters["deployed.machine_cpus"]
        end = self.arrivals.seconds
        clock["free_job"] = state.NOBODY
        clock["tick"] = tick
        clock["window"] = round(self.parameters["cloud_run.window"] / tick)
        clock["keep"] = round(self.parameters["cloud_run.keep"] / tick)
        clock["cpus_limit"] = math.inf if machine else self.parameters["cloud_run.region_cpus"]
        clock["end"] = end
        clock["horizon"] = end + AFTERWARDS
        clock["begin_step"] = program.labels["begin"]
        clock["coming"] = self.arrivals.at_once or len(self.arrivals.times)
        clock["late_after"] = math.inf
        clock["most_late"] = len(self.arrivals.times)
        return clock

    def _samples(self, clock: Records) -> Records:
        ticks = math.ceil(float(clock[0]["horizon"]) / float(clock[0]["tick"]))
        return np.zeros((ticks + 2, len(Service)), state.SAMPLE)

    def _services(self, program: Program) -> tuple[Records, Records, Records]:
        services = np.zeros(len(Service), state.SERVICE)
        counts = [self._most_instances(service) for service in Service]
        instances = np.zeros(sum(counts), state.INSTANCE)
        hosts = np.zeros(len(instances) + 1, state.HOST)
        hosts["head"] = hosts["tail"] = state.NOBODY
        machine = self.parameters["deployed.machine_cpus"]
        hosts[0]["cpus"], hosts[0]["service"] = machine, state.NOBODY
        first = 0
        for service, count in zip(Service, counts, strict=True):
            self._describe(services[service], service, program, count)
            services[service]["first"] = services[service]["free"] = first
            for index in range(first, first + count):
                one = instances[index]
                one["service"] = service
                one["host"] = 0 if machine else index + 1
                one["turn_head"] = one["turn_tail"] = one["preceding"] = state.NOBODY
                one["following"] = index + 1 if index + 1 < first + count else state.NOBODY
                hosts[index + 1]["cpus"] = services[service]["cpus"]
                hosts[index + 1]["service"] = service
            first += count
        return services, instances, hosts

    def _most_instances(self, service: Service) -> int:
        if service is Service.LIVE:
            # As many as a quota allows, or one that nobody enters.
            has_live = self.parameters["visitor.live"] > 0
            return self.settings.maximum.live or (MOST_INSTANCES if has_live else 1)
        return int(getattr(self.settings.maximum, service.name.lower()))

    def _describe(self, one: Any, service: Service, program: Program, maximum: int) -> None:
        name = service.name.lower()
        slots, cpus = self._slots_and_cpus(service)
        one["slots"] = slots
        one["cpus"] = cpus
        is_converter, is_live = service is Service.CONVERT, service is Service.LIVE
        places = self.parameters["deployed.converter_places"]
        one["places"] = int(places) if is_converter else slots
        converts = is_converter or is_live
        one["turns"] = self.settings.slots if converts else slots
        one["minimum"] = getattr(self.settings.minimum, name)
        one["maximum"] = maximum
        one["head"] = one["tail"] = state.NOBODY
        one["start_step"] = program.labels[f"start_{name}"]
        patience = "line.first_word" if is_live else "cloud_run.patience"
        one["patience"] = self.parameters[patience]
        one["reaction"] = self.parameters["cloud_run.reaction"]
        one["cpu_target"] = self.parameters["cloud_run.cpu_target"]
        one["slot_target"] = self.parameters["cloud_run.slot_target"]
        one["starts_per_second"] = self.parameters["cloud_run.starts_per_second"]
        one["start_credit"] = one["starts_per_second"]
        hours = self.settings.busy_hours
        if is_converter and hours is not None:
            self._schedule(one, hours)

    def _slots_and_cpus(self, service: Service) -> tuple[int, float]:
        if service is Service.API:
            return self.settings.api_concurrency, self.parameters["deployed.function_cpus"]
        if service is Service.ON_UPLOAD:
            slots = int(self.parameters["deployed.on_upload_concurrency"])
            return slots, self.parameters["deployed.function_cpus"]
        if service is Service.LIVE:
            return int(self.parameters["deployed.sockets"]), float(self.settings.convert_cpu)
        slots = max(self.settings.slots, int(self.parameters["deployed.converter_slots"]))
        return slots, float(self.settings.convert_cpu)

    def _schedule(self, one: Any, hours: BusyHours) -> None:
        one["busy_minimum"] = hours.min_instances
        one["busy_from"] = hours.begin * 3600 - self.arrivals.begin
        one["busy_to"] = hours.end * 3600 - self.arrivals.begin
        if hours.begin * 3600 <= self.arrivals.begin < hours.end * 3600:
            one["minimum"] = max(int(one["minimum"]), hours.min_instances)

    def _quotas(self) -> Records:
        quotas = np.zeros(len(QUOTAS), state.QUOTA)
        quotas["patience"] = self.parameters["quota.patience"]
        quotas["first_met"] = -1.0
        quotas["second"] = -1
        storage = (
            self.parameters["quota.storage_growth"],
            self.parameters["quota.storage_period"],
        )
        writes, reads = (self.parameters[f"quota.storage_{name}"] for name in ("writes", "reads"))
        ramp = tuple(
            self.parameters[f"quota.firestore_ramp{name}"] for name in ("_growth", "_period")
        )
        first = self.parameters["quota.firestore_ramp"] * self.parameters["deployed.collections"]
        shards = self.settings.upload_shards
        index = self.parameters["quota.firestore_index"] * self.parameters["deployed.index_parts"]
        described = (
            (state.PER_PERIOD, self.parameters["quota.sign_blob"], 0.0, 60.0),
            (state.RAMP, index, 0.0, 60.0),
            (state.RAMP, first, *ramp),
            (state.RAMP, shards * writes, *storage),
            (state.RAMP, shards * reads, *storage),
            (state.RAMP, shards * writes, *storage),
        )
        for one, (kind, limit, growth, period) in zip(quotas, described, strict=True):
            one["kind"], one["limit"], one["rate"] = kind, limit, limit
            one["growth"], one["period"] = growth, period
        return quotas

    def _subscriptions(self, program: Program) -> Records:
        subscriptions = np.zeros(len(Subscription), state.SUBSCRIPTION)
        subscriptions["window"] = self.parameters["pubsub.first_window"]
        subscriptions["least_window"] = self.parameters["pubsub.first_window"]
        subscriptions["most_window"] = self.parameters["pubsub.most_window"]
        subscriptions["growth"] = self.parameters["pubsub.window_growth"]
        subscriptions["decrease"] = self.parameters["pubsub.window_decrease"]
        subscriptions["decreased"] = -math.inf
        subscriptions["head"] = subscriptions["tail"] = state.NOBODY
        subscriptions["minimum_backoff"] = self.parameters["pubsub.minimum_backoff"]
        subscriptions["maximum_backoff"] = self.parameters["pubsub.maximum_backoff"]
        subscriptions["backoff_growth"] = self.parameters["pubsub.backoff_growth"]
        subscriptions["attempts"] = self.settings.delivery_attempts
        subscriptions["dead_step"] = program.labels["dead"]
        for subscription in Subscription:
            name = subscription.name.lower()
            subscriptions[subscription]["first_step"] = program.labels[name]
        return subscriptions


def _most_pushes(services: Records) -> int:
    """Count the events that one event can lead to.

    A tick starts instances, as many as their pace allows, and an instance that is ready lets in as
    many as it has slots; whatever else happens leads to a few.
    """
    a_few = 16
    return int(services["slots"].max() + services["starts_per_second"].sum()) + a_few
