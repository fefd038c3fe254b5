"""Samples, pictures, and a page of one file on which the owner compares them by ear."""

import base64
import html
from collections.abc import Iterator, Sequence
from itertools import chain, count
from pathlib import Path

from speech.results.wav import write_wav
from training.quality.pictures import spectrograms
from training.recordings.results.judgement import Clip, Judgement
from training.sound.features import RATE, Floats

_SAMPLES_OF_EACH = 3
_COLUMNS = (
    "<dl><dt>as recorded<dd>What was said into the microphone."
    "<dt>synthesis alone<dd>The recording taken apart and put together again, without the network:"
    " as good as a conversion can become. Only for your own recordings."
    "<dt>converted<dd>What visitors hear. Beside your own recordings it should sound like you, and"
    " beside other people's as if you had said their sentence.</dl>"
)
_STYLE = (
    "body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem}"
    "table{border-collapse:collapse;width:100%}td,th{padding:.4rem;text-align:left;"
    "border-bottom:1px solid #8884}audio{width:15rem;max-width:100%}img{width:100%}"
    "@media(prefers-color-scheme:dark){body{background:#16181c;color:#e6e6e6}}"
)


def write_samples(folder: Path, judgement: Judgement) -> list[Path]:
    """Write six conversions as WAV, and a picture of each beside its original."""
    folder.mkdir(parents=True, exist_ok=True)
    files = []
    for index, clip in enumerate(chain(*_chosen(judgement))):
        file = folder / f"sample-{index + 1}.wav"
        file.write_bytes(write_wav(clip.converted, RATE))
        waves = {f"{clip.name}: as recorded": clip.original}
        if clip.synthesis is not None:
            waves["synthesis alone"] = clip.synthesis
        spectrograms(file.with_suffix(".png"), waves | {"converted": clip.converted})
        files.append(file)
    return files


def write_page(folder: Path, name: str, judgement: Judgement, judged: str = "") -> Path:
    """Write `listen.html`, which holds everything that it plays and shows; see write_samples.

    Args:
        folder: for the page, with the samples.
        name: of the character.
        judgement: with what there is to listen to.
        judged: what judges say of it, as a part of a page.
    """
    own, strangers = _chosen(judgement)
    pictures = (folder / f"sample-{number}.png" for number in count(1))
    rows = _group("Your recordings that were not trained on", own, pictures)
    rows += _group("Other people, whom the character has never heard", strangers, pictures)
    title = html.escape(name)
    file = folder / "listen.html"
    file.write_text(
        f"<!doctype html><html lang='en'><meta charset='utf-8'><title>{title}</title>"
        "<meta name='viewport' content='width=device-width'>"
        f"<style>{_STYLE}</style><h1>{title}</h1><p>Is it the same voice? Each row is one"
        f" recording. {_COLUMNS}<p>This page holds parts of recordings: keep it to yourself.</p>"
        "<table><tr><th>recording<th>as recorded<th>synthesis alone<th>converted</tr>"
        f"{rows}</table>{judged}</html>\n",
        "utf-8",
    )
    return file


def _chosen(judgement: Judgement) -> tuple[Sequence[Clip], Sequence[Clip]]:
    """Three of the owner and three of strangers, or six of the owner."""
    strangers = judgement.stranger_clips[:_SAMPLES_OF_EACH]
    return judgement.owner_clips[: 2 * _SAMPLES_OF_EACH - len(strangers)], strangers


def _group(heading: str, clips: Sequence[Clip], pictures: Iterator[Path]) -> str:
    if not clips:
        return ""
    rows = "".join(_row(clip, picture) for clip, picture in zip(clips, pictures, strict=False))
    return f"<tr><th colspan='4'>{heading}</tr>{rows}"


def _row(clip: Clip, picture: Path) -> str:
    sounds = (clip.original, clip.synthesis, clip.converted)
    cells = "".join(f"<td>{'' if wave is None else _player(wave)}" for wave in sounds)
    image = base64.b64encode(picture.read_bytes()).decode()
    shown = f"<img alt='spectrograms' src='data:image/png;base64,{image}'>"
    return (
        f"<tr><td>{html.escape(clip.name)}{cells}</tr>"
        f"<tr><td colspan='4'><details><summary>spectrograms</summary>{shown}</details></tr>"
    )


def _player(wave: Floats) -> str:
    sound = base64.b64encode(write_wav(wave, RATE)).decode()
    return f"<audio controls preload='none' src='data:audio/wav;base64,{sound}'></audio>"
