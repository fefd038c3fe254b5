"""Trains the waiting characters one by one, from the lease to the bundle."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import random
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from functions.train.artifacts import Checkpoints, publish, publish_card, try_bundle
from functions.train.trainer import RecordingsRefusedError, TrainerCrashedError
from shared.characters.bundle_files import BundleError
from shared.characters.own import own_character as own
from shared.characters.own.own_character import (
    NotAllowedError,
    OwnCharacter,
    OwnCharacterStatus,
    TakenOverError,
    TrainingErrorCode,
    TrainingFailure,
)
from shared.characters.own.recordings import (
    MAX_RECORDING_BYTES,
    MAX_RECORDINGS,
    Kind,
    OwnCharacterCleaner,
    progress_prefix,
    recordings_among,
    recordings_prefix,
    withdraw_character,
)
from shared.characters.own.store import UnknownOwnCharacterError, change_own
from shared.speech.decoding.recording import DecodeLimits
from shared.speech.results.audio_files import write_wav
from shared.voices.voice import PassingError, VoiceError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from datetime import datetime

    from functions.train.trainer import Trainer
    from shared.characters.own.store import OwnCharacterStore
    from shared.ports import Bucket
    from shared.speech.decoding.decoder import Decoder


_LOG = logging.getLogger(__name__)

LEASE_SECONDS: Final = 60.0
RENEW_SECONDS: Final = 10.0
LOOK_SECONDS: Final = 30.0  # the pause between two searches if nothing wakes the runner
STEP_BACK_SECONDS: Final = 5.0
CLEAN_SECONDS: Final = 30.0
"""The time that a recording stays which arrives although its character is deleted or ready."""

MAX_SPEECH_SECONDS: Final = 20 * 60.0
_LIMITS: Final = DecodeLimits(min_seconds=0.3, max_seconds=60.0, max_bytes=MAX_RECORDING_BYTES)
_GONE: Final = (TakenOverError, UnknownOwnCharacterError)


@dataclass
class TrainingRunner:
    store: OwnCharacterStore
    recordings: Bucket
    characters: Bucket
    decoder: Decoder
    trainer: Trainer
    at_once: int = 1
    _woken: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def cleaner(self) -> OwnCharacterCleaner:
        return OwnCharacterCleaner(self.store, self.recordings, self.characters)

    def wake(self) -> None:
        self._woken.set()

    async def run(self) -> None:
        """Train waiting characters and delete expired data; never returns."""
        # Side by side: a training takes up to half an hour.
        await asyncio.gather(
            _repeat(self._train_all, self._wait_for_wake),
            _repeat(self.cleaner.clean, partial(asyncio.sleep, CLEAN_SECONDS)),
        )

    async def _train_all(self) -> None:
        self._woken.clear()
        while await self.train_next():
            pass
        await self.cleaner.clean()

    async def _wait_for_wake(self) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(LOOK_SECONDS):
                await self._woken.wait()

    async def train_next(self) -> bool:
        """Train the character that waits longest; False if none waits or all places are taken.

        Raises:
            PassingError: the store or a bucket does not answer; the lease ends by itself.
        """
        if len(await self.store.find_in_training(limit=self.at_once)) >= self.at_once:
            return False
        found = await self.store.find_waiting(limit=1)
        if not found:
            return False
        character_id = found[0].character.character_id
        try:
            character = await change_own(
                self.store, character_id, lambda each, now: own.lease(each, now, LEASE_SECONDS)
            )
        except (NotAllowedError, UnknownOwnCharacterError):
            return True
        if character.status is not OwnCharacterStatus.TRAINING:
            _LOG.error("given up", extra={"event": "own_character_given_up"})
            return True
        # Others may have leased characters at the same moment.
        holders = await self.store.find_in_training(limit=self.at_once + 1)
        others = [each for each in holders if each.character.character_id != character_id]
        if len(others) >= self.at_once:
            # Each of them may see the other and step back: they come again at different times.
            await self._give_back(character, counts=False)
            await asyncio.sleep(random.uniform(0, STEP_BACK_SECONDS))  # noqa: S311 - no secret
        else:
            await self._train(character)
        return True

    async def _train(self, character: OwnCharacter) -> None:
        try:
            await self._make(character)
        except asyncio.CancelledError:
            # The instance stops: the next one goes on from what was kept.
            await self._give_back(character, counts=False)
            raise
        except _GONE:
            _log_left()
        except RecordingsRefusedError as error:
            await self._fail(character, error.failure)
        except BundleError as error:
            _LOG.exception("a trained bundle does not work", extra={"event": "bundle_refused"})
            failure = TrainingFailure(TrainingErrorCode.BUNDLE_REFUSED, str(error))
            await self._fail(character, failure)
        except TrainerCrashedError as error:
            _LOG.warning("trainer crashed: %s", error, extra={"event": "trainer_crashed"})
            await self._give_back(character, counts=True)
        except PassingError:
            # Neither its owner nor the trainer is the cause.
            with suppress(PassingError):
                await self._give_back(character, counts=False)
            raise
        else:
            _LOG.info("own character ready", extra={"event": "own_character_ready"})

    async def _make(self, character: OwnCharacter) -> None:
        character_id = character.character_id
        with tempfile.TemporaryDirectory(prefix="voice-avatar-training-") as scratch:
            folder = Path(scratch)
            work = folder / "work"
            work.mkdir()
            # Written first: the spoken consent must not be older than its sentence.
            sentence = work / f"{character_id}.sentence.json"
            sentence.write_text(character.sentence.to_json(), "utf-8")
            checkpoints = Checkpoints(
                self.recordings, character_id, character.attempt, work / character_id
            )
            await checkpoints.restore()
            progress = _Progress(self.store, character)
            renewal = asyncio.create_task(progress.renew_lease())
            saving = asyncio.create_task(checkpoints.keep())
            training = asyncio.create_task(self._train_in(folder, character, progress))
            try:
                # A lost lease stops the training.
                await asyncio.wait({renewal, training}, return_when=asyncio.FIRST_COMPLETED)
                if renewal.done():
                    renewal.result()
                await training
            except TrainerCrashedError:
                with suppress(PassingError):
                    await checkpoints.save()
                raise
            except RecordingsRefusedError as error:
                # Its owner knows the recordings, not their folder.
                message = error.failure.message.replace(f"{folder}/", "")
                raise RecordingsRefusedError(replace(error.failure, message=message)) from error
            finally:
                for each in (renewal, saving, training):
                    each.cancel()
                await asyncio.gather(renewal, saving, training, return_exceptions=True)
            manifest = await try_bundle(folder / "characters" / character_id)
            await progress.write()
            await publish(self.characters, manifest)
            # There is no card for a character that was deleted meanwhile.
            with suppress(UnknownOwnCharacterError):
                is_kept = (await self.store.read(character_id)).character.keeps_recordings
                card = work / character_id / "listen"
                await publish_card(self.characters, character_id, card, has_own_sounds=is_kept)
        try:
            await change_own(
                self.store, character_id, lambda each, now: own.finish(each, character.attempt, now)
            )
        except UnknownOwnCharacterError:
            await withdraw_character(self.characters, character_id)
            raise
        # Its owner may keep the recordings, but nobody needs the checkpoints any more.
        with suppress(PassingError):
            await self.recordings.delete_all(progress_prefix(character_id))

    async def _train_in(self, folder: Path, character: OwnCharacter, progress: _Progress) -> None:
        await self._decode_all(character, folder)
        consent = folder / "consent.json"
        consent.write_text(json.dumps(_consent(character)), "utf-8")
        await self.trainer.run(
            [
                *("--recordings", str(folder / "recordings")),
                *("--as", character.character_id),
                *(f"--name={character.name}", "--consent", str(consent)),
                *("--spoken-consent", str(folder / "spoken-consent.wav")),
                *("--language", character.sentence.language),
                *("--into", str(folder / "characters"), "--work", str(folder / "work")),
            ],
            progress.report,
        )

    async def _decode_all(self, character: OwnCharacter, folder: Path) -> None:
        """Write the recordings as WAV, so that only the sandbox reads the uploaded files."""
        speech = folder / "recordings"
        speech.mkdir()
        seconds = 0.0
        found = await self.recordings.list(recordings_prefix(character.character_id))
        uploaded = recordings_among(found)
        consents = sum(f"/{Kind.CONSENT.value}/" in each.name for each in uploaded)
        if consents != 1 or len(uploaded) > MAX_RECORDINGS:
            raise _refused(
                f"Expected one spoken consent and at most {MAX_RECORDINGS} recordings, found"
                f" {consents} and {len(uploaded)}: some came after the training was asked for."
                " Delete them, and ask again."
            )
        for each in uploaded:
            _, kind, recording_id = each.name.split("/")
            is_consent = kind == Kind.CONSENT
            data = await self.recordings.read(
                each.name, each.generation, max_bytes=MAX_RECORDING_BYTES
            )
            try:
                decoded = await self.decoder.decode(data, limits=_LIMITS)
            except VoiceError as error:
                if is_consent:
                    message = f"The spoken consent: {error}"
                    raise _refused(message, TrainingErrorCode.CONSENT_REFUSED) from error
                # Like every recording without speech, it does not count.
                continue
            seconds += decoded.seconds
            if seconds > MAX_SPEECH_SECONDS:
                raise _refused(
                    f"The recordings are longer than {MAX_SPEECH_SECONDS / 60:g} minutes; delete"
                    " some of them."
                )
            file = folder / "spoken-consent.wav" if is_consent else speech / f"{recording_id}.wav"
            file.write_bytes(write_wav(decoded.samples, decoded.sample_rate))
            if not is_consent:
                # Checkpoints belong to these files only if they have the same times, too.
                os.utime(file, ns=(each.generation, each.generation))

    async def _fail(self, character: OwnCharacter, failure: TrainingFailure) -> None:
        extra = {"event": "own_character_failed", "code": failure.code}
        _LOG.info("own character failed", extra=extra)
        # Nothing of it helps a training with other recordings.
        await self.recordings.delete_all(progress_prefix(character.character_id))
        await self._change(
            character, lambda each, now: own.fail(each, character.attempt, failure, now)
        )

    async def _give_back(self, character: OwnCharacter, *, counts: bool) -> None:
        await self._change(
            character, partial(own.give_back, attempt=character.attempt, counts=counts)
        )

    async def _change(
        self, character: OwnCharacter, transition: Callable[[OwnCharacter, datetime], OwnCharacter]
    ) -> None:
        try:
            await change_own(self.store, character.character_id, transition)
        except _GONE:
            _log_left()


def _log_left() -> None:
    extra = {"event": "own_character_left"}
    _LOG.info("training left: deleted or taken over meanwhile", extra=extra)


class _Progress:
    """The trainer's latest progress report, and the lease, which is renewed with each write."""

    def __init__(self, store: OwnCharacterStore, character: OwnCharacter) -> None:
        self._store = store
        self._character = character
        self._stage: str | None = None
        self._share: float | None = None

    async def report(self, stage: str, share: float | None) -> None:
        """Accept a report; a new stage is written at once, shares by `renew_lease`."""
        is_new, self._stage, self._share = stage != self._stage, stage, share
        if is_new:
            # If this fails, `renew_lease` writes it.
            with suppress(PassingError):
                await self.write()

    async def renew_lease(self) -> None:
        """Write every few seconds; a short outage of the store does not end a training.

        Raises:
            TakenOverError, UnknownOwnCharacterError: nobody wants this training any more.
            PassingError: the store has not answered for nearly as long as the lease lasts.
        """
        last = time.monotonic()
        while True:
            await asyncio.sleep(RENEW_SECONDS)
            try:
                await self.write()
            except PassingError as error:
                if time.monotonic() - last > LEASE_SECONDS - 2 * RENEW_SECONDS:
                    raise
                _LOG.warning("lease not renewed: %s", error, extra={"event": "unavailable"})
            else:
                last = time.monotonic()

    async def write(self) -> None:
        def report(each: OwnCharacter, now: datetime) -> OwnCharacter:
            told = self._character.attempt, self._stage, self._share
            return own.report(each, *told, now=now, seconds=LEASE_SECONDS)

        await change_own(self._store, self._character.character_id, report)


async def _repeat(act: Callable[[], Awaitable[None]], pause: Callable[[], Awaitable[None]]) -> None:
    while True:
        try:
            await act()
        except PassingError as error:
            _LOG.warning("trainer waits: %s", error, extra={"event": "unavailable"})
        except Exception:  # noqa: BLE001 - the others are trained all the same
            _LOG.exception("unexpected error", extra={"event": "unexpected_error"})
        await pause()


def _refused(
    message: str, code: TrainingErrorCode = TrainingErrorCode.RECORDINGS_REFUSED
) -> RecordingsRefusedError:
    return RecordingsRefusedError(TrainingFailure(code, message))


def _consent(character: OwnCharacter) -> dict[str, object]:
    typed = character.consent
    return {
        "owner": typed.owner,
        "consent": (
            f"{typed.owner} agreed on {typed.day}, in the page, that a character is made of their"
            " own voice."
        ),
        "licence": "private",
        "credit": f"Voice: {typed.owner}",
        "source": "recorded in the page by the owner of the voice",
        "contact": typed.contact,
        "commercial": False,
        "redistribution": False,
        "adult": False,
        "politics": False,
        "no_public_figure_no_minor": True,
    }


LOOK_AGAIN_SECONDS: Final = 5.0
RESTARTED_PATIENCE_SECONDS: Final = LEASE_SECONDS + 15.0
"""Long enough for the lease of a killed job, which is restarted before that lease has ended."""


async def train_waiting_characters(
    runner: TrainingRunner,
    *,
    begin_seconds: float,
    patience_seconds: float,
    now: Callable[[], float] = time.monotonic,
) -> int:
    began, trained = now(), 0
    idle_since = began
    while now() - began < begin_seconds:
        if await runner.train_next():
            trained, idle_since = trained + 1, now()
        elif now() - idle_since < patience_seconds:
            await asyncio.sleep(LOOK_AGAIN_SECONDS)
        else:
            break
    # The recordings of those that are ready now.
    await runner.cleaner.clean()
    return trained
