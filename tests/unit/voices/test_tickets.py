from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from shared.voices.tickets import TicketRefusedError, Tickets
from shared.voices.voice import new_voice_id

NOW = datetime(2026, 3, 4, 5, 6, 7, 890000, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
KEY = "k" * 32
OLD_KEY = "o" * 32


def tickets(*keys: str, now: datetime = NOW) -> Tickets:
    return Tickets(keys or (KEY,), now=lambda: now)


def test_a_ticket_names_its_voice_until_it_expires() -> None:
    voice_id = new_voice_id()
    ticket = tickets().sign(voice_id, MINUTE)

    assert ticket.expires_at == NOW.replace(microsecond=0) + MINUTE
    last_moment = ticket.expires_at - timedelta(microseconds=1)
    assert tickets(now=last_moment).verify(ticket.text) == voice_id
    with pytest.raises(TicketRefusedError, match="expired"):
        tickets(now=ticket.expires_at).verify(ticket.text)


def test_a_changed_ticket_is_refused() -> None:
    text = tickets().sign(new_voice_id(), MINUTE).text
    voice_id, expires_at, signature = text.split(".")
    forged = [
        f"{new_voice_id()}.{expires_at}.{signature}",
        f"{voice_id}.{int(expires_at) + 60}.{signature}",
        f"{voice_id}.{expires_at}.{'A' * len(signature)}",
        f"{voice_id}.{expires_at}.",
    ]
    other_spellings = [f"{voice_id}.0{expires_at}.{signature}", f" {text}", f"{text}=", f"{text}\n"]
    for other in forged:
        with pytest.raises(TicketRefusedError, match="not ours"):
            tickets().verify(other)
    for other in other_spellings:
        with pytest.raises(TicketRefusedError):
            tickets().verify(other)


@pytest.mark.parametrize("text", ["", "a.b", "a.b.c.d", "é.1.x", "a" * 100_000, "..."])
def test_what_is_no_ticket_is_refused(text: str) -> None:
    with pytest.raises(TicketRefusedError):
        tickets().verify(text)


def test_a_key_is_rotated_without_refusing_a_ticket() -> None:
    voice_id = new_voice_id()
    old = tickets(OLD_KEY).sign(voice_id, MINUTE).text
    new = tickets(KEY, OLD_KEY).sign(voice_id, MINUTE).text

    assert tickets(KEY, OLD_KEY).verify(old) == tickets(KEY).verify(new) == voice_id
    with pytest.raises(TicketRefusedError):
        tickets(KEY).verify(old)


def test_there_must_be_a_key() -> None:
    with pytest.raises(ValueError, match="key"):
        Tickets(())
