"""Command line of the training: `python -m tools.training --help`."""

import argparse
import sys
from pathlib import Path

from shared.characters.bundle_files import BundleError
from shared.speech.signal.samples import resample
from tools.bundles.consent import ask_at_terminal
from tools.training.decoder.features import RATE, Floats
from tools.training.judges import command as judging
from tools.training.judges.blind_pairs import AnswersError, sum_up
from tools.training.judges.measures import SpeakerEncoder
from tools.training.recordings import command
from tools.training.recordings.questions import FOLDERS
from tools.training.recordings.selection import SHIPPED
from tools.training.recordings.work_folder import RecordingsError, WorkFolder

REPOSITORY = Path(__file__).resolve().parents[2]
WORK = REPOSITORY / ".training"


def _judging(options: argparse.Namespace) -> judging.JudgesFolders:
    return judging.JudgesFolders(
        characters=options.bundle.parent if options.bundle else REPOSITORY / "characters",
        strangers=options.readers or SHIPPED / "strangers",
        judges=WORK / "kokoro" / "judge-ja",
        voices=(WORK / "voices", WORK / "kokoro"),
        models=WORK / "judges",
    )


def _own_voice(character: str) -> list[Floats]:
    kept = WorkFolder(FOLDERS.work / character)
    if not kept.has("selection"):
        return []
    spoken = kept.read("selection").utterances
    return [resample(one.samples, one.rate, RATE) for one in spoken]


def _judge(options: argparse.Namespace) -> int:
    character: str | None = options.character
    try:
        if options.typed:
            page = REPOSITORY / "docs" / "typed-text.md"
            ids = [character] if character else []
            print(judging.judge_typed_text(ids, _judging(options), page, options.every))
            return 0
        if options.answers:
            print(sum_up(options.answers))
            return 0
        if options.listen:
            places = _judging(options)
            print(judging.write_blind_pairs(character or "hina", places, options.against))
            return 0
        print(
            judging.judge(
                [character] if character else [],
                _judging(options),
                _own_voice,
                sentences=options.sentences,
                is_live=options.live,
                is_marked=options.marked,
            )
        )
    except (AnswersError, BundleError, RecordingsError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def main(arguments: list[str] | None = None) -> int:
    given = sys.argv[1:] if arguments is None else arguments
    if {"--recordings", "--clear"} & {argument.split("=")[0] for argument in given}:
        return command.main(given, FOLDERS, ask_at_terminal, SpeakerEncoder())
    parser = argparse.ArgumentParser(
        prog="python -m tools.training",
        description=f"{__doc__} A character of recordings: --recordings FOLDER --as ID.",
    )
    add = parser.add_argument
    add("step", choices=["quality"], help="judges characters")
    add(
        "--sentences", type=int, default=judging.SENTENCES, metavar="N",
        help="of each speaker (default: %(default)s; cards need 10)",
    )  # fmt: skip
    add("--character", metavar="ID", help="whom to measure (default: every character)")
    add("--live", action="store_true", help="measure what is heard while somebody speaks")
    add("--marked", action="store_true", help="measure also what the watermark changes")
    add("--listen", action="store_true", help="write a page of pairs for a listener to compare")
    add("--against", type=Path, metavar="BUNDLE", help="with --listen, instead of the speakers")
    add("--answers", type=Path, nargs="+", metavar="FILE", help="sum up what listeners chose")
    add("--typed", action="store_true", help="judge typed sentences, into docs and cards")
    add("--every", type=int, metavar="N", help="with --typed: one of N sentences alone")
    add(
        "--readers", type=Path, metavar="FOLDER",
        help="English by other people, also as LibriSpeech is laid out",
    )  # fmt: skip
    add("--bundle", type=Path, help="bundle to measure")
    return _judge(parser.parse_args(given))


if __name__ == "__main__":
    raise SystemExit(main())
