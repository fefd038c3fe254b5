"""What a training says: what was used of the recordings, and how the character was measured."""

from collections.abc import Sequence
from pathlib import Path

from importing.bundles.consent import Consent
from training.quality.card import write_tables
from training.recordings.choosing.screening import SILENCE, Dropped
from training.recordings.choosing.selection import (
    RECOMMENDED_SECONDS,
    Selection,
    clock,
    seconds_by_reason,
)
from training.recordings.results.judgement import Figures, Judgement

_SHOWN = 8


def selection_lines(selection: Selection) -> list[str]:
    """Sentences about what is used of the recordings and what is not, with times."""
    lines = [f"used: {clock(selection.seconds)} minutes of speech"]
    if selection.seconds < RECOMMENDED_SECONDS:
        lines[0] += f"; {clock(RECOMMENDED_SECONDS)} minutes or more sound better"
    totals = seconds_by_reason(selection.dropped)
    if totals:
        parts = (f"{clock(seconds)} {reason}" for reason, seconds in totals.most_common())
        lines.append(f"not used: {', '.join(parts)}")
    audible = [part for part in selection.dropped if part.reason != SILENCE]
    audible.sort(key=lambda part: -part.seconds)
    lines += [f"  {_place(part)}" for part in audible[:_SHOWN]]
    if len(audible) > _SHOWN:
        lines.append(f"  and {len(audible) - _SHOWN} shorter parts")
    lines += [f"not readable: {name}: {why}" for name, why in selection.unreadable.items()]
    if selection.left_over:
        lines.append(f"not needed: the last {len(selection.left_over)} files")
    return lines


def _place(part: Dropped) -> str:
    return f"{part.file} {clock(part.start)}-{clock(part.end)}: {part.reason}"


def write_dropped(file: Path, dropped: Sequence[Dropped]) -> None:
    """Write a list of everything that is not used."""
    file.write_text("".join(f"{_place(part)}\n" for part in dropped), "utf-8")


def summary(judgement: Judgement) -> str:
    """One sentence about how the character turned out."""
    owner, strangers = judgement.owner, judgement.strangers
    said = (
        f"likeness of held-out recordings {_two(owner, 'after')} (as recorded"
        f" {_two(owner, 'before')}, synthesis alone {_two(owner, 'synthesis')})"
    )
    if judgement.stranger_clips:
        said += f", of strangers {_two(strangers, 'before')} -> {_two(strangers, 'after')}"
    return said


def write_card(
    file: Path, name: str, selection: Selection, consent: Consent, judgement: Judgement
) -> None:
    """Write the model card: what the character is made of, and how it was measured."""
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
recordings, as a speaker encoder hears it (Resemblyzer); distortion is mel-cepstral, without time
warping.

## Limits
A voice trained on read speech does not whisper, sing or shout. The listener must know that the
voice is synthetic; results carry a mark that says so. It is no anonymisation: melody, wording and
timing stay the speaker's.
""",
        "utf-8",
    )
    write_tables(file, tables(judgement))


def tables(judgement: Judgement) -> str:
    """The figures as Markdown."""
    owner, strangers = judgement.owner, judgement.strangers
    synthesis = f"{_two(owner, 'synthesis')} by the synthesis alone"
    rows = [
        ("figure", "measured", "reachable"),
        ("---", "---", "---"),
        (
            f"likeness, {len(judgement.owner_clips)} held-out recordings converted",
            _two(owner, "after"),
            f"{_two(owner, 'before')} as recorded, {synthesis}",
        ),
        (
            "distortion of the same",
            f"{_two(owner, 'distortion')} dB",
            f"{_two(owner, 'synthesis_distortion')} dB by the synthesis alone",
        ),
        ("log-f0 correlation of the same", f"{owner.mean('melody'):.3f}", "1"),
    ]
    if judgement.stranger_clips:
        rows += [
            (
                f"likeness, {len(judgement.stranger_clips)} strangers converted",
                _two(strangers, "after"),
                f"{_two(strangers, 'before')} before",
            ),
            (
                "what is left of the strangers (source against output)",
                _two(strangers, "left"),
                f"{_two(strangers, 'before')} between them and the owner",
            ),
            ("log-f0 correlation of the same", f"{strangers.mean('melody'):.3f}", "1"),
        ]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _two(figures: Figures, name: str) -> str:
    return f"{figures.mean(name):.2f}"
