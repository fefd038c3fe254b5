from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.voices.media import (
    CONTENT_TYPES,
    Container,
    UnsupportedContentTypeError,
    content_type_matches,
    parse_content_type,
    sniff,
)
from shared.voices.objects import result_name, upload_name, voice_of_upload
from shared.voices.voice import InvalidVoiceIdError, new_voice_id

EBML = b"\x1aE\xdf\xa3"


@pytest.mark.parametrize(
    ("text", "media_type"),
    [
        ("audio/webm", "audio/webm"),
        ("Audio/OGG ; codecs=opus", "audio/ogg"),
    ],
)
def test_a_content_type_is_read_without_its_parameters(text: str, media_type: str) -> None:
    assert parse_content_type(text) == media_type


@pytest.mark.parametrize("text", ["", "text/html", "audio/webm2", "*/*"])
def test_a_content_type_recordings_cannot_have_is_refused_by_name(text: str) -> None:
    with pytest.raises(UnsupportedContentTypeError, match="use one of application/ogg, audio/aac"):
        parse_content_type(text)


@pytest.mark.parametrize(
    "parameters", ["\n", "\r\nX-Other: y", "\0", "\x7f", "é", "声", "x" * 200], ids=ascii
)
def test_a_content_type_that_cannot_stand_in_a_header_names_nothing(parameters: str) -> None:
    text = f"audio/webm;{parameters}"

    with pytest.raises(UnsupportedContentTypeError):
        parse_content_type(text)
    assert not content_type_matches(Container.WEBM, text)


def test_every_type_of_a_container_may_be_uploaded() -> None:
    for container in Container:
        assert CONTENT_TYPES[container]
        for media_type in CONTENT_TYPES[container]:
            assert parse_content_type(f"{media_type};x=y") == media_type
            assert content_type_matches(container, f"{media_type.upper()};x=y")


@pytest.mark.parametrize(
    ("container", "content_type", "matches"),
    [
        (Container.WEBM, "audio/webm;codecs=opus", True),
        (Container.MATROSKA, "audio/webm;codecs=opus", True),
        (Container.WEBM, "video/x-matroska", True),
        (Container.MP4, "audio/aac", True),
        (Container.WAV, "audio/webm", False),
        (Container.OGG, "text/html", False),
    ],
)
def test_the_declared_type_is_compared_with_the_content(
    container: Container, content_type: str, *, matches: bool
) -> None:
    assert content_type_matches(container, content_type) is matches


@pytest.mark.parametrize(
    ("head", "container"),
    [
        (EBML + b"\x9f\x42\x86\x81\x01\x42\x82\x84webm", Container.WEBM),
        (EBML + b"\x9f\x42\x82\x88matroska", Container.MATROSKA),
        (b"\0\0\0\x20ftypiso5", Container.MP4),
        (b"OggS\0\x02", Container.OGG),
        (b"RIFF\0\0\0\0WAVEfmt ", Container.WAV),
        (b"RF64\xff\xff\xff\xffWAVEds64", Container.WAV),
        (b"fLaC\0\0\0\x22", Container.FLAC),
        (b"\xff\xfb\x90\x64", Container.MP3),
        (b"\xff\xf1\x50\x80", Container.ADTS),
        (b"ID3\x04\0\0\0\0\0\x02xx\xff\xfb\x90\x64", Container.MP3),
        (b"ID3\x04\0\0\0\0\0\x02xxfLaC", Container.FLAC),
        (b"ID3\x04\0\0\x7f\x7f\x7f\x7f", Container.MP3),
    ],
)
def test_containers_are_recognised_by_their_first_bytes(head: bytes, container: Container) -> None:
    assert sniff(head) is container


@pytest.mark.parametrize(
    "head",
    [
        *(b"", b"\xff\xfb", b"\0" * 100, b"RIFF\0\0\0\0AVI ", b"XXXX\0\0\0\0WAVE"),
        # Lists of other files, and pictures.
        *(b"#EXTM3U\n", b"ffconcat version 1.0\n", b"<?xml version='1.0'?><MPD/>"),
        *(b"\xff\xd8\xff\xe0JFIF", b"\xff\xfe<\0?\0x\0m\0l\0"),
        # Reserved rates, versions and layers of MPEG.
        *(b"\xff\xfb\xf0\x64", b"\xff\xfb\x9c\x64", b"\xff\xeb\x90\x64", b"\xff\xff\x90\x64"),
    ],
)
def test_other_files_are_not_recognised_as_a_container(head: bytes) -> None:
    assert sniff(head) is None


@given(st.binary(max_size=200))
def test_no_bytes_make_sniffing_fail(head: bytes) -> None:
    assert sniff(head) in {None, *Container}


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
