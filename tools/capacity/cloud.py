"""Google Cloud as discrete events: processors, Cloud Run services, push subscriptions and quotas.

Cloud Run scales as https://cloud.google.com/run/docs/about-instance-autoscaling describes, and
Pub/Sub pushes as in the local cloud. Everything that Google's pages leave open is an assumption in
parameters.toml.
"""

from __future__ import annotations

import heapq
import math
from collections import deque
from dataclasses import dataclass, field, fields
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from infra.local.cloud.push_flow import FlowLimits, PushFlow

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    import simpy
    from simpy.events import Event

    from tools.capacity.parameters import Duration, Parameters

    Steps = Generator[Event, Any, Any]

_RETRY_SECONDS: Final = 0.05
"""The pause before on-demand scaling tries again after it could start nothing."""


class RecentCount:
    """Counts events over a window, as an instance of the api does: this window and the last one."""

    def __init__(self, seconds: float) -> None:
        self._seconds, self._begin = seconds, 0.0
        self._before = self._now = 0.0

    def add(self, now: float) -> None:
        """Count one event."""
        self._move(now)
        self._now += 1.0

    def recent(self, now: float) -> float:
        """Return the events of the last window, estimated from two fixed ones."""
        self._move(now)
        return self._now + self._before * max(0.0, 1.0 - (now - self._begin) / self._seconds)

    def _move(self, now: float) -> None:
        if now >= self._begin + 2.0 * self._seconds:
            self._before, self._now, self._begin = 0.0, 0.0, now
        elif now >= self._begin + self._seconds:
            self._before, self._now = self._now, 0.0
            self._begin += self._seconds


class Processor:
    """Processors that jobs share equally, none of them more than one.

    The virtual time is the work that each job has had since the begin, so the end of a job in it
    never changes (Kleinrock, Queueing Systems II, 4).
    """

    def __init__(self, env: simpy.Environment, cpus: float) -> None:
        self._env, self._cpus = env, cpus
        self._jobs: list[tuple[float, int, Event]] = []
        self._virtual = self._updated = 0.0
        self._version = 0

    def work(self, seconds: float) -> Event:
        """Return an event that occurs after this many seconds of processor time."""
        self._catch_up()
        done = self._env.event()
        self._version += 1
        heapq.heappush(self._jobs, (self._virtual + seconds, self._version, done))
        self._schedule()
        return done

    def _rate(self) -> float:
        return min(1.0, self._cpus / len(self._jobs))

    def _catch_up(self) -> None:
        if self._jobs:
            self._virtual += (self._env.now - self._updated) * self._rate()
        else:
            self._virtual = 0.0
        self._updated = self._env.now

    def _schedule(self) -> None:
        if self._jobs:
            left = max(0.0, self._jobs[0][0] - self._virtual) / self._rate()
            self._env.timeout(left).callbacks.append(partial(self._end, self._version))

    def _end(self, version: int, _event: Event) -> None:
        if version != self._version:
            return
        self._catch_up()
        _, _, done = heapq.heappop(self._jobs)
        self._version += 1
        done.succeed()
        self._schedule()


class ServiceInstance:
    """An instance of a service."""

    def __init__(self, env: simpy.Environment, cpus: float, parameters: Parameters) -> None:
        self.processor = Processor(env, cpus)
        self.busy = 0
        self.has_converted = False
        self.arrivals = RecentCount(parameters["deployed.warm_up_window"])
        self.served = RecentCount(parameters["line.seen"])
        self.warm_ups = 0
        self.last_turn = 0.0
        self.turns: simpy.PriorityResource | None = None
        self.share: simpy.Resource | None = None
        self.of_greedy = 0

    def leave_queue(self) -> None:
        """Count one message less of the client that sends many."""
        self.of_greedy -= 1


@dataclass(slots=True)
class Region:
    """The CPUs that all services of a project share."""

    free_cpus: float


@dataclass(frozen=True, slots=True)
class Shape:
    """The fixed properties of a service.

    Attributes:
        start: seconds of work of a start, after the platform's part.
        patience: seconds that a request waits for a slot.
    """

    slots: int
    cpus: float
    minimum: Callable[[float], int]
    maximum: int
    start: Duration
    patience: float


class Service:
    """A Cloud Run service: instances with slots, a queue in front, two ways of scaling.

    A request goes to the started instance with the fewest requests. Metrics-based scaling divides
    the average use of a minute by the target utilisation, on-demand scaling starts instances for
    requests that wait.

    Attributes:
        active_area: seconds of instances that had a request or were starting.
        idle_area: seconds of minimum instances that had none.
    """

    def __init__(
        self,
        env: simpy.Environment,
        shape: Shape,
        parameters: Parameters,
        region: Region,
        *,
        draw: Callable[[Duration], float],
        weight: int,
    ) -> None:
        self.env, self.shape = env, shape
        self._parameters, self._region, self._draw, self._weight = parameters, region, draw, weight
        # The instances by the number of their requests; a dictionary keeps their order.
        self._levels: list[dict[ServiceInstance, None]] = [{} for _ in range(shape.slots + 1)]
        self._waiting: deque[Event] = deque()
        self._is_asked = False
        self._pace = parameters["cloud_run.starts_per_second"] / weight
        self._credit, self._credited = max(1.0, self._pace), 0.0
        self._busy_area = self._cpu_seconds = self._changed = 0.0
        self._most_active = 0
        self.started = self.starting = self.busy = self.active = 0
        self.requests = self.gave_up = self.most_instances = 0
        self.active_area = self.idle_area = 0.0
        self.samples: list[int] = []
        for _ in range(self._least()):
            instance = self._new_instance()
            if instance is not None:
                self._make_ready(instance)
        env.process(self._scale_by_metrics())

    def enter(self) -> Steps:
        """Wait for a slot; return the instance, or None after `patience`."""
        self.requests += 1
        instance = self._least_busy()
        if instance is not None:
            self._occupy(instance)
            return instance
        turn = self.env.event()
        self._waiting.append(turn)
        self._ask()
        yield turn | self.env.timeout(self.shape.patience)
        if not turn.triggered:
            self._waiting.remove(turn)
            self.gave_up += 1
            return None
        return turn.value

    def work(self, instance: ServiceInstance, seconds: float) -> Event:
        """Return an event that occurs after so much processor time of an instance."""
        self._cpu_seconds += seconds
        return instance.processor.work(seconds)

    def leave(self, instance: ServiceInstance) -> None:
        """Give a slot back; the next request takes it."""
        self._account()
        self._move(instance, -1)
        self._admit()

    def account(self) -> None:
        """Bring the areas up to date at the end of the simulation."""
        self._account()

    def _least_busy(self) -> ServiceInstance | None:
        for level in range(self.shape.slots if self.started else 0):
            if self._levels[level]:
                return next(iter(self._levels[level]))
        return None

    def _occupy(self, instance: ServiceInstance) -> None:
        self._account()
        self._move(instance, 1)

    def _move(self, instance: ServiceInstance, change: int) -> None:
        del self._levels[instance.busy][instance]
        self.active += (instance.busy + change > 0) - (instance.busy > 0)
        instance.busy += change
        self.busy += change
        self._levels[instance.busy][instance] = None
        self._most_active = max(self._most_active, self.active)

    def _admit(self) -> None:
        while self._waiting and (instance := self._least_busy()) is not None:
            self._occupy(instance)
            self._waiting.popleft().succeed(instance)

    def _account(self) -> None:
        now = self.env.now
        passed = now - self._changed
        if passed > 0.0:
            active = self.active + self.starting
            self._busy_area += passed * self.busy
            self.active_area += passed * active * self._weight
            idle = self.shape.minimum(self._changed) - active * self._weight
            self.idle_area += passed * max(0, idle)
            self._changed = now

    def _least(self) -> int:
        minimum = math.ceil(self.shape.minimum(self.env.now) / self._weight)
        return min(minimum, self.shape.maximum)

    def _new_instance(self) -> ServiceInstance | None:
        shape = self.shape
        if self.started + self.starting >= shape.maximum or self._region.free_cpus < shape.cpus:
            return None
        self._account()
        self._region.free_cpus -= shape.cpus
        self.starting += 1
        self.most_instances = max(self.most_instances, self.started + self.starting)
        return ServiceInstance(self.env, shape.cpus, self._parameters)

    def _make_ready(self, instance: ServiceInstance) -> None:
        self._account()
        self.starting -= 1
        self.started += 1
        self._levels[0][instance] = None
        self._admit()

    def _start(self, wanted: int) -> None:
        now = self.env.now
        self._credit = min(max(1.0, self._pace), self._credit + (now - self._credited) * self._pace)
        self._credited = now
        for _ in range(wanted):
            if self._credit < 1.0 or (instance := self._new_instance()) is None:
                return
            self._credit -= 1.0
            self.env.process(self._run_start(instance))

    def _run_start(self, instance: ServiceInstance) -> Steps:
        yield self.env.timeout(self._draw(self._parameters.duration("start.platform")))
        yield self.work(instance, self._draw(self.shape.start))
        self._make_ready(instance)

    def _ask(self) -> None:
        if not self._is_asked:
            self._is_asked = True
            self.env.process(self._scale_on_demand())

    def _scale_on_demand(self) -> Steps:
        pause = self._parameters["cloud_run.reaction"]
        while True:
            yield self.env.timeout(pause)
            self._start(math.ceil(len(self._waiting) / self.shape.slots) - self.starting)
            is_full = self.started + self.starting >= self.shape.maximum
            if len(self._waiting) <= self.starting * self.shape.slots or is_full:
                self._is_asked = False
                return
            pause = max(pause, _RETRY_SECONDS)

    def _scale_by_metrics(self) -> Steps:
        parameters, shape = self._parameters, self.shape
        tick = parameters["cloud_run.tick"]
        window = round(parameters["cloud_run.window"] / tick)
        areas = deque([(0.0, 0.0)], maxlen=window + 1)
        needed: deque[int] = deque(maxlen=round(parameters["cloud_run.keep"] / tick) + 1)
        while True:
            self._account()
            self.samples.append(self.started + self.starting)
            areas.append((self._cpu_seconds, self._busy_area))
            seconds = tick * (len(areas) - 1)
            by_cpus = (areas[-1][0] - areas[0][0]) / (
                seconds * shape.cpus * parameters["cloud_run.cpu_target"]
            )
            by_slots = (areas[-1][1] - areas[0][1]) / (
                seconds * shape.slots * parameters["cloud_run.slot_target"]
            )
            # A rounding error is no reason to start an instance.
            desired = math.ceil(max(by_cpus, by_slots) - 1e-9)
            needed.append(max(desired, self._most_active))
            self._most_active = self.active
            least = self._least()
            missing = max(least, desired) - self.started - self.starting
            if missing > 0:
                self._start(missing)
            for _ in range(self.started + self.starting - max(least, *needed)):
                self._stop_idle_instance()
            if self._waiting:
                self._ask()
            yield self.env.timeout(tick)

    def _stop_idle_instance(self) -> None:
        if self._levels[0]:
            self._account()
            del self._levels[0][next(iter(self._levels[0]))]
            self.started -= 1
            self._region.free_cpus += self.shape.cpus


class PushSubscription:
    """A push subscription: the retry of each message, and the flow of all of them."""

    def __init__(
        self, env: simpy.Environment, parameters: Parameters, attempts: int, weight: int
    ) -> None:
        self.env, self._parameters, self._attempts = env, parameters, attempts
        limits = {each.name: parameters[f"pubsub.{each.name}"] for each in fields(FlowLimits)}
        self.flow = PushFlow(FlowLimits(**limits).of_sample(weight))
        self.most_waiting = self.delivered = 0
        self._waiting: deque[Event] = deque()
        self._is_waking = False

    def deliver(self, handle: Callable[[], Steps]) -> Steps:
        """Push a message until `handle` returns True; return False when it is given up."""
        parameters = self._parameters
        for attempt in range(self._attempts):
            turn = self.env.event()
            self._waiting.append(turn)
            self.most_waiting = max(self.most_waiting, len(self._waiting))
            self._advance()
            yield turn
            self.delivered += 1
            acknowledged = yield from handle()
            self.flow.end(self.env.now, acknowledged=acknowledged)
            self._advance()
            if acknowledged:
                return True
            growth = parameters["pubsub.backoff_growth"] ** attempt
            pause = parameters["pubsub.minimum_backoff"] * growth
            yield self.env.timeout(min(parameters["pubsub.maximum_backoff"], pause))
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
        patience: seconds that a use may wait before it fails.
        first_met: the moment at which it first bound, or None.
    """

    limit: float
    period: float
    growth: float | None
    patience: float
    weight: int
    delayed: int = 0
    refused: int = 0
    most_in_second: float = 0.0
    first_met: float | None = None
    _pace: float = field(init=False)
    _begin: float = 0.0
    _used: float = 0.0
    _next_free: float = 0.0
    _second: int = -1
    _in_second: float = 0.0

    def __post_init__(self) -> None:
        self._pace = self.limit

    def take(self, now: float) -> float | None:
        """Use it once per visitor stood for; return the seconds that this takes, or None."""
        amount = self.weight
        if math.floor(now) != self._second:
            self._second, self._in_second = math.floor(now), 0.0
        self._in_second += amount
        self.most_in_second = max(self.most_in_second, self._in_second)
        if now >= self._begin + self.period:
            self._begin_period(now)
        if self.growth is None:
            if self._used + amount > self.limit:
                self._refuse(now)
                return None
            self._used += amount
            return 0.0
        wait = max(0.0, self._next_free - now)
        if wait > self.patience:
            self._refuse(now)
            return None
        # Up to a second's worth may come at once.
        self._next_free = max(self._next_free, now - 1.0) + amount / self._pace
        self._used += amount
        if wait > 0.0:
            self.delayed += amount
            self._note(now)
        return wait

    def _begin_period(self, now: float) -> None:
        periods = math.floor((now - self._begin) / self.period)
        recent = self._used / self.period if periods == 1 else 0.0
        self._pace = max(self.limit, (self.growth or 0.0) * recent)
        self._begin += periods * self.period
        self._used = 0.0

    def _refuse(self, now: float) -> None:
        self.refused += self.weight
        self._note(now)

    def _note(self, now: float) -> None:
        if self.first_met is None:
            self.first_met = now
