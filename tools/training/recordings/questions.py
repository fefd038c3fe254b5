"""The questions before a training: its options, and the consent of the voice's owner.

`nox -s train` asks them before it installs the large packages of the training, and the training
itself if nobody has answered yet. So nothing here needs those packages.
"""

import argparse
import datetime as dt
import hashlib
import json
import locale
import shutil
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import get_args

from shared.characters.consent import ConsentSentence, Language, draw_sentence
from tools.bundles.consent import Ask, Consent, ask_at_terminal, ask_consent, read_consent
from tools.bundles.files import VoiceFileError
from tools.bundles.portraits import read_portrait
from tools.training.recordings.work_folder import SPOKEN_CONSENT, RecordingsError, WorkFolder

REPOSITORY = Path(__file__).resolve().parents[3]
_LANGUAGES = get_args(Language)


@dataclass(frozen=True)
class TrainingFolders:
    """Where things lie; the recogniser's folder is beside the work if `judges` is None.

    `base` is a bundle whose graphs get a new decoder, `with_head` a graph that gets it and a head.
    """

    characters: Path
    base: Path
    work: Path
    judges: Path | None = None
    with_head: Path = REPOSITORY / "characters" / "hina" / "harmonic.onnx"

    @property
    def models(self) -> Path:
        return self.judges or self.work.parent / "judges"


FOLDERS = TrainingFolders(
    REPOSITORY / "characters",
    REPOSITORY / "characters" / "mei",
    REPOSITORY / ".training" / "recordings",
)


def training_parser(places: TrainingFolders) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="train", description="Make a character of recordings of its owner."
    )
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument(
        "--recordings", type=Path, metavar="FOLDER",
        help="WAV, FLAC, MP3, M4A: at least 2 minutes of plain speech, better 5",
    )  # fmt: skip
    what.add_argument(
        "--clear", nargs="*", metavar="ID",
        help="delete what the trainings of these characters have kept; without an ID, list it",
    )  # fmt: skip
    add = parser.add_argument
    add("--as", dest="character", metavar="ID", help="its id")
    add("--name", help="shown to visitors (default: the id)")
    add("--name-ja", help="the same in Japanese (default: the name)")
    add("--portrait", type=Path, metavar="FILE", help="a picture, PNG or JPEG")
    add("--consent", type=Path, metavar="FILE", help="the answers, JSON or TOML")
    add(
        "--spoken-consent", type=Path, metavar="FILE",
        help="the owner's recording of the sentence that the command shows (default:"
        " spoken-consent.* in the folder)",
    )  # fmt: skip
    add(
        "--no-spoken-consent", action="store_true",
        help="go without the owner's spoken sentence; the character's consent says so",
    )  # fmt: skip
    add(
        "--language", choices=_LANGUAGES, default=usual_language(),
        help="of that sentence (default: the system's)",
    )  # fmt: skip
    add(
        "--others", type=Path, metavar="FOLDER",
        help="recordings of other people, whose voices are learnt beside, so that no sounds of"
        " speech are forgotten (default: the readers in tools/training/people)",
    )  # fmt: skip
    add("--listen", action="store_true", help="write a page of samples to compare")
    add("--seed", type=int, default=1, help="of all that is drawn (default: 1)")
    add("--quick", action="store_true", help="try the path; the result is noise")
    add("--work", type=Path, default=places.work, help="folder for what the training keeps")
    add("--into", type=Path, default=places.characters, help="folder of characters")
    return parser


def prepare(
    options: argparse.Namespace, places: TrainingFolders, ask: Ask
) -> tuple[WorkFolder, Consent, "FoundConsent | None"]:
    """Ask for the consent, and for the owner's spoken sentence unless it goes without."""
    if options.character is None:
        raise RecordingsError("--as: expected the id of the new character, found none.")
    target: Path = options.into / options.character
    if target.exists():
        raise VoiceFileError(
            f"--as {target.name}: expected a new id, found {target}; remove it or choose another."
        )
    folder, choices = places.work / options.character, f"{options.seed} {options.quick}"
    work = WorkFolder.open(folder, options.recordings, choices, [options.others])
    consent = consent_of(options.consent, work, ask)
    if options.portrait:
        read_portrait(options.portrait, "#000000")  # refuses what is no picture
    request = ConsentRequest(places.work, options.character, dt.date.today)
    spoken = None
    if not options.no_spoken_consent:
        spoken = request.find(options.recordings, options.spoken_consent, options.language, ask)
    return work, consent, spoken


def consent_of(file: Path | None, work: WorkFolder, ask: Ask) -> Consent:
    kept = work.path / "consent.json"
    if file is not None:
        return read_consent(file)
    if kept.exists():
        return read_consent(kept)
    consent = ask_consent(ask, work.path / "consent-draft.json")
    kept.write_text(json.dumps(consent.model_dump(), ensure_ascii=False))
    return consent


def clear(characters: Sequence[str], work: Path) -> int:
    """Delete what trainings have kept, or list it if none is named; 1 if one kept nothing."""
    found = sorted(path for path in work.glob("*") if path.is_dir())
    kept = {path.name: WorkFolder(path) for path in found}
    for name in [] if characters else kept:
        sys.stdout.write(f"{name}: {kept[name].megabytes:.0f} MB in {kept[name].path}\n")
    if not kept:
        sys.stdout.write(f"no training has left anything in {work}\n")
    for name in characters:
        if name in kept:
            shutil.rmtree(kept[name].path)
            ConsentRequest(work, name, dt.date.today).clear()
            sys.stdout.write(f"{name}: what its training has kept is deleted\n")
        else:
            known = ", ".join(kept) or "none, nothing is left"
            sys.stderr.write(f"--clear {name}: expected one of {known}\n")
    return int(any(name not in kept for name in characters))


_MOST_TRIES = 3


@dataclass(frozen=True)
class FoundConsent:
    recording: Path
    sentence: ConsentSentence


class ConsentRequest:
    """The sentence that an owner was shown, and which recording was accepted; kept in a folder.

    It is no part of what a training keeps, which is made anew when a recording is added.
    """

    def __init__(self, folder: Path, character: str, today: Callable[[], dt.date]) -> None:
        self._sentence = folder / f"{character}.sentence.json"
        self._accepted = folder / f"{character}.accepted"
        self._today = today

    def find(
        self, recordings: Path, given: Path | None, language: Language, ask: Ask
    ) -> FoundConsent:
        """Return the owner's recording; show the sentence if there is none yet.

        RecordingsError: there is no recording, and nobody is there to make one.
        """
        sentence = self._kept()
        found = given or find_spoken_consent(recordings)
        if found is not None and sentence is not None and self._holds(sentence, found):
            return FoundConsent(found, sentence)
        if sentence is None or not sentence.holds_on(self._today()):
            sentence = draw_sentence(language, self._today())
            self._sentence.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._sentence.write_text(sentence.to_json(), "utf-8")
        how = (
            f"The owner of the voice speaks this sentence:\n\n    {sentence.text}\n\nSave it as"
            f" {SPOKEN_CONSENT}.wav (or .flac, .mp3, .m4a) in {recordings}"
        )
        before = stamp_of(found)
        for _ in range(_MOST_TRIES):
            with suppress(VoiceFileError):
                ask(f"{how}, then press Enter.")
            found = given or find_spoken_consent(recordings)
            if found is not None and found.is_file() and stamp_of(found) != before:
                return FoundConsent(found, sentence)
        raise RecordingsError(
            f"expected a spoken consent, found none. {how}, or name it with --spoken-consent FILE,"
            f" by {sentence.last_day.isoformat()}, and start the same command again. With"
            " --no-spoken-consent it goes without, and the character's consent says so."
        )

    def accept(self, found: FoundConsent) -> None:
        self._accepted.write_text(digest_of(found.recording), "utf-8")

    def clear(self) -> None:
        for file in (self._sentence, self._accepted):
            file.unlink(missing_ok=True)

    def _kept(self) -> ConsentSentence | None:
        try:
            return ConsentSentence.from_json(self._sentence.read_text("utf-8"))
        except (OSError, ValueError):
            return None

    def _holds(self, sentence: ConsentSentence, recording: Path) -> bool:
        try:
            if self._accepted.exists() and self._accepted.read_text() == digest_of(recording):
                return True
            is_later = recording.stat().st_mtime >= self._sentence.stat().st_mtime
        except OSError:
            return False
        return is_later and sentence.holds_on(self._today())


def usual_language() -> Language:
    system = (locale.getlocale()[0] or "").lower()
    return next((each for each in _LANGUAGES if system.startswith(each)), "en")


def find_spoken_consent(recordings: Path) -> Path | None:
    found = (path for path in sorted(recordings.rglob("*")) if path.is_file())
    return next((path for path in found if path.stem.lower() == SPOKEN_CONSENT), None)


def stamp_of(file: Path | None) -> tuple[int, int] | None:
    if file is None or not file.is_file():
        return None
    return file.stat().st_mtime_ns, file.stat().st_size


def digest_of(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def main(arguments: Sequence[str] | None = None) -> int:
    """Ask everything that a training asks, and keep the answers; exit with 0 if it may begin."""
    options = training_parser(FOLDERS).parse_args(arguments)
    if options.clear is not None:
        return 0
    try:
        prepare(options, replace(FOLDERS, work=options.work), ask_at_terminal)
    except (RecordingsError, VoiceFileError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    except KeyboardInterrupt:
        sys.stderr.write("\nstopped; the same command goes on from here\n")
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
