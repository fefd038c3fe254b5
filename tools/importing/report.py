"""The table that an import ends with: what was found and repaired, how fast and how it sounds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from shared.runtime.quoting import quoted
from tools.bundles.trial import SECONDS
from tools.importing.character_list import PlainTable
from tools.importing.encoders import TONE_HZ

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from rich.table import Table

    from tools.bundles.encoder_store import StoredEncoder
    from tools.bundles.sample import Sample
    from tools.bundles.trial import TrialReport
    from tools.importing.aivmx_files import ImportedTextVoice
    from tools.importing.encoders import (
        BertReport,
        InspectedEncoder,
        InspectedPitchModel,
        Quantisation,
    )
    from tools.importing.retrieval_index import RetrievalIndex
    from tools.importing.rvc_voice import ImportedVoice

_MEGABYTE = 1_000_000
_DIGITS = 12


@dataclass(frozen=True)
class TrialResult:
    reports: Mapping[int, TrialReport]
    sample: Sample


def import_table(
    voice: ImportedVoice,
    encoder: StoredEncoder,
    index: RetrievalIndex | None,
    tried: TrialResult,
) -> Table:
    table = _table("imported")
    pitch = "with pitch" if voice.has_pitch else "without pitch"
    speakers = "1 speaker" if voice.speakers == 1 else f"{voice.speakers} speakers"
    table.add_row("found", f"{voice.kind}: {voice.version}, {pitch}, {speakers}")
    table.add_row("sample rate", f"{voice.sample_rate} Hz")
    for name, value in voice.facts.items():
        table.add_row(name, value)
    for repair in voice.repairs or ["nothing"]:
        table.add_row("repaired", repair)
    table.add_row("encoder", f"{encoder.sha256[:_DIGITS]} ({encoder.origin})")
    for warning in unmet_needs(voice, encoder.origin):
        table.add_row("warning", warning)
    table.add_row("index", "none" if index is None else about(index))
    add_trials(table, tried, "recording")
    return table


_CONTENT_VEC = "contentvec"
_FAMILIES = ("japanese", "chinese", "korean", "spin")
_LAYERS = {"v1": "9", "v2": "12"}


def unmet_needs(voice: ImportedVoice, origin: str) -> Iterator[str]:
    """Yield a sentence for each need of a voice, as its file says it, that it does not get."""
    facts = {name.lower(): value for name, value in voice.facts.items()}
    needed = facts.get("encoder") or facts.get("embedder") or ""
    layer = facts.get("encoder layer") or facts.get("emboutputlayer") or ""
    wanted, got = _family(needed), _family(origin)
    # An encoder with a name of its own may be any; most are ContentVec.
    is_met = wanted == got or (wanted == _CONTENT_VEC and got == origin.lower())
    if needed and not is_met:
        yield (
            f"the voice says that it needs the encoder {needed}, and gets {origin}: it will sound"
            " wrong. Add that encoder (nox -s character -- encoder FILE) and choose it with"
            " --encoder."
        )
    if layer and layer != _LAYERS.get(voice.version, layer):
        yield (
            f"the voice says that it needs layer {layer} of its encoder, and gets layer"
            f" {_LAYERS[voice.version]}, as all of version {voice.version}: it will sound wrong."
        )


def _family(name: str) -> str:
    """Return the kind of an encoder: names of ContentVec mean the same, and languages differ."""
    lower = name.lower()
    for family in _FAMILIES:
        if family in lower:
            return f"{family}-v2" if family == "spin" and "2" in lower else family
    is_usual = _CONTENT_VEC in lower or lower.replace("-", "_").startswith(("hubert_base", "vec_"))
    return _CONTENT_VEC if is_usual else lower


def text_voice_table(voice: ImportedTextVoice, encoder: StoredEncoder, tried: TrialResult) -> Table:
    table, facts = _table("imported"), voice.read.facts
    table.add_row("found", f"AIVMX voice {facts.name} {facts.version}")
    table.add_row("creators", ", ".join(facts.creators) or "not said")
    licence = (facts.licence or "").strip() or "none: not for publication"
    first_line, *_ = licence.splitlines()
    table.add_row("licence in the file", first_line)
    for speaker in facts.voice.speakers:
        styles = ", ".join(f"{style.name} ({style.id})" for style in speaker.styles)
        table.add_row(f"styles of {speaker.name}", styles)
    samples = sum(len(each.samples) for each in facts.media.values())
    table.add_row("pictures and samples", f"{len(facts.icons)} icons, {samples} samples")
    without = "none: the icon is too large, or damaged; --portrait FILE takes another"
    table.add_row("portrait", without if voice.portrait is None else "made of the picture")
    table.add_row("sample rate", f"{facts.voice.sample_rate} Hz")
    table.add_row("encoder", f"{encoder.sha256[:_DIGITS]} ({encoder.origin})")
    add_trials(table, tried, "speech")
    return table


def bert_table(report: BertReport, stored: StoredEncoder) -> Table:
    table = _table("encoder added")
    table.add_row("SHA-256", stored.sha256)
    table.add_row("found", f"a BERT with {report.tokens} tokens, for voices of Style-Bert-VITS2")
    table.add_row("size", f"{stored.bytes / _MEGABYTE:.1f} MB")
    table.add_row("a text of 14 characters", f"{report.milliseconds:.0f} ms with 1 thread")
    return table


def add_trials(table: Table, tried: TrialResult, source: str) -> None:
    for threads, report in tried.reports.items():
        name = f"{threads} thread" if threads == 1 else f"{threads} threads"
        seconds = report.real_time_factor * SECONDS
        table.add_row(
            name,
            f"real-time factor {report.real_time_factor:.3f}: {seconds:.2f} s for {SECONDS:g} s of"
            f" {source}, {report.memory}",
        )
    table.add_row("sample", str(tried.sample.sound))
    table.add_row("picture", str(tried.sample.picture))


def encoder_table(
    encoder: InspectedEncoder, stored: StoredEncoder, smaller: Quantisation | None
) -> Table:
    table = _table("encoder added")
    table.add_row("SHA-256", stored.sha256)
    table.add_row("input", f"{quoted(encoder.input)}, {encoder.rank} axes, 16 kHz")
    for output in encoder.outputs:
        order = "[1, C, T]" if output.channels_first else "[1, T, C]"
        table.add_row(
            "features",
            f"{quoted(output.name)}: {output.width} per frame of 20 ms, {order},"
            f" for {output.version}",
        )
    table.add_row("size", f"{stored.bytes / _MEGABYTE:.1f} MB")
    table.add_row("real-time factor", f"{encoder.real_time_factor:.3f} with 1 thread")
    if smaller is not None:
        table.add_row(
            "weights of 8 bits",
            f"real-time factor {smaller.encoder.real_time_factor:.3f}; features differ by"
            f" {smaller.distance:.2%} of their size, worst frame's cosine"
            f" {smaller.least_cosine:.4f}",
        )
    return table


def pitch_model_table(model: InspectedPitchModel, stored: StoredEncoder) -> Table:
    table = _table("pitch model added")
    table.add_row("SHA-256", stored.sha256)
    table.add_row(f"a tone of {TONE_HZ:g} Hz", f"is heard as {model.tone_hz:.1f} Hz")
    voicing = "told apart from voiced ones" if model.hears_voicing else "not told apart"
    table.add_row("unvoiced frames", voicing)
    table.add_row("size", f"{stored.bytes / _MEGABYTE:.1f} MB")
    table.add_row("real-time factor", f"{model.real_time_factor:.3f} with 1 thread")
    return table


def about(index: RetrievalIndex) -> str:
    return (
        f"{len(index.vectors)} vectors of {index.vectors.shape[1]} in {len(index.centroids)} cells"
    )


def _table(title: str) -> Table:
    table = PlainTable(title=title, show_header=False)
    table.add_column("what")
    table.add_column("is", overflow="fold")
    return table
