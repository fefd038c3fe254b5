"""Brings a voice or an encoder into the folder of characters.

nox -s character -- import FILE... --as ID
nox -s character -- encoder FILE
"""

from __future__ import annotations

import argparse
import shutil
import sys
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from shared.characters.bundle_files import BundleError
from shared.characters.manifest import MANIFEST, MAX_BUNDLE_BYTES
from shared.runtime.quoting import printable
from shared.speech.engines.registry import ENGINES
from shared.speech.graphs.bundle_folders import seal_manifest
from shared.speech.graphs.sessions import SessionSettings
from tools.bundles.consent import ask_at_terminal, ask_consent, read_consent
from tools.bundles.encoder_store import EncoderStore
from tools.bundles.files import VoiceFileError, read_file, require_download, run_apart
from tools.bundles.portraits import read_portrait
from tools.bundles.sample import make_sample
from tools.bundles.trial import measure, try_bundle
from tools.bundles.writer import COLOUR
from tools.importing.aivmx_files import ENCODER_WIDTH, SUFFIX, read_text_voice, write_text_bundle
from tools.importing.encoders import (
    MAX_ENCODER_BYTES,
    OUTPUTS,
    inspect_bert,
    inspect_encoder,
    inspect_pitch_model,
    is_bert,
    is_pitch_model,
    quantise,
    read_tokens,
)
from tools.importing.graph_builder import build_retrieval
from tools.importing.hubert import hubert_as_onnx, is_torch_file
from tools.importing.report import (
    TrialResult,
    bert_table,
    encoder_table,
    import_table,
    pitch_model_table,
    text_voice_table,
    unmet_needs,
)
from tools.importing.retrieval_index import MAX_INDEX_BYTES, read_index
from tools.importing.rvc_voice import import_voice, write_bundle

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from tools.bundles.consent import Ask, Consent
    from tools.bundles.sample import Sample
    from tools.bundles.trial import TrialReport


CHARACTERS = Path("characters")
RECORDING = Path(__file__).parents[2] / "infra" / "local" / "samples" / "hello.webm"
SAMPLES = Path(".local/imported")
THREADS = (1, 2)


@dataclass(frozen=True)
class Trials:
    measure: Callable[[Path, int], TrialReport]
    sample: Callable[[Path, Path, Path], Sample]


def import_command(arguments: Sequence[str], ask: Ask, trials: Trials) -> int:
    options = _parser().parse_args(arguments)
    is_encoder = options.command == "encoder"
    try:
        for path in [options.file] if is_encoder else options.files:
            with naming(path):
                require_download(path)
        if is_encoder:
            with naming(options.file):
                table = add_encoder(options)
        else:
            table = _import(options, ask, trials)
    except VoiceFileError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    Console().print(table)
    return 0


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Let errors begin with the name of a file."""
    try:
        yield
    except VoiceFileError as error:
        raise VoiceFileError(f"{printable(path.name)}: {error}") from error


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="character", description=(__doc__ or "").split("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    voice = commands.add_parser("import", help="make a character of a voice that you have")
    add = voice.add_argument
    text = "one .pth or .onnx, perhaps an .index; or one .aivmx"
    add("files", nargs="+", type=Path, metavar="FILE", help=text)
    add("--as", dest="character", required=True, metavar="ID", help="its id")
    add("--name", help="shown to visitors (default: the id)")
    add("--name-ja", help="the same in Japanese (default: the name)")
    add("--consent", type=Path, metavar="FILE", help="the answers, JSON or TOML")
    text = "a picture, PNG or JPEG (default: the icon of an .aivmx)"
    add("--portrait", type=Path, metavar="FILE", help=text)
    add("--encoder", metavar="SHA256", help="which encoder, if there are several")
    text = "of those added (default: the engine's own tracker)"
    add("--pitch-model", metavar="SHA256", help=text)
    add("--speaker", type=int, default=0, help="of a voice with several")
    text = "how high the character speaks; visitors are moved to it"
    add("--median-hz", type=float, help=text)
    text = "what the voice was trained with; RVC of July 2026 and newer: fill"
    add("--unvoiced", choices=("zero", "fill"), default="zero", help=text)
    text = "of a voice, converted at the end (default: the demo's)"
    add("--recording", type=Path, default=RECORDING, metavar="FILE", help=text)
    text = f"of the converted sample and its picture (default: {SAMPLES})"
    add("--samples-into", type=Path, default=SAMPLES, metavar="FOLDER", help=text)
    encoder = commands.add_parser("encoder", help="add an encoder that voices share")
    add = encoder.add_argument
    text = (
        "hubert_base.pt (ContentVec) out of RVC's folder, or ContentVec, HuBERT, RMVPE, FCPE or the"
        " BERT of Style-Bert-VITS2 as .onnx"
    )
    add("file", type=Path, metavar="FILE", help=text)
    text = "vocab.txt of a BERT, one token in a line"
    add("--vocabulary", type=Path, metavar="FILE", help=text)
    text = "store the weights of a content encoder in 8 bits"
    add("--int8", action="store_true", help=text)
    for each in (voice, encoder):
        each.add_argument("--into", type=Path, default=CHARACTERS, help="folder of the characters")
    return parser


def add_encoder(options: argparse.Namespace) -> object:
    path, store = options.file, EncoderStore(options.into)
    content, origin = read_file(path, MAX_ENCODER_BYTES), path.name
    if is_torch_file(content):
        content, origin = run_apart(hubert_as_onnx, content), f"{path.name}, made into ONNX"
    other = "pitch model" if is_pitch_model(content) else "BERT" if is_bert(content) else None
    if other and options.int8:
        raise VoiceFileError(f"expected a content encoder for --int8, found a {other}.")
    if other == "pitch model":
        model = run_apart(inspect_pitch_model, content)
        return pitch_model_table(model, store.add(content, path.name))
    if other == "BERT":
        tokens = None if options.vocabulary is None else read_tokens(options.vocabulary)
        report = run_apart(inspect_bert, (content, tokens))
        return bert_table(report, store.add(report.content, path.name, OUTPUTS))
    encoder = run_apart(inspect_encoder, content)
    if not options.int8:
        return encoder_table(encoder, store.add(content, origin, encoder.outputs), None)
    smaller = run_apart(quantise, encoder)
    kept = smaller.encoder
    return encoder_table(
        encoder, store.add(kept.content, f"{origin}, 8 bits", kept.outputs), smaller
    )


def import_text_voice(options: argparse.Namespace, ask: Ask, trials: Trials) -> object:
    voice = read_text_voice(options.files[0])
    if options.portrait is not None:
        voice = replace(voice, portrait=read_portrait(options.portrait, COLOUR))
    encoder = EncoderStore(options.into).choose(ENCODER_WIDTH, options.encoder)
    consent = _consent(options, ask)
    name = options.name or voice.read.facts.name
    folder = options.into / options.character
    names = (options.name_ja or name, name)
    write_text_bundle(
        options.into, options.character, names, voice, encoder=encoder, consent=consent
    )
    return text_voice_table(voice, encoder, _try(folder, options, trials))


def _try(folder: Path, options: argparse.Namespace, trials: Trials) -> TrialResult:
    """Try a new bundle with several numbers of threads; remove it if it does not work."""
    try:
        reports = {threads: trials.measure(folder, threads) for threads in THREADS}
        return TrialResult(reports, trials.sample(folder, options.recording, options.samples_into))
    except BaseException:
        # Also at Ctrl-C: nobody knows yet whether the bundle works.
        shutil.rmtree(folder)
        raise


def _consent(options: argparse.Namespace, ask: Ask) -> Consent:
    if options.consent:
        return read_consent(options.consent)
    return ask_consent(ask, options.samples_into / f"{options.character}-consent.json")


def _import(options: argparse.Namespace, ask: Ask, trials: Trials) -> object:
    if [path.suffix.lower() for path in options.files] == [SUFFIX]:
        return import_text_voice(options, ask, trials)
    voice_path, index_path = sort_files(options.files)
    voice = import_voice(voice_path)
    if not 0 <= options.speaker < voice.speakers:
        raise VoiceFileError(
            f"--speaker {options.speaker}: expected 0 to {voice.speakers - 1}, as many as the voice"
            " has."
        )
    index = None
    if index_path is not None:
        with naming(index_path):
            index = read_index(read_file(index_path, MAX_INDEX_BYTES), voice.features)
    retrieval = None if index is None else build_retrieval(index)
    store, model = EncoderStore(options.into), options.pitch_model
    encoder = store.choose(voice.features, options.encoder)
    for warning in unmet_needs(voice, encoder.origin):
        sys.stderr.write(f"warning: {warning}\n")
    pitch_model = None if model is None else store.choose_pitch_model(model)
    consent = _consent(options, ask)
    name = options.name or options.character
    folder = options.into / options.character
    write_bundle(
        options.into,
        options.character,
        (options.name_ja or name, name),
        voice,
        consent,
        shared={"content": encoder} | ({} if pitch_model is None else {"pitch": pitch_model}),
        retrieval=retrieval,
        median_hz=options.median_hz,
        settings={"speaker": options.speaker, "unvoiced": options.unvoiced},
        portrait=None if options.portrait is None else read_portrait(options.portrait, COLOUR),
    )
    return import_table(voice, encoder, index, _try(folder, options, trials))


def sort_files(paths: Sequence[Path]) -> tuple[Path, Path | None]:
    indexes = [path for path in paths if path.suffix.lower() == ".index"]
    voices = [path for path in paths if path not in indexes]
    if len(voices) != 1 or len(indexes) > 1:
        raise VoiceFileError(
            "expected one voice (.pth or .onnx) and at most one .index, or one .aivmx, found"
            f" {', '.join(printable(path.name) for path in paths)}."
        )
    return voices[0], indexes[0] if indexes else None


def run(arguments: Sequence[str]) -> int:
    return import_command(arguments, ask_at_terminal, Trials(measure, make_sample))


_MEGABYTE = 1_000_000


def check_command(arguments: Sequence[str]) -> int:
    """Check a character bundle and say how fast it is; exit with 0 if it works, otherwise 1."""
    parser = argparse.ArgumentParser(prog="character", description=check_command.__doc__)
    parser.add_argument("folder", type=Path, help=f"the bundle, with its {MANIFEST}")
    parser.add_argument("--threads", type=int, default=1, help="for the network (default: 1)")
    parser.add_argument(
        "--max-megabytes",
        type=float,
        default=MAX_BUNDLE_BYTES / _MEGABYTE,
        help="that the graphs may have together (default: %(default).0f)",
    )
    parser.add_argument(
        "--seal", action="store_true", help="first write the graphs' sizes and SHA-256 into it"
    )
    options = parser.parse_args(arguments)
    max_bytes = round(options.max_megabytes * _MEGABYTE)
    try:
        if options.seal:
            seal_manifest(options.folder, max_bytes)
        settings = SessionSettings(threads=options.threads)
        report = try_bundle(options.folder, ENGINES, settings, max_bytes)
    except BundleError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    sys.stdout.write(f"{report}\n")
    return 0
