"""The way of a voice, written down as steps: from the visitor's click to `done` at the listener.

One step a line, in the order of design and code: functions/api (create), the visitor's upload,
functions/on_upload, functions/convert (worker and conversion), and the listener.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from capacity.engine import state
from capacity.model.parameters import Duration
from capacity.model.settings import Quota, Signing

if TYPE_CHECKING:
    from collections.abc import Callable

    from capacity.engine.state import Records
    from capacity.model.parameters import Parameters
    from capacity.model.settings import Settings

NOTHING: Final = Duration(0.0)
QUOTAS: Final = tuple(Quota)


class Service(IntEnum):
    """The services, by their index in the simulation."""

    API = 0
    ON_UPLOAD = 1
    CONVERT = 2
    LIVE = 3


class Subscription(IntEnum):
    """The subscriptions, likewise; texts share theirs with the recordings but for its window."""

    UPLOADS = 0
    CONVERSIONS = 1
    TEXTS = 2


@dataclass(slots=True)
class Program:
    """Steps under construction; a label stands for the index of the step that follows it."""

    steps: list[dict[str, Any]] = field(default_factory=list)
    labels: dict[str, int] = field(default_factory=dict)

    def label(self, name: str) -> None:
        """Give the next step a name."""
        self.labels[name] = len(self.steps)

    def add(
        self, kind: int, target: int | str = 0, failure: int | str = 0, amount: float = 0.0
    ) -> None:
        """Add a step that takes no time of its own."""
        self.steps.append({"kind": kind, "target": target, "failure": failure, "amount": amount})

    def take_time(self, kind: int, duration: Duration, spread: float = 0.0) -> None:
        """Add a delay, or work on a processor; nothing where it takes none."""
        if duration == NOTHING and not spread:
            return
        self.steps.append(
            {
                "kind": kind,
                "spread": spread,
                "median": duration.median,
                "sigma": duration.sigma,
                "per_spoken": duration.per_spoken,
            }
        )

    def records(self) -> Records:
        """Return the steps as the engine reads them."""
        records = np.zeros(len(self.steps), state.STEP)
        for index, step in enumerate(self.steps):
            for name, value in step.items():
                records[index][name] = self.labels[value] if isinstance(value, str) else value
        return records


@dataclass(frozen=True, slots=True)
class Way:
    """Writes the programs down.

    Args:
        parameters: how long what takes.
        settings: the deployment.
    """

    parameters: Parameters
    settings: Settings

    def write(self) -> Program:
        """Return all programs; the labels name where each begins."""
        program = Program()
        self._create(program)
        self._upload(program)
        self._on_upload(program)
        self._convert(program, "conversions", self._recording)
        self._convert(program, "texts", self._speaking)
        self._text(program)
        self._live(program)
        self._emptied(program)
        self._listen(program)
        self._warm_up(program)
        self._starts(program)
        self._ends(program)
        return program

    def _create(self, program: Program) -> None:
        program.label("begin")
        self._stand_in(program, "visitor")
        texts = self.parameters["visitor.texts"]
        if texts:
            program.add(state.DEPART, 0, "text", texts)
        if live := self.parameters["visitor.live"]:
            program.add(state.DEPART, 0, "live", live / (1.0 - texts))
        program.label("again")
        self._wait(program, "visitor.way")
        program.add(state.ENTER, Service.API, "refused")
        self._work(program, "processor.api")
        self._sign(program, "refused")
        self._write_document(program, "refused")
        program.add(state.SERVED, amount=self.parameters["line.seen"])
        if self.settings.warm_up:
            self._send_warm_up(program)
        program.add(state.LEAVE)
        self._wait(program, "visitor.way")
        from_the_click = self.parameters["deployed.records_from_the_click"]
        program.label("speaks")
        program.add(state.SPEAK, 0 if from_the_click else 1)
        program.add(state.DEPART, 0, "left", self.parameters["visitor.leaving"])

    def _send_warm_up(self, program: Program) -> None:
        window = self.parameters["deployed.warm_up_window"]
        slots = self.parameters["deployed.warm_up_slot_seconds"] / window
        program.add(state.WARM_UP, "warm_up", amount=slots)
        program.steps[-1] |= {"spread": window, "minimum": float(self.settings.warm_ups_at_once)}

    def _upload(self, program: Program) -> None:
        program.label("upload")
        start = self.parameters.duration("visitor.upload_start")
        longer = self.parameters["visitor.upload_per_spoken"]
        program.take_time(state.DELAY, Duration(start.median, start.sigma, longer))
        self._take(program, Quota.UPLOADS_WRITES, "upload_refused")
        self._wait(program, "google.storage_write")
        self._stand_in(program, "storage")
        self._wait(program, "google.notification")

    def _text(self, program: Program) -> None:
        """Write down how the api takes a text in: what a recording's upload and on_upload do."""
        program.label("text")
        program.add(state.RELEASE)
        program.label("text_again")
        self._wait(program, "visitor.way")
        program.add(state.ENTER, Service.API, "text_refused")
        self._work(program, "processor.api")
        self._write_document(program, "text_refused")
        if self.settings.warm_up:
            self._send_warm_up(program)
        self._take(program, Quota.UPLOADS_WRITES, "text_refused")
        self._wait(program, "google.storage_write")
        program.add(state.FORK, "emptied")
        self._wait(program, "google.publish")
        program.add(state.SERVED, amount=self.parameters["line.seen"])
        program.add(state.FORK, "texts")
        self._write_document(program, "text_recorded")
        program.label("text_recorded")
        program.add(state.LEAVE)
        program.add(state.END_JOB)

    def _live(self, program: Program) -> None:
        """Write down the way over a WebSocket; who finds no place there uploads instead."""
        before, after = self._around_the_conversion()
        program.label("live")
        self._wait(program, "visitor.way")
        program.add(state.ENTER, Service.API, "live_refused")
        self._work(program, "processor.api")
        self._sign(program, "live_refused")
        self._write_document(program, "live_refused")
        program.add(state.SERVED, amount=self.parameters["line.seen"])
        program.add(state.LEAVE)
        self._wait(program, "visitor.way")
        program.add(state.ENTER, Service.LIVE, "speaks")
        program.add(state.SPEAK, 0)
        program.add(state.DEPART, 0, "left", self.parameters["visitor.leaving"])
        self._take(program, Quota.UPLOADS_WRITES, "hand_over")
        self._wait(program, "google.storage_write")
        program.add(state.FORK, "emptied")
        program.take_time(state.WORK, before)
        self._write_document(program, "hand_over")
        program.add(state.TURN, Service.LIVE)
        self._recording(program)
        program.take_time(state.FIRST_WORK, self.parameters.duration("processor.first_voice"))
        # The sound is on its way before it is stored.
        program.add(state.FORK, "heard")
        self._take(program, Quota.RESULTS_WRITES, "live_over")
        self._wait(program, "google.storage_write")
        self._sign(program, "live_over")
        program.take_time(state.WORK, after)
        self._write_document(program, "live_over")
        self._take(program, Quota.UPLOADS_WRITES, "live_over")
        self._wait(program, "google.storage_write")
        program.add(state.FORK, "emptied")
        program.label("live_over")
        program.add(state.LEAVE)
        program.add(state.END_JOB)
        program.label("heard")
        self._wait(program, "visitor.way")
        program.add(state.END_VOICE, state.DONE)
        # What breaks before that goes the way of an upload.
        program.label("hand_over")
        program.add(state.LEAVE)
        program.add(state.DEPART, 0, "upload", 1.0)

    def _on_upload(self, program: Program) -> None:
        program.label("uploads")
        program.add(state.PUSH, Subscription.UPLOADS)
        self._deliver(program)
        program.add(state.ENTER, Service.ON_UPLOAD, "uploads_refused")
        program.take_time(state.WORK, self._taking_an_upload())
        self._read_document(program)
        self._wait(program, "google.publish")
        program.add(state.FORK, "conversions")
        # The message is out: whatever comes of the record, the conversion goes on.
        program.label("record")
        self._write_document(program, "recorded")
        program.label("recorded")
        program.add(state.LEAVE)
        program.add(state.ACKNOWLEDGE)
        program.add(state.END_JOB)
        program.label("uploads_refused")
        program.add(state.REFUSE_PUSH)

    def _convert(self, program: Program, name: str, work: Callable[[Program], None]) -> None:
        again, converted = f"{name}_refused", f"{name}_converted"
        before, after = self._around_the_conversion()
        program.label(name)
        program.add(state.PUSH, Subscription[name.upper()])
        self._deliver(program)
        program.add(state.ENTER, Service.CONVERT, again)
        program.add(state.ADMIT, Service.CONVERT, again)
        program.take_time(state.WORK, before)
        self._read_document(program)
        self._write_document(program, again)
        program.add(state.TURN, Service.CONVERT)
        self._take(program, Quota.UPLOADS_READS, again)
        self._stand_in(program, "storage")
        self._wait(program, "google.storage_read")
        work(program)
        program.take_time(state.FIRST_WORK, self.parameters.duration("processor.first_voice"))
        self._take(program, Quota.RESULTS_WRITES, again)
        self._stand_in(program, "storage")
        self._wait(program, "google.storage_write")
        self._sign(program, again)
        program.take_time(state.WORK, after)
        self._write_document(program, again)
        program.add(state.FORK, "listener")
        self._take(program, Quota.UPLOADS_WRITES, converted)
        self._stand_in(program, "storage")
        self._wait(program, "google.storage_write")
        program.add(state.FORK, "emptied")
        program.label(converted)
        program.add(state.LEAVE)
        program.add(state.ACKNOWLEDGE)
        program.add(state.END_JOB)
        program.label(again)
        program.add(state.REFUSE_PUSH)

    def _recording(self, program: Program) -> None:
        conversion = self.parameters.duration("processor.conversion")
        variation = self.parameters["processor.variation"]
        program.take_time(state.WORK, Duration(conversion.median, variation, conversion.per_spoken))

    def _speaking(self, program: Program) -> None:
        spoken = self.parameters["processor.text"]
        program.take_time(state.WORK, Duration(spoken, self.parameters["processor.variation"]))

    def _emptied(self, program: Program) -> None:
        """Write down the notification that the recording was emptied.

        The subscription filters it out; the local emulator does not, and on_upload ignores it.
        """
        program.label("emptied")
        if not self.parameters["deployed.tells_of_emptying"]:
            program.add(state.END_JOB)
            return
        self._wait(program, "google.notification")
        program.add(state.PUSH, Subscription.UPLOADS)
        self._deliver(program)
        program.add(state.ENTER, Service.ON_UPLOAD, "ignored")
        self._work(program, "processor.ignoring")
        program.label("ignored")
        program.add(state.LEAVE)
        program.add(state.ACKNOWLEDGE)
        program.add(state.END_JOB)

    def _listen(self, program: Program) -> None:
        program.label("listener")
        self._stand_in(program, "visitor")
        self._stand_in(program, "firestore")
        self._wait(program, "google.listener")
        program.add(state.END_VOICE, state.DONE)

    def _warm_up(self, program: Program) -> None:
        program.label("warm_up")
        program.add(state.ENTER, Service.CONVERT, "warmed_up")
        self._work(program, "processor.warm_up")
        program.label("warmed_up")
        program.add(state.END_WARM_UP)

    def _starts(self, program: Program) -> None:
        boost = self.parameters["start.boost"]
        for service in Service:
            name = service.name.lower()
            program.label(f"start_{name}")
            self._wait(program, "start.platform")
            # `live` is the same image.
            measured = "convert" if service is Service.LIVE else name
            seconds = self.parameters[f"start.{measured}"] / boost
            program.take_time(state.WORK, Duration(seconds, 0.1))
            program.add(state.READY)

    def _ends(self, program: Program) -> None:
        # Who is refused waits in line: web/client/src/line.ts and functions/api/answers/line.py.
        for name, again in (
            ("refused", "again"),
            ("upload_refused", "upload"),
            ("text_refused", "text_again"),
            ("live_refused", "live"),
        ):
            program.label(name)
            program.add(state.COME_BACK, again, amount=self.parameters["line.patience"])
            program.steps[-1] |= {
                "spread": self.parameters["line.seen"],
                "minimum": self.parameters["line.soonest"],
                "median": self.parameters["line.latest"],
                "sigma": self.parameters["line.longest_backoff"],
                "per_spoken": self.parameters["line.jitter"],
            }
            program.add(state.END_VOICE, state.REFUSED)
        for name, outcome in (
            ("left", state.LEFT),
            ("dead", state.DEAD),
        ):
            program.label(name)
            program.add(state.END_VOICE, outcome)

    def _around_the_conversion(self) -> tuple[Duration, Duration]:
        """Compute a converter's work before and after the conversion itself."""
        spoken = 3.0
        whole = self.parameters["processor.converter"]
        rest = max(0.0, whole - self.parameters.duration("processor.conversion").at(spoken))
        return Duration(rest / 2), Duration(rest / 2)

    def _taking_an_upload(self) -> Duration:
        """Compute on_upload's work for a recording: all for a voice but what it ignores."""
        whole = self.parameters["processor.on_upload"]
        return Duration(max(0.0, whole - self.parameters["processor.ignoring"]))

    def _deliver(self, program: Program) -> None:
        self._stand_in(program, "pubsub")
        push = self.parameters.duration("google.push")
        program.take_time(state.DELAY, push, self.parameters["google.push_spread"])

    def _sign(self, program: Program, failure: str) -> None:
        if self.settings.signing is Signing.IAM:
            self._take(program, Quota.SIGN_BLOB, failure)
            self._wait(program, "google.sign_blob")

    def _write_document(self, program: Program, failure: str) -> None:
        self._take(program, Quota.FIRESTORE_INDEX, failure)
        self._take(program, Quota.FIRESTORE_RAMP, failure)
        self._stand_in(program, "firestore")
        self._wait(program, "google.firestore_write")

    def _read_document(self, program: Program) -> None:
        self._stand_in(program, "firestore")
        self._wait(program, "google.firestore_read")

    def _take(self, program: Program, quota: Quota, failure: str) -> None:
        if quota not in self.settings.lifted:
            program.add(state.TAKE, QUOTAS.index(quota), failure, 1.0)

    def _wait(self, program: Program, name: str) -> None:
        program.take_time(state.DELAY, self.parameters.duration(name))

    def _work(self, program: Program, name: str) -> None:
        program.take_time(state.WORK, self.parameters.duration(name))

    def _stand_in(self, program: Program, name: str) -> None:
        """Add what a stand-in for a service of Google's takes of the machine that all share."""
        program.take_time(state.MACHINE_WORK, self.parameters.duration(f"stand_in.{name}"))
