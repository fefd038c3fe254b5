"""Judging characters with a command, and what it writes into their cards."""

import base64
import io
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import soundfile

from shared.characters.bundle_files import BundleError
from shared.speech.results.watermark import SHORTEST_KEY, WatermarkKey
from shared.speech.results.watermark_detection import find_watermark
from shared.speech.signal.samples import resample
from tests.unit.training.conftest import copy_bundle, write_speech
from tools.training.decoder.features import RATE, Floats
from tools.training.judges import command
from tools.training.judges.blind_pairs import TRIALS, AnswersError, sum_up
from tools.training.judges.converter import BundleConverter
from tools.training.judges.judgement import JUDGED_BEGIN
from tools.training.judges.panel import RESEMBLYZER, Panel

ROOT = Path(__file__).parents[4]


class Ear:
    """Understands always the same, and knows voices by their level."""

    def understand(self, _wave: Floats, language: str) -> str:
        return "あいうえ" if language == "ja" else "one two"

    def embed(self, wave: Floats) -> Floats:
        level = np.array([1.0, float(np.abs(wave).mean())], np.float32)
        return np.asarray(level / np.linalg.norm(level), np.float32)


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> command.JudgesFolders:
    panel = Panel(Ear(), [], {RESEMBLYZER: Ear()}, ["DNSMOS: speechmos is not installed"], Ear())
    monkeypatch.setattr(command, "gather", lambda _models: panel)
    card = copy_bundle("mei", tmp_path / "characters") / "MODEL_CARD.md"
    card.write_text("# Mei\n\nmeasured once\n")
    strangers, voice = tmp_path / "strangers", tmp_path / "judges" / "jm_kumo"
    write_speech(strangers / "367.flac", stranger()[: 2 * RATE])
    write_speech(voice / "ja000.wav", stranger()[: 2 * RATE])
    (voice / "transcripts.tsv").write_text("ja000.wav\tja\tあいうえお\n", "utf-8")
    return command.JudgesFolders(
        tmp_path / "characters", strangers, tmp_path / "judges", (), tmp_path / "models"
    )


def own(_character: str) -> list[Floats]:
    return [np.sin(np.arange(RATE, dtype=np.float32) / 20)]


def test_the_card_gets_a_table_of_every_condition_and_keeps_what_else_is_in_it(
    places: command.JudgesFolders,
) -> None:
    shown = command.judge([], places, own)

    card = (places.characters / "mei" / "MODEL_CARD.md").read_text("utf-8")
    assert "measured once" in card
    assert JUDGED_BEGIN in card
    assert "Not measured: DNSMOS: speechmos is not installed." in card
    for condition in ("clean", "noise, 10 dB", "telephone", "room, 0.4 s"):
        for who in ("as spoken", "mei"):
            assert f"| {condition} | Japanese man | {who} | 20.0% | 5 | 0.0% |" in card
            assert f"| {condition} | English readers | {who} | 0.0% | 2 | 0.0% |" in card
    assert card.count("| mei |") == shown.count("| mei |") == 8


def test_a_run_of_few_sentences_leaves_the_card_as_it_was_and_says_what_is_missing(
    places: command.JudgesFolders,
) -> None:
    card = places.characters / "mei" / "MODEL_CARD.md"
    before = card.read_text("utf-8")
    shutil.rmtree(places.judges)
    shown = command.judge(["mei"], places, lambda _character: [], sentences=2)
    assert "| mei |" in shown
    assert f"Japanese: no recordings in {places.judges}" in shown
    assert "likeness: no recordings of mei" in shown
    assert card.read_text("utf-8") == before


def test_a_character_that_is_not_there_is_named_with_those_that_are(
    places: command.JudgesFolders,
) -> None:
    with pytest.raises(BundleError, match=r"--character ada: expected one of mei"):
        command.judge(["ada"], places, own)


def test_what_the_watermark_changes_stands_beside_what_has_none_and_the_card_stays(
    places: command.JudgesFolders,
) -> None:
    card = (places.characters / "mei" / "MODEL_CARD.md").read_text("utf-8")
    shown = command.judge(["mei"], places, own, is_marked=True)
    assert "noise" not in shown
    for converted in ("mei", "mei, another seed", "mei, marked"):
        assert shown.count(f"| {converted} |") == 2
    assert (places.characters / "mei" / "MODEL_CARD.md").read_text("utf-8") == card


def stranger() -> Floats:
    wave, rate = soundfile.read(
        ROOT / "tools" / "training" / "people" / "strangers" / "367.opus", dtype="float32"
    )
    return resample(wave, rate, RATE)


def test_the_marked_conversion_has_a_watermark_and_another_seed_gives_another_conversion() -> None:
    said = stranger()[: 5 * RATE]
    converter = BundleConverter.of(ROOT / "characters" / "mei")
    key = WatermarkKey(bytes(SHORTEST_KEY))
    marked = find_watermark(converter.marked(said), RATE, [key])
    plain = converter(said)
    unmarked = find_watermark(plain, RATE, [key])
    assert marked is not None
    assert marked.is_found
    assert unmarked is None or not unmarked.is_found
    assert np.array_equal(converter(said), plain)
    assert np.abs(converter.again(said) - plain).max() > 0


def test_a_page_of_sixteen_pairs_holds_the_character_beside_the_speakers_or_another_bundle(
    places: command.JudgesFolders,
) -> None:
    mei = places.characters / "mei"
    for against, other, rate in ((None, "as spoken", RATE), (mei, str(mei), 24_000)):
        page = command.write_blind_pairs("mei", places, against).read_text("utf-8")
        content = json.loads(page.partition('id="content">')[2].partition("</script>")[0])
        assert len(content["pairs"]) == TRIALS
        assert {pair["recording"] for pair in content["pairs"]} == {
            "Japanese man, ja000.wav", "English readers, 367",
        }  # fmt: skip
        for one, two in (pair["sounds"] for pair in content["pairs"][:2]):
            assert (one["is"], two["is"]) == ("mei", other)
            waves = [soundfile.read(io.BytesIO(base64.b64decode(s["wav"]))) for s in (one, two)]
            assert {heard[1] for heard in waves} == {rate}
            levels = [np.sqrt((heard[0] ** 2).mean()) for heard in waves]
            assert levels[0] == pytest.approx(levels[1], rel=0.01)
            assert (one["wav"] == two["wav"]) == (against is not None)


def test_answers_of_several_listeners_are_added_up_with_an_exact_interval(tmp_path: Path) -> None:
    def answers(*chosen: str) -> Path:
        file = tmp_path / f"{len(list(tmp_path.iterdir()))}.json"
        rows = [
            {"a": ("mei", "spoken")[n % 2], "b": ("spoken", "mei")[n % 2], "chosen": side}
            for n, side in enumerate(chosen)
        ]
        file.write_text(json.dumps({"answers": rows}))
        return file

    # 12 of 16: Clopper and Pearson's interval is 47.6 to 92.7 %.
    assert sum_up([answers(*"abababab"), answers(*"ababbaba")]) == (
        "mei rather than spoken: 12 of 16, 75% (95 %: 48% to 93%; p = 0.077)"
    )
    with pytest.raises(AnswersError, match="expected answers of a listening page"):
        sum_up([write_speech(tmp_path / "speech.wav", stranger())])
