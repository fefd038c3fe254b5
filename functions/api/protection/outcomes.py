"""What became of each client's voices: clients whose recordings fail may send fewer.

Decoding a broken recording costs processor time, and the limits in `limits.py` count only requests.
So an instance remembers which voices a client has lately created here. When somebody of the same
network creates another one, it looks at a few of them: one that has failed for a reason that an
honest visitor rarely meets counts as several requests, and one that failed by a mistake of ours as
none. All of this is in the memory of the instance, and nothing is stored.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter, OrderedDict
from dataclasses import dataclass
from itertools import takewhile
from typing import TYPE_CHECKING, Final

from shared.http.client_networks import networks_of
from shared.ports.store import StoreUnavailableError, UnknownVoiceError, UnreadableVoiceError
from shared.voices.voice import SUSPICIOUS, ErrorCode, Status

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from functions.api.protection.limits import RequestLimits
    from shared.ports.store import VoiceStore
    from shared.voices.voice import Voice

LOOKS: Final = 4
"""How many earlier voices are looked at for each new one; more than are created meanwhile."""

MOST_VOICES: Final = 20_000
"""How many voices are remembered; this takes a few megabytes."""


IN_PROGRESS_SECONDS: Final = 60.0
"""For how long a voice without an end counts; who gives a recording up need not tell us."""


@dataclass(frozen=True, slots=True)
class _Created:
    client: str
    at: float

    @property
    def networks(self) -> list[str]:
        return [network for _, network in networks_of(self.client)]


class Outcomes:
    """Remembers voices that have not ended, and lets those that failed count for more.

    Args:
        voices: the voices' documents.
        limits: what failed recordings count for.
        in_progress: how many voices of the last minute one client, or its /48, may have without an
            end; 0 for no limit, and then nothing is remembered.
        seconds: how long a voice can take to its end; older ones are forgotten.
        now: a clock in seconds that never goes back.
    """

    def __init__(
        self,
        voices: VoiceStore,
        limits: RequestLimits,
        *,
        in_progress: int,
        seconds: float,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._voices = voices
        self._limits = limits
        self._in_progress = in_progress
        self._seconds = seconds
        self._now = now
        self._created: OrderedDict[str, _Created] = OrderedDict()
        self._counted: OrderedDict[str, _Created] = OrderedDict()
        # By the largest network, so that a client with many of them is looked at, too.
        self._of_network: dict[str, OrderedDict[str, None]] = {}
        self._counts: Counter[str] = Counter()

    def __len__(self) -> int:
        """Count the voices that are remembered."""
        return len(self._created)

    async def settle(self, client: str) -> None:
        """Look what became of voices of a client's network.

        Raises:
            Problem: `rate_limited`: too many voices of the client have no end.
        """
        if not self._in_progress:
            return
        self._forget_old()
        await asyncio.gather(*map(self._look_at, self._due(client)))
        # A large network may have no more than an address: all of them may be converted at once.
        if any(self._counts[network] >= self._in_progress for _, network in networks_of(client)):
            raise self._limits.too_many_voices(self._in_progress)

    def remember(self, client: str, voice_id: str) -> None:
        """Remember a voice that a client has created."""
        if not self._in_progress:
            return
        created = self._created[voice_id] = _Created(client, self._now())
        self._of_network.setdefault(created.networks[0], OrderedDict())[voice_id] = None
        self._counted[voice_id] = created
        self._counts.update(created.networks)
        if len(self._created) > MOST_VOICES:
            self._forget(next(iter(self._created)))

    def ended(self, voice: Voice) -> None:
        """Count a voice that is done or failed, if it was created here."""
        created = self._forget(voice.voice_id)
        if created is None or voice.error is None:
            return
        if voice.error.code in SUSPICIOUS:
            self._limits.charge(created.client)
        elif voice.error.code is ErrorCode.INTERNAL:
            self._limits.give_back(created.client)

    def erased(self, voice: Voice) -> None:
        """Count a voice that is being erased, if it was created here.

        What is erased while it is converted may be anything, and leaves nothing to look at.
        """
        if voice.status in {Status.QUEUED, Status.CONVERTING}:
            created = self._forget(voice.voice_id)
            if created:
                self._limits.charge(created.client)
        else:
            self.ended(voice)

    def _due(self, client: str) -> list[str]:
        """Return the voices to look at; they are the last to be looked at again."""
        network = networks_of(client)[0][1]
        known = self._of_network.get(network, OrderedDict())
        due = list(known)[:LOOKS]
        for voice_id in due:
            known.move_to_end(voice_id)
        return due

    async def _look_at(self, voice_id: str) -> None:
        try:
            voice = (await self._voices.read(voice_id)).voice
        except (UnknownVoiceError, UnreadableVoiceError):
            self._forget(voice_id)
            return
        except StoreUnavailableError:
            return
        if voice.status.is_final:
            self.ended(voice)

    def _forget_old(self) -> None:
        now = self._now()
        for voice_id in _older(self._counted, now - IN_PROGRESS_SECONDS):
            self._count_no_more(voice_id)
        for voice_id in _older(self._created, now - self._seconds):
            self._forget(voice_id)

    def _count_no_more(self, voice_id: str) -> None:
        created = self._counted.pop(voice_id, None)
        for network in created.networks if created else ():
            self._counts[network] -= 1
            if not self._counts[network]:
                del self._counts[network]

    def _forget(self, voice_id: str) -> _Created | None:
        # Another request may have looked at it at the same time.
        created = self._created.pop(voice_id, None)
        if created is None:
            return None
        self._count_no_more(voice_id)
        network = created.networks[0]
        of_network = self._of_network[network]
        del of_network[voice_id]
        if not of_network:
            del self._of_network[network]
        return created


def _older(created: Mapping[str, _Created], end: float) -> list[str]:
    """List the voices that were created before a time, the oldest first."""
    return [voice_id for voice_id, _ in takewhile(lambda one: one[1].at <= end, created.items())]
