"""The way of a voice through the cloud, from the visitor's click to `done` at the listener."""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Final

import numpy as np

from tools.capacity.cloud import (
    PushSubscription,
    RateLimit,
    RefusedError,
    Service,
    World,
)
from tools.capacity.parameters import Duration
from tools.capacity.settings import Quota, Signing

if TYPE_CHECKING:
    from simpy.events import Event

    from tools.capacity.arrivals import Arrivals
    from tools.capacity.cloud import ServiceInstance, Steps
    from tools.capacity.parameters import Parameters
    from tools.capacity.settings import Instances, Settings

AFTERWARDS: Final = 3_600.0
"""Seconds after the last arrival for which voices without an end are simulated."""

MOST_UNFINISHED: Final = 30
"""Voices that one client may have unfinished at once."""

SPOKEN_SECONDS: Final = 3.0
"""The length of the recordings by which the converter's whole work was measured."""


class VoiceEnd(StrEnum):
    UNDER_WAY = "under way"
    DONE = "done"
    LEFT = "left"
    REFUSED = "refused"
    DEAD = "given up"


class GaveUpError(Exception):
    """A visitor gave up waiting in line."""


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


class Simulation:
    """A crowd of visitors of one deployment."""

    def __init__(
        self, parameters: Parameters, settings: Settings, arrivals: Arrivals, *, seed: int = 0
    ) -> None:
        self.parameters, self.settings, self.arrivals = parameters, settings, arrivals
        cpus = parameters["cloud_run.region_cpus"] / arrivals.weight
        chance = np.random.default_rng(seed)
        self.world = world = World(parameters, arrivals.weight, chance, free_cpus=cpus)
        self.env, self.pause = world.env, world.pause
        times, spoken = arrivals.times.tolist(), arrivals.spoken.tolist()
        self.visits = [SimulatedVisit(*each) for each in zip(times, spoken, strict=True)]
        # One client that uploads all of its recordings at once.
        for moment in arrivals.bursts:
            client = SimulatedVisit(moment, parameters["visitor.spoken"], is_greedy=True)
            self.visits += [replace(client) for _ in range(MOST_UNFINISHED)]
        self.visits.sort(key=attrgetter("arrived"))
        self.quotas = rate_limits(parameters, settings.upload_shards, arrivals.weight)
        on_upload, sockets = (
            int(parameters[f"deployed.{name}"]) for name in ("on_upload_concurrency", "sockets")
        )
        container, places = (settings.convert_cpu, settings.slots), 2 * settings.slots
        # Half of the messages in a converter wait for their turn.
        self.services = {
            name: Service(
                world,
                start=f"start.{start}",
                slots=slots,
                minimum=minimum,
                maximum=settings.max_instances,
                size=size,
            )
            for name, start, slots, minimum, size in (
                ("api", "api", settings.api_concurrency, settings.api_min_instances, (1, 1)),
                ("on_upload", "on_upload", on_upload, settings.on_upload_min_instances, (1, 1)),
                ("convert", "convert", places, settings.min_instances, container),
                ("live", "convert", sockets, 0, container),
            )
        }
        self.api, self.on_upload, self.convert, self.live = self.services.values()
        # A visitor who has no connection by then uploads.
        self.live.patience = parameters["line.first_word"]
        self.uploads, self.conversions, self.texts = (
            PushSubscription(world, settings.delivery_attempts) for _ in range(3)
        )
        conversion = parameters.durations["processor.conversion"]
        variation, whole = parameters["processor.variation"], parameters["processor.converter"]
        # The converter's work before and after a conversion.
        self._beside = max(0.0, whole - conversion.at(SPOKEN_SECONDS)) / 2
        self._conversion = Duration(conversion.median, variation, conversion.per_spoken)
        text = parameters.durations["processor.text"]
        self._speech = Duration(text.median, variation, text.per_spoken)
        self._over = self.env.event()
        self._ended = 0

    @property
    def most_instances(self) -> Instances:
        """The most instances that each service had at once."""
        weight = self.arrivals.weight
        return {name: weight * service.most_instances for name, service in self.services.items()}

    def run(self) -> Simulation:
        """Simulate until every voice has an end; those still under way after an hour are lost."""
        seconds = self.arrivals.seconds
        self.env.process(self.let_visitors_in())
        if self.visits:
            self.env.run(self._over | self.env.timeout(seconds + AFTERWARDS))
        if self.env.now < seconds:
            self.env.run(seconds)
        for service in self.services.values():
            service.account()
        return self

    # ---- the way of a voice

    def let_visitors_in(self) -> Steps:
        for visit in self.visits:
            yield self.env.timeout(max(0.0, visit.arrived - self.env.now))
            self.env.process(self.visit(visit))

    def visit(self, visit: SimulatedVisit) -> Steps:
        texts, live = self.parameters["visitor.texts"], self.parameters["visitor.live"]
        kind = 1.0 if visit.is_greedy else self.world.chance.random()
        try:
            if kind < texts:
                visit.released = visit.arrived
                yield from self.create(visit, is_text=True)
                yield self.pause("google.storage_write", "google.publish")
                yield from self.convert_pushed(visit, self.texts, is_text=True)
            elif kind < texts + live:
                yield from self.create(visit, warms_up=False)
                yield from self.speak_live(visit)
            else:
                yield from self.create(visit)
                if (yield from self.speak(visit, visit.arrived)):
                    yield from self.upload(visit)
        except GaveUpError:
            self.end(visit, VoiceEnd.REFUSED)

    def create(
        self, visit: SimulatedVisit, *, is_text: bool = False, warms_up: bool = True
    ) -> Steps:
        """Have the api create a voice, or also store its text."""
        while True:
            yield self.pause("visitor.way")
            try:
                instance = yield from self.api.enter()
                with self.api.holding(instance):
                    yield from self.api.work(instance, self.world.seconds("processor.api"))
                    seconds = self.take(Quota.UPLOADS_WRITES) if is_text else self.sign()
                    yield self.write_document(seconds)
                    if warms_up and self.settings.warm_up:
                        self.warm_up(instance)
                yield self.pause("visitor.way")
            except RefusedError:
                yield from self.wait_in_line(visit)
            else:
                return

    def warm_up(self, api: ServiceInstance) -> None:
        """Send a warm-up unless as many are under way as the recent arrivals will take slots."""
        window = self.parameters["deployed.warm_up_window"]
        api.arrivals.append(self.env.now)
        while api.arrivals[0] < self.env.now - window:
            api.arrivals.popleft()
        slots = self.parameters["deployed.warm_up_slot_seconds"] / window
        wanted = math.ceil(len(api.arrivals) * slots)
        if api.warm_ups < min(self.settings.warm_ups_at_once, wanted):
            api.warm_ups += 1
            self.env.process(self.send_warm_up(api))

    def send_warm_up(self, api: ServiceInstance) -> Steps:
        with suppress(RefusedError):
            instance = yield from self.convert.enter()
            with self.convert.holding(instance):
                yield from self.convert.work(instance, self.world.seconds("processor.warm_up"))
        api.warm_ups -= 1

    def wait_in_line(self, visit: SimulatedVisit) -> Steps:
        """Let a refused visitor wait, twice as long each time, or raise GaveUpError.

        As in web/client/src/line.ts where the api does not say how long.
        """
        parameters = self.parameters
        seconds = min(parameters["line.longest_backoff"], 2.0**visit.turns)
        left = parameters["line.patience"] - visit.in_line
        if seconds > left:
            raise GaveUpError
        jitter = parameters["line.jitter"] * self.world.chance.random()
        seconds = min(left, seconds * (1.0 + jitter))
        visit.in_line += seconds
        visit.turns += 1
        yield self.env.timeout(seconds)

    def speak(self, visit: SimulatedVisit, begin: float) -> Steps:
        """Wait until a visitor has spoken; return whether the visitor stays."""
        visit.released = begin + visit.spoken
        yield self.env.timeout(max(0.0, visit.released - self.env.now))
        leaving = 0.0 if visit.is_greedy else self.parameters["visitor.leaving"]
        if self.world.chance.random() < leaving:
            self.end(visit, VoiceEnd.LEFT)
            return False
        return True

    def upload(self, visit: SimulatedVisit) -> Steps:
        start = self.parameters.durations["visitor.upload_start"]
        way = Duration(start.median, start.sigma, self.parameters["visitor.upload_per_spoken"])
        is_stored = False
        while not is_stored:
            yield self.env.timeout(self.world.draw(way, visit.spoken))
            try:
                seconds = self.take(Quota.UPLOADS_WRITES)
                is_stored = True
            except RefusedError:
                yield from self.wait_in_line(visit)
        yield self.pause("google.storage_write", "google.notification", seconds=seconds)
        if not (yield from self.uploads.deliver(lambda: self.publish(visit))):
            self.end(visit, VoiceEnd.DEAD)

    def publish(self, visit: SimulatedVisit) -> Steps:
        """Have on_upload publish a conversion message and record it."""
        yield self.pause("google.push")
        instance = yield from self.on_upload.enter()
        with self.on_upload.holding(instance):
            yield from self.on_upload.work(instance, self.world.seconds("processor.on_upload"))
            yield self.pause("google.firestore_read", "google.publish")
            self.env.process(self.convert_pushed(visit, self.conversions))
            # The message is out: the conversion goes on whatever happens to the record.
            with suppress(RefusedError):
                yield self.write_document()

    def convert_pushed(
        self, visit: SimulatedVisit, subscription: PushSubscription, *, is_text: bool = False
    ) -> Steps:
        handle = partial(self.convert_message, visit, is_text=is_text)
        if not (yield from subscription.deliver(handle)):
            self.end(visit, VoiceEnd.DEAD)

    def convert_message(self, visit: SimulatedVisit, *, is_text: bool) -> Steps:
        yield self.pause("google.push")
        instance = yield from self.convert.enter()
        with self.convert.holding(instance):
            yield self.write_document(self.convert.spend(self._beside), "google.firestore_read")
            if turn := instance.turns.take(is_greedy=visit.is_greedy):
                yield turn | self.pause("deployed.queue_seconds")
                if not turn.triggered:
                    instance.turns.withdraw(turn)
                    raise RefusedError
            begin = self.env.now
            try:
                seconds = self.take(Quota.UPLOADS_READS)
                yield self.pause("google.storage_read", seconds=seconds)
                yield from self.compute(self.convert, visit, instance, is_text=is_text)
                yield self.store_result(self.convert)
                self.tell(visit, "google.listener")
            finally:
                instance.turns.leave((self.env.now - begin) * visit.is_greedy)
            with suppress(RefusedError):
                seconds = self.take(Quota.UPLOADS_WRITES)
                yield self.pause("google.storage_write", seconds=seconds)

    def compute(
        self,
        service: Service,
        visit: SimulatedVisit,
        instance: ServiceInstance,
        *,
        is_text: bool = False,
    ) -> Steps:
        """Do the work of a conversion; the first one of an instance takes longer."""
        seconds = self.world.draw(self._speech if is_text else self._conversion, visit.spoken)
        if not instance.has_converted:
            seconds += self.world.seconds("processor.first_voice")
        if is_text and not instance.has_spoken:
            seconds += self.world.seconds("processor.first_text")
        instance.has_converted, instance.has_spoken = True, instance.has_spoken or is_text
        yield from service.work(instance, seconds)

    def store_result(self, service: Service) -> Event:
        """Return the end of the result's and the document's writing."""
        seconds = service.spend(self._beside) + self.sign(Quota.RESULTS_WRITES)
        return self.write_document(seconds, "google.storage_write")

    def tell(self, visit: SimulatedVisit, way: str) -> None:
        """Let a visitor know of the end of a voice."""
        self.pause(way).callbacks.append(lambda _: self.end(visit, VoiceEnd.DONE))

    def speak_live(self, visit: SimulatedVisit) -> Steps:
        """Speak into a WebSocket; a visitor who finds no place uploads."""
        try:
            instance = yield from self.live.enter()
        except RefusedError:
            if (yield from self.speak(visit, self.env.now)):
                yield from self.upload(visit)
            return
        with self.live.holding(instance):
            if not (yield from self.speak(visit, visit.arrived)):
                return
            over = self.env.event()
            try:
                seconds = self.take(Quota.UPLOADS_WRITES)
                yield self.pause("google.storage_write", seconds=seconds)
                self.env.process(self.uploads.deliver(lambda: self.await_live(over)))
                yield self.write_document(self.live.spend(self._beside))
                if turn := instance.turns.take():
                    yield turn
                yield from self.compute(self.live, visit, instance)
                instance.turns.leave()
                # The sound is sent before it is stored.
                self.tell(visit, "visitor.way")
                with suppress(RefusedError):
                    yield self.store_result(self.live)
            except RefusedError:
                yield from self.upload(visit)
            finally:
                over.succeed()

    def await_live(self, over: Event) -> Steps:
        """Let on_upload wait until `live` has ended a voice."""
        yield self.pause("google.notification", "google.push")
        instance = yield from self.on_upload.enter()
        with self.on_upload.holding(instance):
            yield from self.on_upload.work(instance, self.world.seconds("processor.on_upload"))
            yield over

    def end(self, visit: SimulatedVisit, outcome: VoiceEnd) -> None:
        if visit.outcome is VoiceEnd.UNDER_WAY:
            visit.outcome, visit.ended = outcome, self.env.now
            self._ended += 1
            if self._ended == len(self.visits):
                self._over.succeed()

    # ---- the quotas

    def take(self, *quotas: Quota) -> float:
        """Use quotas once; return the seconds that this takes, or raise RefusedError."""
        now, lifted = self.env.now, self.settings.lifted
        return max([self.quotas[each].take(now) for each in quotas if each not in lifted] or [0.0])

    def sign(self, *others: Quota) -> float:
        """Sign an address and use other quotas; return the seconds that this takes."""
        if self.settings.signing is not Signing.IAM:
            return self.take(*others)
        return self.take(Quota.SIGN_BLOB, *others) + self.world.seconds("google.sign_blob")

    def write_document(self, seconds: float = 0.0, *names: str) -> Event:
        """Return the end of so many seconds, other pauses and the writing of a document."""
        seconds += self.take(Quota.FIRESTORE_INDEX, Quota.FIRESTORE_RAMP)
        return self.pause(*names, "google.firestore_write", seconds=seconds)


def rate_limits(parameters: Parameters, shards: int, weight: int) -> dict[Quota, RateLimit]:
    """Return the quotas of a project with so many buckets of each kind."""
    storage = parameters["quota.storage_period"], parameters["quota.storage_growth"]
    writes, reads = (shards * parameters[f"quota.storage_{name}"] for name in ("writes", "reads"))
    index = parameters["quota.firestore_index"] * parameters["deployed.index_parts"]
    ramp = parameters["quota.firestore_ramp"] * parameters["deployed.collections"]
    limits: dict[Quota, tuple[float, float, float | None]] = {
        Quota.SIGN_BLOB: (parameters["quota.sign_blob"], 60.0, None),
        Quota.FIRESTORE_INDEX: (index, 60.0, 0.0),
        Quota.FIRESTORE_RAMP: (
            ramp,
            parameters["quota.firestore_ramp_period"],
            parameters["quota.firestore_ramp_growth"],
        ),
        Quota.UPLOADS_WRITES: (writes, *storage),
        Quota.UPLOADS_READS: (reads, *storage),
        Quota.RESULTS_WRITES: (writes, *storage),
    }
    patience = parameters["quota.patience"]
    return {quota: RateLimit(*limit, patience, weight) for quota, limit in limits.items()}
