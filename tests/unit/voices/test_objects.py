from __future__ import annotations

import pytest

from shared.voices.objects import result_name, upload_name, voice_of_upload
from shared.voices.voice import InvalidVoiceIdError, new_voice_id


def test_objects_are_named_by_voice_and_attempt_and_an_upload_leads_back_to_its_voice() -> None:
    voice_id = new_voice_id()

    assert voice_of_upload(upload_name(voice_id)) == voice_id
    assert result_name(voice_id, 11, "mp3") == f"{voice_id}/11.mp3"


@pytest.mark.parametrize(
    "name", ["", "../etc/passwd", "voice.webm", "3c7d1f2a-94be-4c0d-8f11-5a6b7c8d9e0f/1.wav"]
)
def test_a_strange_object_belongs_to_no_voice(name: str) -> None:
    assert voice_of_upload(name) is None


def test_no_object_name_is_made_from_an_invalid_voice_id() -> None:
    with pytest.raises(InvalidVoiceIdError):
        upload_name("../x")
    with pytest.raises(InvalidVoiceIdError):
        result_name("../x", 1, "wav")
