"""Command line: a character from a folder of its owner's recordings."""

import argparse
import datetime as dt
import shutil
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from tools.bundles.consent import Ask
from tools.bundles.files import VoiceFileError
from tools.bundles.portraits import read_portrait
from tools.bundles.trial import measure as measure_speed
from tools.training.content.shared_encoder import SharedEncoder
from tools.training.decoder.export import with_weights
from tools.training.decoder.head import read_head
from tools.training.judges.measures import Embedding
from tools.training.judges.panel import Whisper
from tools.training.recordings import report
from tools.training.recordings.bundle import (
    Names,
    colour_of,
    give_head,
    give_spectrum,
    keep_shared,
    write_bundle,
)
from tools.training.recordings.comparison import Judge, judge
from tools.training.recordings.consent_check import WITHOUT, check_spoken_consent
from tools.training.recordings.learner import Training, TrainingEffort
from tools.training.recordings.questions import (
    ConsentRequest,
    TrainingFolders,
    clear,
    prepare,
    training_parser,
)
from tools.training.recordings.selection import (
    Selection,
    SelectionSteps,
    find_others,
    seconds_by_reason,
    select,
)
from tools.training.recordings.usable_speech import Utterance
from tools.training.recordings.work_folder import RecordingsError, TrainingProgress

_HELD_OUT_SECONDS = 60.0
_HELD_OUT_SHARE = 0.1


def main(arguments: Sequence[str], places: TrainingFolders, ask: Ask, encoder: Embedding) -> int:
    options = training_parser(places).parse_args(arguments)
    places = replace(places, work=options.work, judges=places.models)
    if options.clear is not None:
        return clear(options.clear, places.work)
    try:
        make_character(options, places, ask, encoder)
    except RecordingsError as error:
        # What comes after it is for the program that makes visitors' own characters.
        sys.stderr.write(f"{' '.join([str(error), f'[{error.code.value}]', *error.files])}\n")
        return 1
    except VoiceFileError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    except KeyboardInterrupt:
        sys.stderr.write("\nstopped; the same command goes on from here\n")
        return 130
    return 0


def make_character(
    options: argparse.Namespace, places: TrainingFolders, ask: Ask, encoder: Embedding
) -> None:
    work, consent, spoken = prepare(options, places, ask)
    target: Path = options.into / options.character
    # Before the training, so that a wrong picture does not cost it.
    portrait = options.portrait and read_portrait(options.portrait, colour_of(options.character))
    progress = TrainingProgress(stages=7)
    steps = SelectionSteps(progress.begin, progress.report, work.keep_part)
    selection = work.kept("selection", lambda: select(options.recordings, encoder, steps))
    work.forget_parts()
    for line in report.selection_lines(selection):
        progress.say(line)
    report.write_dropped(work.path / "dropped.txt", selection.dropped)
    recogniser = recogniser_of(places.models, progress)
    statement = WITHOUT
    if spoken is not None:
        statement = check_spoken_consent(
            spoken.recording, spoken.sentence, selection.utterances, encoder, recogniser
        )
        ConsentRequest(places.work, options.character, dt.date.today).accept(spoken)
    progress.say(statement)
    consent = consent.model_copy(update={"consent": f"{consent.consent} {statement}"})
    trained_on, held_out = hold_out(selection)
    others = work.kept("strangers", lambda: find_others(options.others))
    ear, effort = SharedEncoder.of(places.base), TrainingEffort(seed=options.seed)
    if options.quick:
        effort = replace(effort, plan=replace(effort.plan, steps=20))
    trained = Training(ear, effort, work, progress).run(trained_on, others.taught)
    english = options.name or options.character
    names = Names(options.character, english, options.name_ja or english)
    # One bundle that does not work, or is not whole, would keep the service from starting: it is
    # made elsewhere.
    made = work.path / "bundle" / options.character
    shutil.rmtree(made, ignore_errors=True)
    write_bundle(made, names, consent, trained, places.base, portrait=portrait)
    give_spectrum(made, trained.network, trained_on)
    trained.network.head = read_head()
    give_head(made, with_weights(places.with_head.read_bytes(), trained.network))
    progress.say(str(measure_speed(made, 1)))
    progress.begin("measuring")
    judgement = judge(
        Judge(made, trained_on, encoder, ear), held_out, others.strangers, progress.report
    )
    report.write_card(made / "MODEL_CARD.md", english, selection, consent, judgement)
    # Their language is known of the readers who come with the training alone.
    report.write_owners_card(
        work.listening,
        selection.seconds,
        seconds_by_reason(selection.dropped),
        judgement,
        None if options.others else recogniser,
    )
    if options.listen:
        progress.say(f"listen: {report.write_page(work.listening, english, judgement)}")
    keep_shared(places.base, target.parent)
    shutil.move(made, target)
    progress.say(report.summary(judgement))
    progress.say(f"bundle: {target}; try it: nox -s demo -- --character {options.character}")
    progress.say(
        f"left behind: {work.megabytes:.0f} MB with parts of your recordings in {work.path};"
        f" nox -s train -- --clear {options.character} deletes them"
    )


def recogniser_of(models: Path, progress: TrainingProgress) -> Whisper | None:
    try:
        return Whisper(models / "whisper-base", threads=1)
    except ImportError as error:
        progress.say(f"the words of the spoken consent are not checked: {error}")
        return None


def hold_out(selection: Selection) -> tuple[list[Utterance], list[Utterance]]:
    """Part the utterances into those that are learnt and, spread over all, those that are not."""
    wanted = min(_HELD_OUT_SECONDS, _HELD_OUT_SHARE * selection.seconds)
    held: list[Utterance] = []
    learnt: list[Utterance] = []
    for index, utterance in enumerate(selection.utterances):
        due = index / len(selection.utterances) * wanted
        has_held = sum(other.seconds for other in held)
        (held if has_held <= due and index else learnt).append(utterance)
    return learnt, held
