"""Google Cloud as discrete events: Cloud Run services, push subscriptions and quotas.

Cloud Run scales as https://cloud.google.com/run/docs/about-instance-autoscaling describes, and
Pub/Sub pushes as in the local cloud. Everything that Google's pages leave open is an assumption in
parameters.toml.
"""

from __future__ import annotations

import math
from collections import deque
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from itertools import chain
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import simpy

from infra.local.cloud.push_flow import FlowLimits, PushFlow
from tools.capacity.parameters import Duration

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator

    import numpy as np
    from simpy.events import Event

    from tools.capacity.parameters import Parameters

    Steps = Generator[Event, Any, Any]


class RefusedError(Exception):
    """A service or a quota refuses."""


@dataclass(slots=True)
class World:
    """The clock, chance and CPUs that all services share."""

    parameters: Parameters
    weight: int
    chance: np.random.Generator
    env: simpy.Environment = field(default_factory=simpy.Environment)
    free_cpus: float = 0.0
    _normal: Iterator[float] = field(init=False)

    def __post_init__(self) -> None:
        # Numbers one by one would take a third of a simulation's time.
        blocks = iter(lambda: self.chance.standard_normal(4096).tolist(), None)
        self._normal = chain.from_iterable(blocks)

    def draw(self, duration: Duration, spoken: float = 0.0) -> float:
        """Return a duration's seconds at random."""
        return duration.at(spoken) * math.exp(duration.sigma * next(self._normal))

    def seconds(self, name: str) -> float:
        return self.draw(self.parameters.durations[name])

    def pause(self, *names: str, seconds: float = 0.0) -> Event:
        """Return the end of these durations and seconds, one after another."""
        return self.env.timeout(seconds + sum(map(self.seconds, names)))


class Turns:
    """Places of an instance, which the visitor takes next that has had least time.

    One of `Client` has had what its earlier turns took; a new visitor begins with the time that was
    served last, as in `FairQueue` of the product.
    """

    def __init__(self, env: simpy.Environment, places: int) -> None:
        self._env, self._free = env, places
        self._waiting: list[tuple[float, bool, Event]] = []
        self._served = self._greedy_seconds = 0.0

    def take(self, *, is_greedy: bool = False) -> Event | None:
        """Return None if a place is free, or the event of the turn."""
        if self._free:
            self._free -= 1
            return None
        turn = self._env.event()
        self._waiting.append((self._served, is_greedy, turn))
        return turn

    def withdraw(self, turn: Event) -> None:
        self._waiting = [each for each in self._waiting if each[2] is not turn]

    def leave(self, seconds: float = 0.0) -> None:
        """Give a place back, after so many seconds of the greedy client's."""
        self._greedy_seconds += seconds
        if not self._waiting:
            self._free += 1
            return
        following = min(self._waiting, key=self._had)
        self._waiting.remove(following)
        self._served = max(self._served, self._had(following))
        following[2].succeed()

    def _had(self, waiting: tuple[float, bool, Event]) -> float:
        return max(waiting[0], self._greedy_seconds * waiting[1])


class ServiceInstance:
    """An instance of a service; its jobs take its processors in the order in which they come."""

    def __init__(self, env: simpy.Environment, cpus: int, turns: int) -> None:
        self.processors, self.turns = Turns(env, cpus), Turns(env, turns)
        self.busy = self.warm_ups = 0
        self.has_converted = self.has_spoken = False
        self.arrivals: deque[float] = deque()


class Service:
    """A Cloud Run service: instances with slots, a queue in front, two ways of scaling.

    A request goes to the started instance with the fewest requests. Metrics-based scaling divides
    the average use of a minute by the target utilisation, on-demand scaling starts instances for
    requests that wait.

    Attributes:
        minimum: instances that stay warm.
        turns: the conversions at once in an instance, of which `cpus` compute.
        active_area: seconds of instances that had a request or were starting.
        idle_area: seconds of minimum instances that had none.
    """

    def __init__(
        self,
        world: World,
        *,
        start: str,
        slots: int,
        minimum: int,
        maximum: int,
        size: tuple[int, int],
    ) -> None:
        parameters = world.parameters
        self._start_work = Duration(parameters[start] / parameters["start.boost"], 0.1)
        self.world, self.env, self.slots, self.minimum = world, world.env, slots, minimum
        (self.cpus, self.turns), self.patience = size, parameters["cloud_run.patience"]
        self.maximum = math.ceil(maximum / world.weight)
        self.least = min(math.ceil(minimum / world.weight), self.maximum)
        self.instances: list[ServiceInstance] = []
        self._waiting: deque[Event] = deque()
        self._asked = self.env.event()
        self._busy_area = self._cpu_seconds = self._changed = 0.0
        self.active_area = self.idle_area = 0.0
        self.starting = self.busy = self.active = 0
        self.requests = self.gave_up = self.most_instances = 0
        self.samples: list[int] = []
        for instance in self.place(self.least):
            self._make_ready(instance)
        self.env.process(self.scale_by_metrics())
        self.env.process(self.scale_on_demand())

    @property
    def count(self) -> int:
        return len(self.instances) + self.starting

    def enter(self) -> Steps:
        """Wait for a slot and return the instance; raise RefusedError after `patience`."""
        self.requests += 1
        if not self._waiting and self._has_room():
            return self._occupy(min(self.instances, key=attrgetter("busy")), 1)
        turn = self.env.event()
        self._waiting.append(turn)
        self._ask()
        yield turn | self.env.timeout(self.patience)
        if not turn.triggered:
            self._waiting.remove(turn)
            self.gave_up += 1
            raise RefusedError
        return turn.value

    def leave(self, instance: ServiceInstance) -> None:
        """Give a slot back; the next request takes it."""
        self._occupy(instance, -1)
        self._admit()

    @contextmanager
    def holding(self, instance: ServiceInstance) -> Iterator[None]:
        try:
            yield
        finally:
            self.leave(instance)

    def spend(self, seconds: float) -> float:
        """Count so much processor time and return it."""
        self._cpu_seconds += seconds
        return seconds

    def work(self, instance: ServiceInstance, seconds: float) -> Steps:
        """Wait for a processor of an instance and take it for so long."""
        if turn := instance.processors.take():
            yield turn
        yield self.env.timeout(self.spend(seconds))
        instance.processors.leave()

    def account(self) -> None:
        """Bring the areas up to date."""
        passed, weight = self.env.now - self._changed, self.world.weight
        active = weight * (self.active + self.starting)
        self._busy_area += passed * self.busy
        self.active_area += passed * active
        self.idle_area += passed * max(0, self.minimum - active)
        self._changed = self.env.now

    def _has_room(self) -> bool:
        return self.busy < len(self.instances) * self.slots

    def _occupy(self, instance: ServiceInstance, change: int) -> ServiceInstance:
        self.account()
        self.active += (instance.busy + change > 0) - (instance.busy > 0)
        instance.busy += change
        self.busy += change
        return instance

    def _admit(self) -> None:
        while self._waiting and self._has_room():
            instance = self._occupy(min(self.instances, key=attrgetter("busy")), 1)
            self._waiting.popleft().succeed(instance)

    def place(self, wanted: int) -> Iterator[ServiceInstance]:
        """Begin so many instances, if the maximum and the region's CPUs allow it."""
        for _ in range(wanted):
            if self.count >= self.maximum or self.world.free_cpus < self.cpus:
                return
            self.account()
            self.world.free_cpus -= self.cpus
            self.starting += 1
            self.most_instances = max(self.most_instances, self.count)
            yield ServiceInstance(self.env, self.cpus, self.turns)

    def _make_ready(self, instance: ServiceInstance) -> None:
        self.account()
        self.starting -= 1
        self.instances.append(instance)
        self._admit()

    def start(self, wanted: int) -> None:
        for instance in self.place(wanted):
            self.env.process(self.run_start(instance))

    def run_start(self, instance: ServiceInstance) -> Steps:
        yield self.world.pause("start.platform")
        yield from self.work(instance, self.world.draw(self._start_work))
        self._make_ready(instance)

    def _ask(self) -> None:
        if not self._asked.triggered:
            self._asked.succeed()

    def scale_on_demand(self) -> Steps:
        """Start instances while more requests wait than those that are starting will take."""
        while True:
            yield self._asked
            is_short = True
            while is_short:
                yield self.world.pause("cloud_run.reaction")
                self.start(math.ceil(len(self._waiting) / self.slots) - self.starting)
                is_short = len(self._waiting) > self.starting * self.slots
                is_short = is_short and self.count < self.maximum
            self._asked = self.env.event()

    def scale_by_metrics(self) -> Steps:
        """Start and end instances by the use of the last minute."""
        parameters = self.world.parameters
        tick, keep = parameters["cloud_run.tick"], parameters["cloud_run.keep"]
        window = round(parameters["cloud_run.window"] / tick)
        areas = deque([(0.0, 0.0)], maxlen=window + 1)
        needed: deque[int] = deque(maxlen=round(keep / tick) + 1)
        while True:
            self.account()
            self.samples.append(self.count)
            areas.append((self._cpu_seconds, self._busy_area))
            seconds = tick * (len(areas) - 1)
            (cpus_before, slots_before), (cpus, slots) = areas[0], areas[-1]
            by_cpus = (cpus - cpus_before) / (self.cpus * parameters["cloud_run.cpu_target"])
            by_slots = (slots - slots_before) / (self.slots * parameters["cloud_run.slot_target"])
            # A rounding error is no reason to start an instance.
            desired = max(self.least, math.ceil(max(by_cpus, by_slots) / seconds - 1e-9))
            needed.append(max(desired, self.active))
            self.start(desired - self.count)
            if (surplus := self.count - max(self.least, *needed)) > 0:
                for instance in [each for each in self.instances if not each.busy][:surplus]:
                    self.instances.remove(instance)
                    self.world.free_cpus += self.cpus
            if self._waiting:
                self._ask()
            yield self.env.timeout(tick)


class PushSubscription:
    """A push subscription: the retry of each message, and the flow of all of them."""

    def __init__(self, world: World, attempts: int) -> None:
        self.env, self._parameters, self._attempts = world.env, world.parameters, attempts
        self.pushes = 0
        limits = {each.name: self._parameters[f"pubsub.{each.name}"] for each in fields(FlowLimits)}
        self.flow = PushFlow(FlowLimits(**limits).of_sample(world.weight))
        self._waiting: deque[Event] = deque()
        self._is_waking = False

    def deliver(self, handle: Callable[[], Steps]) -> Steps:
        """Push a message until `handle` does not refuse it; return False when it is given up."""
        pause = self._parameters["pubsub.minimum_backoff"]
        for _ in range(self._attempts):
            if self._waiting or self.flow.begin(self.env.now):
                turn = self.env.event()
                self._waiting.append(turn)
                self._advance()
                yield turn
            self.pushes += 1
            try:
                yield from handle()
                is_acknowledged = True
            except RefusedError:
                is_acknowledged = False
            self.flow.end(self.env.now, acknowledged=is_acknowledged)
            self._advance()
            if is_acknowledged:
                return True
            yield self.env.timeout(min(self._parameters["pubsub.maximum_backoff"], pause))
            pause *= self._parameters["pubsub.backoff_growth"]
        return False

    def _advance(self) -> None:
        while self._waiting and not self._is_waking:
            pause = self.flow.begin(self.env.now)
            if pause:
                if math.isfinite(pause):
                    self._is_waking = True
                    # A rounding error must not make the clock stand still.
                    self.env.timeout(pause + 1e-6).callbacks.append(self._wake)
                return
            self._waiting.popleft().succeed()

    def _wake(self, _event: Event) -> None:
        self._is_waking = False
        self._advance()


@dataclass(slots=True)
class RateLimit:
    """A quota of one of Google's services.

    Attributes:
        limit: uses in a period, or a second where it grows.
        period: seconds.
        growth: of the pace from one period to the next; None refuses what exceeds the limit.
        first_met: the moment at which it first bound, or None.
    """

    limit: float
    period: float
    growth: float | None
    patience: float
    weight: int
    delayed: int = 0
    refused: int = 0
    most_in_second: int = 0
    first_met: float | None = None
    _pace: float = 0.0
    _begin: float = 0.0
    _used: int = 0
    _next_free: float = 0.0
    _second: int = -1
    _in_second: int = 0

    def take(self, now: float) -> float:
        """Use it once; return the seconds that this takes, or raise RefusedError."""
        if math.floor(now) != self._second:
            self._second, self._in_second = math.floor(now), 0
        self._in_second += self.weight
        self.most_in_second = max(self.most_in_second, self._in_second)
        periods = math.floor((now - self._begin) / self.period)
        if periods:
            self._pace = (self.growth or 0.0) * self._used / self.period * (periods == 1)
            self._begin += periods * self.period
            self._used = 0
        if self.growth is None:
            wait = 0.0
            is_met = is_refused = self._used + self.weight > self.limit
        else:
            wait = max(0.0, self._next_free - now)
            is_met, is_refused = wait > 0.0, wait > self.patience
        if is_met and self.first_met is None:
            self.first_met = now
        if is_refused:
            self.refused += self.weight
            raise RefusedError
        self.delayed += self.weight * is_met
        self._used += self.weight
        # Up to a second's worth may come at once.
        pace = max(self.limit, self._pace)
        self._next_free = max(self._next_free, now - 1.0) + self.weight / pace
        return wait
