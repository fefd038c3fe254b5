"""The report of a training: the speech that was used, and the character's measurements."""

import base64
import html
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path

from shared.speech.results.audio_files import write_wav
from tools.bundles.consent import Consent
from tools.training.decoder.features import RATE, Floats
from tools.training.judges.judgement import ErrorRate, Figures, compare
from tools.training.judges.panel import Recogniser
from tools.training.recordings.comparison import ComparedClip, Comparison
from tools.training.recordings.selection import RECOMMENDED_SECONDS, Selection, seconds_by_reason
from tools.training.recordings.usable_speech import SILENCE, DroppedSpeech
from tools.training.recordings.work_folder import clock

_SHOWN = 8


def selection_lines(selection: Selection) -> list[str]:
    lines = [f"used: {clock(selection.seconds)} minutes of speech"]
    if selection.seconds < RECOMMENDED_SECONDS:
        lines[0] += f"; {clock(RECOMMENDED_SECONDS)} minutes or more sound better"
    totals = seconds_by_reason(selection.dropped)
    if totals:
        parts = (f"{clock(seconds)} {reason}" for reason, seconds in totals.most_common())
        lines.append(f"not used: {', '.join(parts)}")
    audible = [part for part in selection.dropped if part.reason != SILENCE]
    audible.sort(key=lambda part: -part.seconds)
    lines += [f"  {place_of(part)}" for part in audible[:_SHOWN]]
    if len(audible) > _SHOWN:
        lines.append(f"  and {len(audible) - _SHOWN} shorter parts")
    lines += [f"not readable: {name}: {why}" for name, why in selection.unreadable.items()]
    if selection.left_over:
        lines.append(f"not needed: the last {len(selection.left_over)} files")
    return lines


def place_of(part: DroppedSpeech) -> str:
    return f"{part.file} {clock(part.start)}-{clock(part.end)}: {part.reason}"


def write_dropped(file: Path, dropped: Sequence[DroppedSpeech]) -> None:
    file.write_text("".join(f"{place_of(part)}\n" for part in dropped), "utf-8")


def summary(judgement: Comparison) -> str:
    owner, strangers = judgement.owner, judgement.strangers
    said = (
        f"likeness of held-out recordings {two_digits(owner, 'after')} (as recorded"
        f" {two_digits(owner, 'before')}, synthesis alone {two_digits(owner, 'synthesis')})"
    )
    if judgement.stranger_clips:
        said += (
            f", of strangers {two_digits(strangers, 'before')} -> {two_digits(strangers, 'after')}"
        )
    return said


def write_card(
    file: Path, name: str, selection: Selection, consent: Consent, judgement: Comparison
) -> None:
    file.write_text(
        f"""# {name}: model card

Turns anyone's speech into this voice, with the speaker's own melody and timing.

| | |
|---|---|
| voice | {consent.owner} |
| consent | {consent.consent} |
| licence | {": ".join(filter(None, (consent.licence, consent.terms_url)))} |
| credit | {consent.credit} |
| graphs | `content`: the encoder of Whisper base (OpenAI, MIT), shared by characters; \
`harmonic.onnx`: the synthesis of Mei, and an average decoder that has learnt the owner's voice |
| trained with | {clock(selection.seconds)} minutes of speech, by `nox -s train -- --recordings` |

## Measured
Of recordings that were not trained on. Likeness is the cosine to the mean of the owner's other
recordings, as a speaker encoder hears it (Resemblyzer).

{tables(judgement)}

## Limits
A voice trained on read speech does not whisper, sing or shout. The listener must know that the
voice is synthetic; results carry a mark that says so. It is no anonymisation: melody, wording and
timing stay the speaker's.
""",
        "utf-8",
    )


def tables(judgement: Comparison) -> str:
    owner, strangers = judgement.owner, judgement.strangers
    before, alone = two_digits(owner, "before"), "by the synthesis alone"
    reachable = f"{before} as recorded, {two_digits(owner, 'synthesis')} {alone}"
    count_of, count_of_others = len(judgement.owner_clips), len(judgement.stranger_clips)
    rows = [
        ("figure", "measured", "reachable"),
        ("---", "---", "---"),
        (
            f"likeness, {count_of} held-out recordings converted",
            two_digits(owner, "after"),
            reachable,
        ),
    ]
    if judgement.stranger_clips:
        before, after, left = (two_digits(strangers, name) for name in ("before", "after", "left"))
        what_is_left = "what is left of the strangers (source against output)"
        rows += [
            (f"likeness, {count_of_others} strangers converted", after, f"{before} before"),
            (what_is_left, left, f"{before} between them and the owner"),
        ]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def two_digits(figures: Figures, name: str) -> str:
    return f"{figures.mean(name):.2f}"


_PAGE = Path(__file__).with_name("listening.html")


def write_page(folder: Path, name: str, judgement: Comparison) -> Path:
    """Write `listen.html`, which holds everything that it plays."""
    rows = rows_of("Your recordings that were not trained on", judgement.owner_clips)
    rows += rows_of("Other people, whom the character has never heard", judgement.stranger_clips)
    page = _PAGE.read_text("utf-8").replace("TITLE", html.escape(name)).replace("ROWS", rows)
    file = folder / "listen.html"
    file.write_text(page, "utf-8")
    return file


def rows_of(heading: str, clips: Sequence[ComparedClip]) -> str:
    rows = ""
    for clip in clips[:_PAIRS_OF_EACH]:
        sounds = (clip.original, clip.synthesis, clip.converted)
        cells = "".join(f"<td>{'' if wave is None else player(wave)}" for wave in sounds)
        rows += f"<tr><td>{html.escape(clip.name)}{cells}</tr>"
    return rows and f"<tr><th colspan='4'>{heading}</tr>{rows}"


def player(wave: Floats) -> str:
    sound = base64.b64encode(write_wav(wave, RATE)).decode()
    return f"<audio controls preload='none' src='data:audio/wav;base64,{sound}'></audio>"


CARD = "card.json"
_PAIRS_OF_EACH = 3


def write_owners_card(
    folder: Path,
    seconds: float,
    dropped: Mapping[str, float],
    judgement: Comparison,
    recogniser: Recogniser | None,
) -> None:
    """Write `card.json`, and beside it `own-1-original.wav`, `own-1-converted.wav` and so on.

    Pairs of the owner are parts of the owner's recordings, those of others are of the readers who
    come with the training and speak English. Without a recogniser, words do not count.
    """
    folder.mkdir(parents=True, exist_ok=True)
    owner, others = judgement.owner_clips, judgement.stranger_clips
    for whose, clips in (("own", owner), ("other", others)):
        for number, clip in enumerate(clips[:_PAIRS_OF_EACH], 1):
            for what, wave in (("original", clip.original), ("converted", clip.converted)):
                file = folder / f"{whose}-{number}-{what}.wav"
                file.write_bytes(write_wav(wave, RATE))
    words = None
    if recogniser is not None:
        total = ErrorRate()
        for clip in others[:_PAIRS_OF_EACH]:
            waves = (clip.original, clip.converted)
            said, understood = (recogniser.understand(wave, "en") for wave in waves)
            total += compare(said, understood, "en")
        words = {"wrong": total.wrong, "of": total.said}
    card = {
        "seconds": round(seconds, 1),
        "unused": {reason.replace(" ", "_"): round(each, 1) for reason, each in dropped.items()},
        "likeness": means_of(judgement.owner, recorded="before", reachable="synthesis"),
        "likeness_of_others": means_of(judgement.strangers, before="before", left="left"),
        "words": words,
    }
    (folder / CARD).write_text(json.dumps(card), "utf-8")


def means_of(figures: Figures, **names: str) -> dict[str, float | None]:
    means = {key: figures.mean(name) for key, name in {"converted": "after", **names}.items()}
    return {key: None if math.isnan(mean) else round(mean, 3) for key, mean in means.items()}
