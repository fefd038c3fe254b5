from __future__ import annotations

import asyncio
import hashlib
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal, cast

import numpy as np
import pytest

from shared.conversion.characters import LoadedCharacter
from shared.conversion.provenance import SpokenNotice
from shared.conversion.stages import Conversion, conversion_options
from shared.conversion.stopwatch import Stages
from shared.speech.decoding.recording import DecodeLimits, Recording
from shared.speech.engines.interface import ConversionOptions, EarlyPieces
from shared.speech.engines.text_interface import SpeechOptions
from shared.voices import voice as voices_of
from shared.voices.media import TEXT_CONTENT_TYPE, Container
from shared.voices.objects import ObjectFacts, StorageUnavailableError
from shared.voices.voice import ErrorCode, Options, OutputFormat, Speaking, Voice, VoiceError
from tests.support.buckets import MemoryBucket
from tests.support.characters import a_manifest
from tests.support.conversion import (
    FakeDecoder,
    FakeEngine,
    FakeSpeaker,
    MarkingSpeaker,
    a_recording,
)
from tests.support.voices import NOW, an_upload, is_sentence

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from shared.speech.decoding.decoder import Decoder
    from shared.speech.engines.text_interface import PhraseEngine

SPEECH = b"an encoded recording"
TEXT = "はい。"
MAX_BYTES = 1000


class ConversionStage:
    def __init__(
        self,
        results: MemoryBucket | None = None,
        *,
        pieces: int = 1,
        notice: SpokenNotice | None = None,
    ) -> None:
        self.uploads = MemoryBucket("uploads")
        self.results = results or MemoryBucket("results")
        self.decoder, self.engine = FakeDecoder(), FakeEngine()
        self.speaker = FakeSpeaker(pieces, sample_rate=8000, samples=4001)
        speaker = cast("PhraseEngine", self.speaker)
        self.character = LoadedCharacter(a_manifest("mei"), self.engine, speaker)
        self.stages: list[str] = []
        self.conversion = Conversion(
            uploads=self.uploads,
            results=self.results,
            decoder=cast("Decoder", self.decoder),
            limits=DecodeLimits(max_bytes=MAX_BYTES),
            max_speech_seconds=2.0,
            result_lifetime=timedelta(hours=1),
            notice=notice,
        )

    def voice(self, data: bytes = SPEECH, **changes: Any) -> Voice:
        upload_changes = {k: changes.pop(k) for k in ("content_type", "bytes") if k in changes}
        voice = voices_of.create(voices_of.new_voice_id(), "mei", Options(**changes), now=NOW)
        generation = self.uploads.put(voice.voice_id, data)
        upload = an_upload(voice.voice_id, generation=generation, **upload_changes)
        if "bytes" not in upload_changes:
            upload = an_upload(
                voice.voice_id, generation=generation, bytes=len(data), **upload_changes
            )
        return voices_of.lease(voice, NOW, upload)

    def text(self) -> Voice:
        speaking = Speaking(1.5, -2, 0.5, 0.8, 2, style=3)
        return self.voice(TEXT.encode(), speaking=speaking, content_type=TEXT_CONTENT_TYPE)

    async def run(self, voice: Voice) -> Any:
        return await self.conversion.run(voice, self.character, self.stages.append)


@pytest.fixture
def stage() -> ConversionStage:
    return ConversionStage()


@pytest.mark.parametrize(
    ("output_format", "content_type", "magic"),
    [(OutputFormat.WAV, "audio/wav", b"RIFF"), (OutputFormat.OGG, "audio/ogg", b"OggS")],
)
async def test_a_recording_becomes_a_result_in_the_wanted_format_in_timed_stages(
    stage: ConversionStage, output_format: OutputFormat, content_type: str, magic: bytes
) -> None:
    voice = stage.voice(output_format=output_format)

    outcome = await stage.run(voice)

    result = outcome.result
    stored = stage.results.objects[f"{voice.voice_id}/1.{output_format}"]
    assert stored.data.startswith(magic)
    assert (result.bucket, result.object) == ("results", f"{voice.voice_id}/1.{output_format}")
    assert (result.content_type, stored.content_type) == (content_type, content_type)
    assert (result.bytes, result.sha256) == (
        len(stored.data),
        hashlib.sha256(stored.data).hexdigest(),
    )
    assert (result.seconds, outcome.seconds) == (0.5, 0.5)
    assert f"mei-{voice.voice_id[:8]}.{output_format}" in result.url
    assert f"/results/{result.object}?" in result.url
    assert result.url_expires_at > datetime.now(UTC) + timedelta(minutes=59)
    assert result.synthetic["character"] == "mei"
    assert "Synthetic" in result.synthetic["comment"]
    assert stage.decoder.decoded == [SPEECH]
    assert stage.decoder.limits == DecodeLimits(max_bytes=MAX_BYTES)
    assert stage.engine.converted == [(8001, 16_000)]
    assert stage.stages == ["reading", "decoding", "converting", "encoding", "storing"]
    assert set(outcome.timings) == {"read", "decode", "network", "encode", "store"}


async def test_a_text_becomes_marked_speech_in_stages_of_its_own(stage: ConversionStage) -> None:
    voice, other = stage.text(), stage.text()

    outcome = await stage.run(voice)

    assert stage.stages == ["reading", "speaking", "encoding", "storing"]
    assert set(outcome.timings) == {"read", "speak", "encode", "store"}
    assert (outcome.seconds, outcome.result.seconds) == (None, 0.5)
    assert b"Synthetic" in stage.results.objects[outcome.result.object].data
    assert (stage.decoder.decoded, stage.engine.asked) == ([], [])
    for each in (other, replace(voice, attempt=2)):
        await stage.run(each)
    assert [text for text, _ in stage.speaker.asked] == [TEXT] * 3
    assert stage.speaker.asked[0][1] == SpeechOptions(
        speed=1.5,
        pitch=-2,
        intonation=0.5,
        volume=0.8,
        pauses=2,
        style=3,
        seed=stage.speaker.asked[0][1].seed,
    )
    one, another, again = (options.seed for _, options in stage.speaker.asked)
    assert one == again != another


async def test_another_attempt_at_a_voice_gives_the_same_bytes_under_another_name(
    stage: ConversionStage,
) -> None:
    voice = stage.voice(pitch_shift=-3.0)
    first = await stage.run(voice)
    assert voice.input is not None
    again = voices_of.lease(voice, NOW + voices_of.LEASE, voice.input)
    second = await stage.run(again)

    assert first.result.sha256 == second.result.sha256
    assert second.result.object == f"{voice.voice_id}/2.wav"
    assert stage.engine.asked[0] == stage.engine.asked[1]
    assert stage.engine.asked[0].pitch_shift == -3.0


async def test_a_result_is_used_although_the_answer_to_its_write_was_lost(
    stage: ConversionStage,
) -> None:
    voice = stage.voice()
    await stage.run(voice)

    outcome = await stage.run(voice)

    assert outcome.result.object in stage.results.objects


async def failed(stage: ConversionStage, voice: Voice) -> VoiceError:
    with pytest.raises(VoiceError) as caught:
        await stage.run(voice)
    assert stage.results.objects == {}
    assert is_sentence(caught.value.message)
    return caught.value


async def failed_code(stage: ConversionStage, voice: Voice) -> ErrorCode:
    return (await failed(stage, voice)).code


@pytest.mark.parametrize("what", ["recording", "text"])
async def test_a_recording_or_a_text_that_is_gone_or_replaced_is_missing(
    stage: ConversionStage, what: str
) -> None:
    voice = stage.text() if what == "text" else stage.voice()
    await stage.uploads.delete(voice.voice_id)

    error = await failed(stage, voice)

    assert (error.code, what in error.message) == (ErrorCode.SOURCE_MISSING, True)
    stage.uploads.put(voice.voice_id, b"another")
    assert await failed_code(stage, voice) is ErrorCode.SOURCE_MISSING


@pytest.mark.parametrize("told", [MAX_BYTES + 1, 5])
async def test_a_recording_that_is_too_large_is_not_decoded(
    stage: ConversionStage, told: int
) -> None:
    voice = stage.voice(b"x" * (MAX_BYTES + 1), bytes=told)

    error = await failed(stage, voice)

    assert (error.code, stage.decoder.decoded) == (ErrorCode.TOO_LARGE, [])
    assert f"has {MAX_BYTES + 1} bytes; at most {MAX_BYTES} are" in error.message
    await stage.run(stage.voice(b"x" * MAX_BYTES))


async def test_a_recording_that_is_not_what_it_was_announced_as_is_refused(
    stage: ConversionStage,
) -> None:
    stage.decoder.recording = a_recording(container=Container.WAV)

    assert await failed_code(stage, stage.voice()) is ErrorCode.CONTENT_TYPE_MISMATCH


async def test_errors_of_the_decoder_and_the_engine_are_errors_of_the_voice(
    stage: ConversionStage,
) -> None:
    stage.engine.error = VoiceError(ErrorCode.SILENT, "It is silent.")
    assert await failed_code(stage, stage.voice()) is ErrorCode.SILENT
    stage.decoder.error = VoiceError(ErrorCode.CORRUPT, "It is corrupt.")
    assert await failed_code(stage, stage.voice()) is ErrorCode.CORRUPT


@pytest.mark.parametrize("name", ["uploads", "results"])
async def test_unreachable_storage_is_not_an_error_of_the_voice(
    stage: ConversionStage, name: str
) -> None:
    getattr(stage, name).is_out_of_reach = True

    with pytest.raises(StorageUnavailableError):
        await stage.run(stage.voice())


async def test_a_write_that_fails_leaves_no_signature_under_way() -> None:
    class Failing(MemoryBucket):
        signature: asyncio.Task[Any] | None = None

        async def write(self, name: str, *_content: object, **_facts: object) -> ObjectFacts:
            await asyncio.sleep(0)
            raise StorageUnavailableError(name)

        async def sign_download(self, *_name: object, **_terms: object) -> tuple[str, datetime]:
            self.signature = asyncio.current_task()
            await asyncio.Event().wait()
            raise AssertionError

    results = Failing("results")
    stage = ConversionStage(results)

    with pytest.raises(StorageUnavailableError):
        await stage.run(stage.voice())

    assert results.signature is not None
    assert results.signature.cancelled()


async def test_a_voice_without_its_input_is_a_mistake_of_ours(stage: ConversionStage) -> None:
    voice = voices_of.create(voices_of.new_voice_id(), "mei", Options(), now=NOW)

    with pytest.raises(ValueError, match="leased without its input"):
        await stage.run(voice)


class Early:
    """The work that was done while the recording came."""

    def __init__(self, recording: Recording | None = None) -> None:
        self.ahead = EarlyPieces()
        self._recording = recording

    async def decoded(self) -> Recording | None:
        return self._recording


async def test_what_was_converted_ahead_is_there_for_the_conversion_and_was_asked_for_alike(
    stage: ConversionStage,
) -> None:
    voice, early = stage.voice(pitch_shift=3), Early()
    ahead = early.ahead
    options = conversion_options(voice, ahead)

    await stage.conversion.make(
        voice, stage.character, SPEECH, "audio/webm", Stages(stage.stages.append), early=early
    )
    await stage.run(voice)

    with_it, without = stage.engine.asked
    assert with_it.ahead is options.ahead is ahead
    assert without.ahead is None
    assert with_it == without == options == ConversionOptions(3, options.seed)
    assert stage.decoder.decoded == [SPEECH, SPEECH]


async def test_what_was_decoded_while_it_came_is_not_decoded_again(stage: ConversionStage) -> None:
    early = Early(a_recording())
    stages = Stages(stage.stages.append)
    voice = stage.voice()

    made = await stage.conversion.make(
        voice, stage.character, SPEECH, "audio/webm", stages, early=early
    )
    assert stage.decoder.decoded == []
    assert made.seconds == 0.5
    with pytest.raises(VoiceError) as refusal:
        await stage.conversion.make(
            voice, stage.character, SPEECH, "audio/wav", stages, early=early
        )
    assert refusal.value.code is ErrorCode.CONTENT_TYPE_MISMATCH


async def test_a_recording_is_emptied_so_that_its_address_stays_used(
    stage: ConversionStage,
) -> None:
    voice = stage.voice()

    await stage.conversion.discard_recording(voice)

    emptied = stage.uploads.objects[voice.voice_id]
    assert emptied.data == b""
    # Again, as after a redelivery, and with another upload under the name: nothing is touched.
    await stage.conversion.discard_recording(voice)
    assert stage.uploads.objects[voice.voice_id] == emptied
    await stage.conversion.discard_recording(replace(voice, input=None))


async def test_results_are_discarded_by_attempt_by_voice_or_but_for_the_committed_one(
    stage: ConversionStage,
) -> None:
    voice, other = stage.voice(), stage.voice()
    outcome = await stage.run(voice)
    done = voices_of.finish(voice, NOW, 1, outcome.result, seconds=1.0, timings={})
    first, second, eleventh = (f"{voice.voice_id}/{number}.wav" for number in (1, 2, 11))
    others = f"{other.voice_id}/1.wav"

    async def left_after(discard: Awaitable[None]) -> set[str]:
        await discard
        left = set(stage.results.objects)
        stage.results.objects.clear()
        put_all()
        return left

    def put_all() -> None:
        for name in (first, second, eleventh, others):
            stage.results.put(name, b"sound")

    put_all()
    conversion = stage.conversion
    assert await left_after(conversion.discard(voice)) == {second, eleventh, others}
    assert await left_after(conversion.discard_others(done)) == {first, others}
    assert await left_after(conversion.discard_others(voice)) == {others}
    assert await left_after(conversion.discard_all(voice.voice_id)) == {others}


@pytest.mark.parametrize("place", ["before", "after"])
async def test_a_notice_is_said_beside_each_result_and_spoken_only_once(
    place: Literal["before", "after"],
) -> None:
    stage = ConversionStage(notice=SpokenNotice(place, ["ja", "en"]))

    outcomes = [await stage.run(stage.voice(output_format=OutputFormat.WAV)) for _ in range(2)]

    assert [text for text, _ in stage.speaker.asked] == [
        "これは、合成音声です。",
        "This is a synthetic voice.",
    ]
    # 0.5 s of result, 2 x 0.5 s of notice, and two pauses of 0.3 s.
    assert [outcome.result.seconds for outcome in outcomes] == pytest.approx([2.1, 2.1], abs=0.01)
    stored = stage.results.objects[outcomes[0].result.object].data
    samples = np.frombuffer(stored[-2 * 33_600 :], "<i2")
    # The engine negates what the decoder gives; the speaker's samples are positive.
    said, result = (samples[:8_000], samples[-8_000:])
    if place == "after":
        said, result = result, said
    assert said.mean() > 0
    assert result.mean() < 0


@pytest.mark.parametrize(
    ("place", "phones"),
    [
        (None, "h:250 h:750"),
        # After two pieces of the notice and a pause of 0.3 s.
        ("before", "h:1550 h:2050"),
        ("after", "h:250 h:750"),
    ],
)
async def test_the_result_of_a_text_says_when_its_phones_are_heard(
    place: Literal["before", "after"] | None, phones: str
) -> None:
    stage = ConversionStage(notice=place and SpokenNotice(place, ["en"]))
    speaker = cast("PhraseEngine", MarkingSpeaker(2, sample_rate=8000, samples=4001))
    stage.character = replace(stage.character, text_engine=speaker)

    outcome = await stage.run(stage.text())

    assert outcome.result.phones == phones


async def test_a_character_that_takes_no_text_gives_its_results_without_a_notice() -> None:
    stage = ConversionStage(notice=SpokenNotice("before", ["en"]))
    stage.character = replace(stage.character, text_engine=None)

    outcome = await stage.run(stage.voice())

    assert outcome.result.seconds == 0.5
