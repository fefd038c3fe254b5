from __future__ import annotations

from datetime import datetime
from enum import Enum
from typing import TYPE_CHECKING, Any

import pytest

from shared.voices.documents import document_path, from_document, to_document
from tests.support.voices import EVERY_STATE, NOW, a_done, a_failed, a_text, a_waiting

if TYPE_CHECKING:
    from collections.abc import Iterator


DOCUMENTS = EVERY_STATE | {"text": a_text}


def leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        for part in value.values():
            yield from leaves(part)
    else:
        yield value


@pytest.mark.parametrize("state", DOCUMENTS)
def test_a_voice_survives_its_document(state: str) -> None:
    voice = DOCUMENTS[state]()

    document = to_document(voice)

    assert from_document(voice.voice_id, document) == voice


@pytest.mark.parametrize("state", DOCUMENTS)
def test_a_document_holds_only_what_firestore_stores(state: str) -> None:
    for leaf in leaves(to_document(DOCUMENTS[state]())):
        assert type(leaf) in {str, int, float, type(None), datetime}
        assert not isinstance(leaf, Enum)


def test_the_fields_are_those_that_clients_read() -> None:
    document = to_document(a_done())

    assert set(document) == {
        "status",
        "character",
        "options",
        "owner",
        "client",
        "created_at",
        "updated_at",
        "expire_at",
        "input",
        "attempt",
        "handed_back",
        "lease_expires_at",
        "stage",
        "result",
        "error",
        "timings",
    }
    assert (document["status"], document["created_at"]) == ("done", NOW)
    assert set(document["result"]) >= {"bucket", "object", "url", "url_expires_at", "sha256"}
    assert document["options"] == {
        "pitch_shift": None,
        "output_format": "wav",
        "content_type": "audio/webm",
        "speaking": None,
    }


def test_a_failed_document_has_code_and_message() -> None:
    assert to_document(a_failed())["error"] == {
        "code": "silent",
        "message": "There is no voice in the recording.",
    }


@pytest.mark.parametrize(
    "changes",
    [
        {"status": "lost"},
        {"options": None},
        {"input": {"x": 1}},
        {"input": 1},
        {"result": {}},
        {"error": {"code": "unheard_of", "message": ""}},
    ],
)
def test_a_document_of_another_form_is_not_read(changes: dict[str, Any]) -> None:
    document = to_document(a_waiting()) | changes

    with pytest.raises((KeyError, TypeError, ValueError)):
        from_document("x", document)


def test_a_document_without_a_field_that_must_be_there_is_not_read() -> None:
    document = to_document(a_waiting())

    for name in ("character", "created_at", "options", "status"):
        with pytest.raises((KeyError, TypeError)):
            from_document("x", {each: document[each] for each in document.keys() - {name}})


def test_fields_of_later_versions_are_ignored() -> None:
    voice = a_done()
    document = to_document(voice) | {"mood": "good", "voice_id": "of another voice"}
    for part in ("options", "input", "result"):
        document[part] |= {"mood": "good"}

    assert from_document(voice.voice_id, document) == voice


def test_the_path_is_the_one_that_clients_listen_to() -> None:
    assert document_path("abc") == "shards/2/voices/abc"
