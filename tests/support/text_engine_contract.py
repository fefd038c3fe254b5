"""The contract of `PhraseEngine`: each engine's tests inherit it and define `engine`."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from shared.speech.engines.text_interface import SpeechOptions, TextError, TextErrorCode

if TYPE_CHECKING:
    from shared.speech.engines.text_interface import PhraseEngine
    from shared.speech.signal.sound import Samples

TEXT = "今日は、とてもいい天気ですね。散歩に行きましょう。"


def whole(engine: PhraseEngine, text: str = TEXT, **options: Any) -> Samples:
    return np.concatenate(list(engine.speak(text, SpeechOptions(**options))))


class TextEngineContract:
    def test_pieces_fit_the_scale_and_end_with_the_silence_after(
        self, engine: PhraseEngine
    ) -> None:
        *spoken, after = engine.speak(TEXT, SpeechOptions(silence_after=0.25))

        assert len(spoken) >= 2
        assert {piece.dtype for piece in spoken} == {np.dtype(np.float32)}
        assert all(0.05 < np.abs(piece).max() <= 1.0 for piece in spoken)
        assert len(after) == round(0.25 * engine.sample_rate)
        assert not after.any()

    def test_the_requested_silence_surrounds_the_speech(self, engine: PhraseEngine) -> None:
        short = whole(engine, silence_before=0.0, silence_after=0.0, seed=3)
        long = whole(engine, silence_before=0.5, silence_after=0.25, seed=3)

        before = round(0.5 * engine.sample_rate)
        assert len(long) - len(short) == before + round(0.25 * engine.sample_rate)
        assert not long[:before].any()
        np.testing.assert_allclose(long[before : before + len(short)], short, atol=1e-6)

    def test_options_of_one_call_do_not_reach_the_next(self, engine: PhraseEngine) -> None:
        usual = whole(engine, seed=7)
        whole(engine, speed=2.0, pitch=5.0, seed=8)

        np.testing.assert_array_equal(whole(engine, seed=7), usual)

    def test_twice_as_fast_is_about_half_as_long(self, engine: PhraseEngine) -> None:
        usual, fast = (
            len(whole(engine, speed=speed, silence_before=0.0, silence_after=0.0))
            for speed in (1.0, 2.0)
        )

        assert 0.4 < fast / usual < 0.65

    def test_the_volume_scales_the_samples(self, engine: PhraseEngine) -> None:
        usual, soft = (np.abs(whole(engine, volume=value)).max() for value in (0.5, 0.25))

        assert soft == pytest.approx(usual / 2, rel=0.1)
        assert np.abs(whole(engine, volume=8.0)).max() <= 1.0

    def test_many_threads_get_the_same_result_as_one(self, engine: PhraseEngine) -> None:
        texts = [TEXT, "こんにちは。", "明日は雨が降るそうです。"] * 4
        alone = {text: whole(engine, text, seed=1) for text in set(texts)}

        with ThreadPoolExecutor(4) as threads:
            together = list(threads.map(lambda text: whole(engine, text, seed=1), texts))

        for text, wave in zip(texts, together, strict=True):
            np.testing.assert_array_equal(wave, alone[text])

    @pytest.mark.parametrize(
        ("text", "code", "message"),
        [
            *(
                (text, TextErrorCode.NOTHING_TO_SAY, "nothing that can be spoken")
                for text in ("", "。\uff01\uff1f…", "\x00\x1b")
            ),
            *(
                (
                    text,
                    TextErrorCode.TEXT_UNREADABLE,
                    "which the voice cannot read; write it in Japanese",
                )
                for text in ("привет", "这是测试", "Das ist nicht der Weg.")
            ),
            ("あ" * 2_001, TextErrorCode.TEXT_TOO_LONG, "The text has 2001 characters"),
        ],
    )
    def test_a_text_that_cannot_be_spoken_is_refused_before_the_first_piece(
        self, engine: PhraseEngine, text: str, code: TextErrorCode, message: str
    ) -> None:
        for ask in (engine.speak, engine.estimate):
            with pytest.raises(TextError, match=message) as caught:
                ask(text, SpeechOptions())
            assert caught.value.code is code

    def test_a_style_that_the_voice_has_not_is_refused(self, engine: PhraseEngine) -> None:
        for ask in (engine.speak, engine.estimate):
            with pytest.raises(TextError, match="The voice has") as caught:
                ask(TEXT, SpeechOptions(style=5))
            assert caught.value.code is TextErrorCode.UNKNOWN_STYLE

    def test_an_estimate_counts_the_silences(self, engine: PhraseEngine) -> None:
        short, long = (
            engine.estimate(TEXT, SpeechOptions(silence_before=value, silence_after=value))
            for value in (0.0, 0.5)
        )

        assert 0.5 < short < 20
        assert long - short == pytest.approx(1.0)

    def test_unchanged_phrases_sound_like_their_text(self, engine: PhraseEngine) -> None:
        pieces = engine.speak_phrases(engine.read_phrases(TEXT), TEXT, SpeechOptions())

        np.testing.assert_array_equal(np.concatenate(list(pieces)), whole(engine))

    def test_no_phrases_are_the_silence_after_them(self, engine: PhraseEngine) -> None:
        (only,) = engine.speak_phrases([], None, SpeechOptions())

        assert not only.any()
