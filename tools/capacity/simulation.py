"""The way of a voice through the cloud, from the visitor's click to `done` at the listener."""

from __future__ import annotations

import math
import random
from contextlib import ExitStack
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

import simpy

from tools.capacity.cloud import PushSubscription, RateLimit, Region, Service, Shape
from tools.capacity.parameters import Duration
from tools.capacity.settings import MOST_INSTANCES, Instances, Quota, Signing

if TYPE_CHECKING:
    from collections.abc import Callable

    from tools.capacity.arrivals import Arrivals
    from tools.capacity.cloud import ServiceInstance, Steps
    from tools.capacity.parameters import Parameters
    from tools.capacity.settings import Settings

AFTERWARDS: Final = 3_600.0
"""Seconds after the last arrival for which voices without an end are simulated."""

GREEDY_EVERY: Final = 60.0
PROGRESS_EVERY: Final = 1_000
SPOKEN_SECONDS: Final = 3.0
"""The length of the recordings by which the converter's whole work was measured."""


class VoiceEnd(StrEnum):
    """The end of a voice."""

    UNDER_WAY = "under way"
    DONE = "done"
    LEFT = "left"
    REFUSED = "refused"
    DEAD = "given up"


@dataclass(slots=True)
class SimulatedVisit:
    """A visitor and the visitor's voice; all times are seconds of the simulation."""

    arrived: float
    spoken: float
    released: float = 0.0
    ended: float = 0.0
    outcome: VoiceEnd = VoiceEnd.UNDER_WAY
    turns: int = 0
    in_line: float = 0.0
    is_greedy: bool = False


@dataclass(frozen=True, slots=True)
class Allowance:
    """The voices that may be late, lost ones included; one more ends a simulation."""

    seconds: float
    voices: int


class Simulation:
    """A crowd of visitors of one deployment."""

    def __init__(
        self,
        parameters: Parameters,
        settings: Settings,
        arrivals: Arrivals,
        *,
        seed: int = 0,
        told: Callable[[int], None] = lambda _: None,
    ) -> None:
        self.parameters, self.settings, self.arrivals = parameters, settings, arrivals
        self.env = env = simpy.Environment()
        self._random, self._told = random.Random(seed), told  # noqa: S311 - nothing secret
        self._durations = {name: each.duration for name, each in parameters}
        self.visits = [
            SimulatedVisit(arrived, spoken)
            for arrived, spoken in zip(
                arrivals.times.tolist(), arrivals.spoken.tolist(), strict=True
            )
        ]
        self.quotas = self._quotas()
        region = Region(parameters["cloud_run.region_cpus"] / arrivals.weight)
        self.api, self.on_upload, self.convert, self.live = (
            Service(env, shape, parameters, region, draw=self._draw, weight=arrivals.weight)
            for shape in self._shapes()
        )
        attempts = settings.delivery_attempts
        self.uploads, self.conversions, self.texts = (
            PushSubscription(env, parameters, attempts, arrivals.weight) for _ in range(3)
        )
        whole = parameters["processor.converter"]
        conversion = parameters.duration("processor.conversion")
        self._beside = max(0.0, whole - conversion.at(SPOKEN_SECONDS)) / 2
        self._conversion = Duration(
            conversion.median, parameters["processor.variation"], conversion.per_spoken
        )
        self._speech = Duration(parameters["processor.text"], parameters["processor.variation"])
        self.greedy: list[SimulatedVisit] = []
        self._over = env.event()
        self._ended = self._late = 0
        self._allowance = Allowance(math.inf, len(self.visits))

    @property
    def services(self) -> tuple[Service, Service, Service, Service]:
        """The services in the order of `Instances`."""
        return self.api, self.on_upload, self.convert, self.live

    @property
    def most_instances(self) -> Instances:
        """The most instances that each service had at once."""
        weight = self.arrivals.weight
        return Instances(*(weight * service.most_instances for service in self.services))

    def run(self, allowance: Allowance | None = None) -> Simulation:
        """Simulate until every voice has an end, or more voices are late than `allowance` allows.

        Voices that are under way then, and those that have not begun, count as lost.
        """
        self._allowance = allowance or self._allowance
        seconds = self.arrivals.seconds
        self.env.process(self._arrive())
        if self.parameters["visitor.burst"]:
            self.env.process(self._send_bursts())
        if self.visits:
            self.env.run(self._over | self.env.timeout(seconds + AFTERWARDS))
        if self.env.now < seconds and self._late <= self._allowance.voices:
            self.env.run(seconds)
        for service in self.services:
            service.account()
        return self

    # ---- the way of a voice

    def _arrive(self) -> Steps:
        for visit in self.visits:
            yield self.env.timeout(visit.arrived - self.env.now)
            self.env.process(self._visit(visit))

    def _send_bursts(self) -> Steps:
        """Let one client upload many voices at once, each minute."""
        while True:
            yield self.env.timeout(GREEDY_EVERY)
            for _ in range(math.ceil(self.parameters["visitor.burst"] / self.arrivals.weight)):
                now = self.env.now
                visit = SimulatedVisit(now, SPOKEN_SECONDS, released=now, is_greedy=True)
                self.greedy.append(visit)
                self.env.process(self._upload(visit))

    def _visit(self, visit: SimulatedVisit) -> Steps:
        texts, live = self.parameters["visitor.texts"], self.parameters["visitor.live"]
        kind = self._random.random()
        if kind < texts:
            yield from self._send_text(visit)
            return
        if kind < texts + live:
            if (yield from self._speak_live(visit)):
                return
        else:
            if not (yield from self._create(visit, warms_up=True)):
                return
            yield self._pause("visitor.way")
            visit.released = visit.arrived + visit.spoken
            yield self.env.timeout(max(0.0, visit.released - self.env.now))
            if self._random.random() < self.parameters["visitor.leaving"]:
                self._end(visit, VoiceEnd.LEFT)
                return
        yield from self._upload(visit)

    def _create(self, visit: SimulatedVisit, *, warms_up: bool) -> Steps:
        """Return whether the api has created the voice before the visitor gave up."""
        while True:
            yield self._pause("visitor.way")
            instance = yield from self.api.enter()
            if instance is not None:
                yield self.api.work(instance, self._duration("processor.api"))
                if (yield from self._sign()) and (yield from self._write_document()):
                    self._serve(instance, warms_up=warms_up)
                    return True
            if not (yield from self._come_back(visit, instance)):
                return False

    def _serve(self, instance: ServiceInstance, *, warms_up: bool) -> None:
        instance.served.add(self.env.now)
        if warms_up and self.settings.warm_up:
            self._warm_up(instance)
        self.api.leave(instance)

    def _upload(self, visit: SimulatedVisit) -> Steps:
        start = self.parameters.duration("visitor.upload_start")
        longer = self.parameters["visitor.upload_per_spoken"]
        while True:
            duration = Duration(start.median, start.sigma, longer)
            yield self.env.timeout(self._draw(duration, visit.spoken))
            if (yield from self._take(Quota.UPLOADS_WRITES)):
                break
            if not (yield from self._come_back(visit, None)):
                return
        yield self._pause("google.storage_write", "google.notification")
        if not (yield from self.uploads.deliver(lambda: self._handle_upload(visit))):
            self._end(visit, VoiceEnd.DEAD)

    def _handle_upload(self, visit: SimulatedVisit) -> Steps:
        yield self._pause("google.push")
        instance = yield from self.on_upload.enter()
        if instance is None:
            return False
        yield self.on_upload.work(instance, self._duration("processor.on_upload"))
        yield self._pause("google.firestore_read", "google.publish")
        self.env.process(self._convert(visit, self.conversions, self._conversion))
        # The message is out: the conversion goes on whatever happens to the record.
        yield from self._write_document()
        self.on_upload.leave(instance)
        return True

    def _send_text(self, visit: SimulatedVisit) -> Steps:
        visit.released = visit.arrived
        while True:
            yield self._pause("visitor.way")
            instance = yield from self.api.enter()
            if instance is not None:
                yield self.api.work(instance, self._duration("processor.api"))
                if (yield from self._write_document()) and (
                    yield from self._take(Quota.UPLOADS_WRITES)
                ):
                    break
            if not (yield from self._come_back(visit, instance)):
                return
        yield self._pause("google.storage_write", "google.publish")
        self.env.process(self._convert(visit, self.texts, self._speech))
        yield from self._write_document()
        self._serve(instance, warms_up=True)

    def _convert(
        self, visit: SimulatedVisit, subscription: PushSubscription, work: Duration
    ) -> Steps:
        if not (yield from subscription.deliver(lambda: self._handle_conversion(visit, work))):
            self._end(visit, VoiceEnd.DEAD)

    def _handle_conversion(self, visit: SimulatedVisit, work: Duration) -> Steps:
        yield self._pause("google.push")
        instance = yield from self.convert.enter()
        if instance is None:
            return False
        try:
            return (yield from self._carry_out(visit, instance, work))
        finally:
            self.convert.leave(instance)

    def _carry_out(self, visit: SimulatedVisit, instance: ServiceInstance, work: Duration) -> Steps:
        yield self.convert.work(instance, self._beside)
        yield self._pause("google.firestore_read")
        if not (yield from self._write_document()):
            return False
        is_done = yield from self._await_turn(visit, instance, work)
        if is_done and (yield from self._take(Quota.UPLOADS_WRITES)):
            yield self._pause("google.storage_write")
        return is_done

    def _await_turn(
        self, visit: SimulatedVisit, instance: ServiceInstance, work: Duration
    ) -> Steps:
        """Convert in a turn, which is that of the client that has had least (FairQueue)."""
        slots = self.settings.slots
        if instance.turns is None or instance.share is None:
            instance.turns = simpy.PriorityResource(self.env, slots)
            instance.share = simpy.Resource(self.env, max(1, slots - 1))
        patience = self.env.timeout(self.parameters["deployed.queue_seconds"])
        with ExitStack() as held:
            if visit.is_greedy:
                instance.of_greedy += 1
                held.callback(instance.leave_queue)
                share = held.enter_context(instance.share.request())
                yield share | patience
            turn = held.enter_context(instance.turns.request(instance.of_greedy * visit.is_greedy))
            yield turn | patience
            if not turn.triggered:
                return False
            return (yield from self._convert_in_turn(visit, instance, work))

    def _convert_in_turn(
        self, visit: SimulatedVisit, instance: ServiceInstance, work: Duration
    ) -> Steps:
        convert = self.convert
        if not (yield from self._take(Quota.UPLOADS_READS)):
            return False
        yield self._pause("google.storage_read")
        yield convert.work(instance, self._draw(work, visit.spoken) + self._first_work(instance))
        if not (yield from self._take(Quota.RESULTS_WRITES)):
            return False
        yield self._pause("google.storage_write")
        if not (yield from self._sign()):
            return False
        yield convert.work(instance, self._beside)
        if not (yield from self._write_document()):
            return False
        self.env.process(self._tell(visit, "google.listener"))
        return True

    def _speak_live(self, visit: SimulatedVisit) -> Steps:
        """Return whether the voice has ended; one that found no place is uploaded."""
        if not (yield from self._create(visit, warms_up=False)):
            return True
        yield self._pause("visitor.way")
        instance = yield from self.live.enter()
        begin = visit.arrived if instance is not None else self.env.now
        visit.released = begin + visit.spoken
        yield self.env.timeout(max(0.0, visit.released - self.env.now))
        is_leaving = self._random.random() < self.parameters["visitor.leaving"]
        if is_leaving:
            self._end(visit, VoiceEnd.LEFT)
        if instance is None:
            return is_leaving
        try:
            return is_leaving or (yield from self._convert_live(visit, instance))
        finally:
            self.live.leave(instance)

    def _tell_on_upload(self, over: simpy.Event) -> Steps:
        yield self._pause("google.notification")
        yield from self.uploads.deliver(lambda: self._await_live(over))

    def _await_live(self, over: simpy.Event) -> Steps:
        """Let on_upload wait until `live` has ended a voice."""
        yield self._pause("google.push")
        instance = yield from self.on_upload.enter()
        if instance is None:
            return False
        yield self.on_upload.work(instance, self._duration("processor.on_upload"))
        yield self._pause("google.firestore_read")
        pause = self.parameters["deployed.first_pause"]
        while not over.triggered:
            yield self.env.timeout(pause)
            pause = min(2.0, 2.0 * pause)
            yield self._pause("google.firestore_read")
        self.on_upload.leave(instance)
        return True

    def _convert_live(self, visit: SimulatedVisit, instance: ServiceInstance) -> Steps:
        if not (yield from self._take(Quota.UPLOADS_WRITES)):
            return False
        yield self._pause("google.storage_write")
        over = self.env.event()
        self.env.process(self._tell_on_upload(over))
        try:
            return (yield from self._convert_stored(visit, instance))
        finally:
            over.succeed()

    def _convert_stored(self, visit: SimulatedVisit, instance: ServiceInstance) -> Steps:
        yield self.live.work(instance, self._beside)
        if not (yield from self._write_document()):
            return False
        if instance.turns is None:
            instance.turns = simpy.PriorityResource(self.env, self.settings.slots)
        with instance.turns.request() as turn:
            yield turn
            seconds = self._draw(self._conversion, visit.spoken) + self._first_work(instance)
            yield self.live.work(instance, seconds)
            # The sound is sent before it is stored.
            self.env.process(self._tell(visit, "visitor.way"))
            if (yield from self._take(Quota.RESULTS_WRITES)):
                yield self._pause("google.storage_write")
                if (yield from self._sign()):
                    yield self.live.work(instance, self._beside)
                    if (yield from self._write_document()) and (
                        yield from self._take(Quota.UPLOADS_WRITES)
                    ):
                        yield self._pause("google.storage_write")
        return True

    def _tell(self, visit: SimulatedVisit, way: str) -> Steps:
        yield self._pause(way)
        self._end(visit, VoiceEnd.DONE)

    def _come_back(self, visit: SimulatedVisit, instance: ServiceInstance | None) -> Steps:
        """Let a refused visitor wait in line; return whether the visitor tries again.

        An instance of the api gives turns at the pace at which it has served. A visitor who met no
        instance waits twice as long each time (web/client/src/line.ts).
        """
        parameters, now = self.parameters, self.env.now
        seconds = min(parameters["line.longest_backoff"], 2.0**visit.turns)
        if instance is not None:
            seen = parameters["line.seen"]
            pace = max(1.0, instance.served.recent(now) / seen)
            turn = max(instance.last_turn + 1.0 / pace, now + parameters["line.soonest"])
            instance.last_turn = min(turn, now + parameters["line.latest"])
            seconds = math.ceil(instance.last_turn - now)
            self.api.leave(instance)
        left = parameters["line.patience"] - visit.in_line
        if seconds > left:
            self._end(visit, VoiceEnd.REFUSED)
            return False
        jitter = parameters["line.jitter"] * self._random.random()
        seconds = min(left, seconds * (1.0 + jitter))
        visit.in_line += seconds
        visit.turns += 1
        yield self.env.timeout(seconds)
        return True

    def _warm_up(self, instance: ServiceInstance) -> None:
        """Send a warm-up unless as many are under way as the recent arrivals will take slots."""
        instance.arrivals.add(self.env.now)
        window = self.parameters["deployed.warm_up_window"]
        slots = self.parameters["deployed.warm_up_slot_seconds"] / window
        wanted = math.ceil(instance.arrivals.recent(self.env.now) * slots)
        if instance.warm_ups < min(self.settings.warm_ups_at_once, wanted):
            self.env.process(self._send_warm_up(instance))

    def _send_warm_up(self, api: ServiceInstance) -> Steps:
        api.warm_ups += 1
        instance = yield from self.convert.enter()
        if instance is not None:
            yield self.convert.work(instance, self._duration("processor.warm_up"))
            self.convert.leave(instance)
        api.warm_ups -= 1

    def _end(self, visit: SimulatedVisit, outcome: VoiceEnd) -> None:
        if visit.outcome is not VoiceEnd.UNDER_WAY:
            return
        visit.outcome, visit.ended = outcome, self.env.now
        if visit.is_greedy:
            return
        self._ended += 1
        if self._ended % PROGRESS_EVERY == 0:
            self._told(PROGRESS_EVERY * self.arrivals.weight)
        waited = self.env.now - visit.released
        if outcome is not VoiceEnd.LEFT and (
            outcome is not VoiceEnd.DONE or waited > self._allowance.seconds
        ):
            self._late += 1
        is_over = self._ended == len(self.visits) or self._late > self._allowance.voices
        if is_over and not self._over.triggered:
            self._over.succeed()

    # ---- steps that several ways share

    def _draw(self, duration: Duration, spoken: float = 0.0) -> float:
        typical = duration.median + duration.per_spoken * spoken
        if not duration.sigma:
            return typical
        return typical * math.exp(duration.sigma * self._random.gauss(0.0, 1.0))

    def _duration(self, name: str) -> float:
        return self._draw(self._durations[name])

    def _pause(self, *names: str) -> simpy.Event:
        return self.env.timeout(sum(self._draw(self._durations[name]) for name in names))

    def _first_work(self, instance: ServiceInstance) -> float:
        if instance.has_converted:
            return 0.0
        instance.has_converted = True
        return self._duration("processor.first_voice")

    def _take(self, quota: Quota) -> Steps:
        """Use a quota; return False if it refuses."""
        if quota in self.settings.lifted:
            return True
        wait = self.quotas[quota].take(self.env.now)
        if wait:
            yield self.env.timeout(wait)
        return wait is not None

    def _sign(self) -> Steps:
        if self.settings.signing is Signing.IAM:
            if not (yield from self._take(Quota.SIGN_BLOB)):
                return False
            yield self._pause("google.sign_blob")
        return True

    def _write_document(self) -> Steps:
        for quota in (Quota.FIRESTORE_INDEX, Quota.FIRESTORE_RAMP):
            if not (yield from self._take(quota)):
                return False
        yield self._pause("google.firestore_write")
        return True

    # ---- the deployment

    def _shapes(self) -> tuple[Shape, ...]:
        parameters, settings, weight = self.parameters, self.settings, self.arrivals.weight
        hours, begin = settings.busy_hours, self.arrivals.begin
        boost = parameters["start.boost"]

        def share(instances: int) -> int:
            return math.ceil(instances / weight)

        def converters(now: float) -> int:
            if hours is None or not hours.begin * 3600 <= begin + now < hours.end * 3600:
                return settings.minimum.convert
            return max(settings.minimum.convert, hours.min_instances)

        def shape(name: str, slots: int, cpus: float, patience: str, start: str) -> Shape:
            least = int(getattr(settings.minimum, name))
            has_live = name != "live" or parameters["visitor.live"] > 0
            most = getattr(settings.maximum, name) or (MOST_INSTANCES if has_live else 1)
            seconds = Duration(parameters[f"start.{start}"] / boost, 0.1)
            minimum = converters if name == "convert" else lambda _: least
            return Shape(slots, cpus, minimum, share(most), seconds, parameters[patience])

        function, container = parameters["deployed.function_cpus"], float(settings.convert_cpu)
        on_upload, sockets = (
            int(parameters[f"deployed.{name}"]) for name in ("on_upload_concurrency", "sockets")
        )
        patience = "cloud_run.patience"
        return (
            shape("api", settings.api_concurrency, function, patience, "api"),
            shape("on_upload", on_upload, function, patience, "on_upload"),
            shape("convert", settings.places, container, patience, "convert"),
            # The service live is the same image.
            shape("live", sockets, container, "line.first_word", "convert"),
        )

    def _quotas(self) -> dict[Quota, RateLimit]:
        parameters, weight = self.parameters, self.arrivals.weight
        shards, patience = self.settings.upload_shards, parameters["quota.patience"]
        storage = parameters["quota.storage_period"], parameters["quota.storage_growth"]
        writes, reads = (
            shards * parameters[f"quota.storage_{name}"] for name in ("writes", "reads")
        )
        index = parameters["quota.firestore_index"] * parameters["deployed.index_parts"]
        ramp = parameters["quota.firestore_ramp"] * parameters["deployed.collections"]
        ramp_period, ramp_growth = (
            parameters[f"quota.firestore_ramp_{name}"] for name in ("period", "growth")
        )
        limits: dict[Quota, tuple[float, float, float | None]] = {
            Quota.SIGN_BLOB: (parameters["quota.sign_blob"], 60.0, None),
            Quota.FIRESTORE_INDEX: (index, 60.0, 0.0),
            Quota.FIRESTORE_RAMP: (ramp, ramp_period, ramp_growth),
            Quota.UPLOADS_WRITES: (writes, *storage),
            Quota.UPLOADS_READS: (reads, *storage),
            Quota.RESULTS_WRITES: (writes, *storage),
        }
        return {
            quota: RateLimit(limit, period, growth, patience, weight)
            for quota, (limit, period, growth) in limits.items()
        }
