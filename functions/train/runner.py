"""Takes the characters that wait for a training, one by one, from the lease to the bundle."""

from __future__ import annotations

import asyncio
import json
import logging
import tempfile
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Final

from functions.train.publishing import publish, try_bundle, withdraw
from functions.train.trainer import RecordingsRefusedError, TrainerCrashedError
from shared.errors import PassingError
from shared.own_characters import own_character as own
from shared.own_characters.objects import (
    MAX_RECORDING_BYTES,
    MAX_RECORDINGS,
    Kind,
    beyond_all_limits,
    recordings_prefix,
)
from shared.own_characters.own_character import (
    NotAllowedError,
    OwnCharacter,
    Status,
    TakenOverError,
    TrainingErrorCode,
)
from shared.own_characters.store import UnknownOwnCharacterError, change_own
from shared.voices.voice import VoiceError
from speech.bundles.bundle import BundleError
from speech.decoding.recordings.recording import DecodeLimits
from speech.results.wav import write_wav

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence
    from datetime import datetime

    from functions.train.trainer import Trainer
    from shared.own_characters.store import OwnCharacterStore
    from shared.ports.bucket import Bucket
    from shared.voices.objects import ObjectFacts
    from speech.decoding.decoder import Decoder

_LOG = logging.getLogger(__name__)

LEASE_SECONDS: Final = 60.0
RENEW_SECONDS: Final = 10.0
LOOK_SECONDS: Final = 30.0
"""How long until it looks by itself, if nobody wakes it."""

CLEAN_SECONDS: Final = 30.0
"""How long a recording stays that comes although its character is deleted or ready."""

MAX_SPEECH_SECONDS: Final = 20 * 60.0
_CLEANED_AT_ONCE: Final = 20
_LIMITS: Final = DecodeLimits(min_seconds=0.3, max_seconds=60.0, max_bytes=MAX_RECORDING_BYTES)
_GONE: Final = (TakenOverError, UnknownOwnCharacterError)


@dataclass
class Runner:
    """Makes characters.

    Attributes:
        store: the characters' documents.
        recordings: the bucket of the owners' recordings.
        characters: the bucket of the bundles.
        decoder: has been started.
        trainer: the training command.
    """

    store: OwnCharacterStore
    recordings: Bucket
    characters: Bucket
    decoder: Decoder
    trainer: Trainer
    _woken: asyncio.Event = field(default_factory=asyncio.Event)

    def wake(self) -> None:
        """Look now whether a character waits."""
        self._woken.set()

    async def run(self) -> None:
        """Train whatever waits, and delete what nobody may keep; never returns."""
        # Side by side: a training takes up to half an hour.
        await asyncio.gather(
            _repeat(self._train_all, self._until_woken),
            _repeat(self.clean, partial(asyncio.sleep, CLEAN_SECONDS)),
        )

    async def _train_all(self) -> None:
        self._woken.clear()
        while await self.train_next():
            pass
        await self.clean()

    async def _until_woken(self) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(LOOK_SECONDS):
                await self._woken.wait()

    async def train_next(self) -> bool:
        """Train the character that waits longest; False if none does.

        Raises:
            PassingError: the store or a bucket does not answer; the lease ends by itself.
        """
        for snapshot in await self.store.waiting(limit=1):
            character_id = snapshot.character.character_id
            try:
                taken = await change_own(
                    self.store, character_id, lambda each, now: own.lease(each, now, LEASE_SECONDS)
                )
            except (NotAllowedError, UnknownOwnCharacterError):
                return True
            if taken.status is Status.TRAINING:
                await self._train(taken)
            return True
        return False

    async def clean(self) -> None:
        """Delete the recordings of ready characters, and all of those whose time is over.

        An upload address works for some minutes, whatever becomes of its character. So what comes
        late is deleted, too, and what is more than the api lets an owner bring.

        Raises:
            PassingError: the store or a bucket does not answer.
        """
        for snapshot in await self.store.to_clean(limit=_CLEANED_AT_ONCE):
            character_id = snapshot.character.character_id
            await self.recordings.delete_all(recordings_prefix(character_id))
            if snapshot.character.status is Status.READY:
                with suppress(UnknownOwnCharacterError):
                    await change_own(self.store, character_id, own.without_recordings)
            else:
                await self.store.delete(character_id)
        found = await self.recordings.list()
        for character_id, recordings in groupby(found, lambda each: each.name.split("/")[0]):
            all_of_it = list(recordings)
            kept = await self._still_wants_recordings(character_id)
            for each in beyond_all_limits(all_of_it) if kept else all_of_it:
                await self.recordings.delete(each.name, each.generation)

    async def _still_wants_recordings(self, character_id: str) -> bool:
        try:
            snapshot = await self.store.read(character_id)
        except UnknownOwnCharacterError:
            return False
        character = snapshot.character
        if character.status is Status.READY:
            return character.keeps_recordings and character.has_recordings
        return True

    async def _train(self, character: OwnCharacter) -> None:
        try:
            await self._make(character)
        except _GONE:
            extra = {"event": "own_character_left"}
            _LOG.info("training left: deleted or taken over meanwhile", extra=extra)
        except RecordingsRefusedError as error:
            await self._fail(character, TrainingErrorCode.RECORDINGS_REFUSED, str(error))
        except BundleError as error:
            _LOG.exception("a trained bundle does not work", extra={"event": "bundle_refused"})
            await self._fail(character, TrainingErrorCode.BUNDLE_REFUSED, str(error))
        except TrainerCrashedError as error:
            _LOG.warning("trainer crashed: %s", error, extra={"event": "trainer_crashed"})
            await self._change(character, partial(own.give_back, attempt=character.attempt))
        else:
            _LOG.info("own character ready", extra={"event": "own_character_ready"})

    async def _make(self, character: OwnCharacter) -> None:
        with tempfile.TemporaryDirectory(prefix="voice-avatar-training-") as scratch:
            folder = Path(scratch)
            work = folder / "work"
            work.mkdir()
            # Before the recording, which must not be older.
            sentence = work / f"{character.character_id}.sentence.json"
            sentence.write_text(character.sentence.to_json(), "utf-8")
            told = _Told(self.store, character)
            keeping = asyncio.create_task(told.keep())
            training = asyncio.create_task(self._train_in(folder, character, told))
            try:
                # Whichever ends first: a lost lease stops the training.
                await asyncio.wait({keeping, training}, return_when=asyncio.FIRST_COMPLETED)
                if keeping.done():
                    keeping.result()
                await training
            except RecordingsRefusedError as error:
                # Its owner knows the recordings, not where they lay.
                raise RecordingsRefusedError(str(error).replace(f"{folder}/", "")) from error
            finally:
                for each in (keeping, training):
                    each.cancel()
                await asyncio.gather(keeping, training, return_exceptions=True)
            manifest = await try_bundle(folder / "characters" / character.character_id)
            await told.now()
            await publish(self.characters, manifest)
        try:
            await change_own(
                self.store,
                character.character_id,
                lambda each, now: own.finish(each, character.attempt, now),
            )
        except UnknownOwnCharacterError:
            await withdraw(self.characters, character.character_id)
            raise

    async def _train_in(self, folder: Path, character: OwnCharacter, told: _Told) -> None:
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
            told.hear,
        )

    async def _decode_all(self, character: OwnCharacter, folder: Path) -> None:
        """Write the recordings as WAV, so that what visitors upload is read in the sandbox alone.

        Raises:
            RecordingsRefusedError: the consent is no recording, there is too much speech, or more
                recordings than the training was asked for with.
        """
        speech = folder / "recordings"
        speech.mkdir()
        seconds = 0.0
        uploaded = await self.recordings.list(recordings_prefix(character.character_id))
        _require_as_asked_for(uploaded)
        for found in uploaded:
            _, kind, recording_id = found.name.split("/")
            data = await self.recordings.read(
                found.name, found.generation, max_bytes=MAX_RECORDING_BYTES
            )
            try:
                decoded = await self.decoder.decode(data, limits=_LIMITS)
            except VoiceError as error:
                if kind == Kind.CONSENT:
                    raise RecordingsRefusedError(f"The spoken consent: {error}") from error
                # Like every recording in which nobody speaks, it does not count.
                continue
            seconds += decoded.seconds
            if seconds > MAX_SPEECH_SECONDS:
                raise RecordingsRefusedError(
                    f"The recordings are longer than {MAX_SPEECH_SECONDS / 60:g} minutes; delete"
                    " some of them."
                )
            is_consent = kind == Kind.CONSENT
            file = folder / "spoken-consent.wav" if is_consent else speech / f"{recording_id}.wav"
            file.write_bytes(write_wav(decoded.samples, decoded.sample_rate))

    async def _fail(self, character: OwnCharacter, code: TrainingErrorCode, message: str) -> None:
        _LOG.info("own character failed", extra={"event": "own_character_failed", "code": code})
        await self._change(
            character,
            lambda each, now: own.fail(each, character.attempt, code, message, now),
        )

    async def _change(
        self, character: OwnCharacter, transition: Callable[[OwnCharacter, datetime], OwnCharacter]
    ) -> None:
        try:
            await change_own(self.store, character.character_id, transition)
        except _GONE:
            extra = {"event": "own_character_left"}
            _LOG.info("training left: deleted or taken over meanwhile", extra=extra)


class _Told:
    """What the trainer said last; keeps the lease while the trainer says nothing.

    Args:
        store: the characters' documents.
        character: with the attempt that trains it.
    """

    def __init__(self, store: OwnCharacterStore, character: OwnCharacter) -> None:
        self._store = store
        self._character = character
        self._stage: str | None = None
        self._share: float | None = None

    async def hear(self, stage: str, share: float | None) -> None:
        """Hear from the trainer; a new stage is written at once, shares now and then."""
        is_new, self._stage, self._share = stage != self._stage, stage, share
        if is_new:
            await self.now()

    async def keep(self) -> None:
        """Write it every few seconds.

        Raises:
            TakenOverError, UnknownOwnCharacterError: nobody wants this training any more.
            PassingError: the store does not answer.
        """
        while True:
            await asyncio.sleep(RENEW_SECONDS)
            await self.now()

    async def now(self) -> None:
        """Write it now, and keep the lease; raises as `keep`."""
        await change_own(
            self._store,
            self._character.character_id,
            lambda each, now: own.report(
                each,
                self._character.attempt,
                self._stage,
                self._share,
                now=now,
                seconds=LEASE_SECONDS,
            ),
        )


async def _repeat(act: Callable[[], Awaitable[None]], pause: Callable[[], Awaitable[None]]) -> None:
    while True:
        try:
            await act()
        except PassingError as error:
            _LOG.warning("trainer waits: %s", error, extra={"event": "unavailable"})
        except Exception:  # noqa: BLE001 - the others are trained all the same
            _LOG.exception("unexpected error", extra={"event": "unexpected_error"})
        await pause()


def _require_as_asked_for(uploaded: Sequence[ObjectFacts]) -> None:
    """Refuse recordings that came after the api had counted them."""
    consents = sum(f"/{Kind.CONSENT.value}/" in each.name for each in uploaded)
    if consents != 1 or len(uploaded) > MAX_RECORDINGS:
        raise RecordingsRefusedError(
            f"Expected one spoken consent and at most {MAX_RECORDINGS} recordings, found"
            f" {consents} and {len(uploaded)}: some came after the training was asked for. Delete"
            " them, and ask again."
        )


def _consent(character: OwnCharacter) -> dict[str, object]:
    """The answers that the training command asks every owner for."""
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
