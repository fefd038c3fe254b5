"""Character manifests: what `character.json` says, strictly read, with the standard library only.

The API shows these facts and the conversion container relies on them; the JSON Schema for editors
is `characters/character.schema.json`.
"""

import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Literal, Never

MANIFEST = "character.json"
SCHEMA_VERSION = 1
MAX_MANIFEST_BYTES = 64 * 1024
MAX_GRAPH_BYTES = (1 << 31) - 1  # no protocol buffers message, so no ONNX file, is larger
MAX_GRAPHS = 8
MAX_SEMITONES = 24.0

_ANY_TEXT = re.compile(r"\s*\S.*", re.DOTALL)
_ID = re.compile(r"[a-z][a-z0-9-]{0,31}")
_WORD = re.compile(r"[a-z][a-z0-9_]{0,31}")
_GRAPH_FILE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}\.onnx")
_PORTRAIT_FILE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}\.svg")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_COLOUR = re.compile(r"#[0-9a-f]{6}")
_HTTPS = re.compile(r"https://[^\s/]+(/\S*)?")
_CONTACT = re.compile(r"https://[^\s/]+(/\S*)?|mailto:[^\s@]+@[^\s@]+")

_LONGEST_SHOWN = 80


class ManifestError(ValueError):
    """A manifest that does not say what it must; the message is one sentence about one field."""


@dataclass(frozen=True)
class CharacterName:
    """The character's name in Japanese and in English."""

    ja: str
    en: str


@dataclass(frozen=True)
class GraphFile:
    """One ONNX file of the bundle: its name in the folder, SHA-256 (hexadecimal) and size."""

    file: str
    sha256: str
    bytes: int


@dataclass(frozen=True)
class Pitch:
    """How high the character speaks.

    Attributes:
        policy: what is done unless a conversion asks otherwise: "auto" moves the speaker's median
            to the character's, a number moves by so many semitones.
        median_hz: median fundamental frequency of the character's speech.
        log_std: standard deviation of the natural logarithm of the fundamental frequency.
        low_hz: frequency below which the character does not speak.
        high_hz: frequency above which the character does not speak.
    """

    policy: Literal["auto"] | float
    median_hz: float
    log_std: float
    low_hz: float
    high_hz: float


@dataclass(frozen=True)
class Limits:
    """The shortest and the longest recording that the character converts, in seconds."""

    min_seconds: float
    max_seconds: float


@dataclass(frozen=True)
class Licence:
    """The licence of the character's voice: name, SPDX identifier and address."""

    name: str
    spdx: str
    url: str


@dataclass(frozen=True)
class Preview:
    """How a page shows the character: a colour (#rrggbb) and a portrait in the folder, or none."""

    colour: str
    portrait: str | None


Setting = str | int | float | bool


@dataclass(frozen=True)
class CharacterManifest:
    """Everything that `character.json` says.

    Attributes:
        id: the character's id, which is also its folder's name.
        name: shown to visitors.
        engine: name of the engine that runs the graphs.
        sample_rate: of the converted audio, in Hz.
        graphs: the bundle's ONNX files by the role that the engine gives them.
        pitch: None if the character's pitch cannot be steered.
        limits: of the recordings.
        credit: the line that must be shown wherever the voice is used.
        licence: of the voice.
        terms_url: where the terms of use stand.
        consent: the statement by which the voice's owner agreed.
        contact: where the voice's owner is reached: an https or mailto address.
        preview: how a page shows the character.
        settings: what the engine alone understands.
        folder: where the bundle lies.
    """

    id: str
    name: CharacterName
    engine: str
    sample_rate: int
    graphs: Mapping[str, GraphFile]
    pitch: Pitch | None
    limits: Limits
    credit: str
    licence: Licence
    terms_url: str
    consent: str
    contact: str
    preview: Preview
    settings: Mapping[str, Setting]
    folder: Path


def read_manifests(folder: Path) -> Mapping[str, CharacterManifest]:
    """Read the manifest of every character in a folder of bundles, in the order of their ids.

    Raises:
        ManifestError: a manifest is wrong, a bundle's folder is not named by its id, or there is
            no bundle at all.
    """
    manifests = (read_manifest(path) for path in bundle_folders(folder))
    return MappingProxyType({manifest.id: manifest for manifest in manifests})


def bundle_folders(folder: Path) -> Sequence[Path]:
    """Return the character bundles in a folder, in the order of their ids.

    Raises:
        ManifestError: there is none.
    """
    folders = sorted(path.parent for path in folder.glob(f"*/{MANIFEST}"))
    if not folders:
        raise ManifestError(f"{folder}: expected at least one character bundle, found none.")
    return folders


def read_manifest(path: Path) -> CharacterManifest:
    """Read and check a manifest.

    Args:
        path: the manifest, or the folder in which `character.json` lies.

    Raises:
        ManifestError: it is missing, too large, no JSON, a field is missing, unknown or wrong, or
            its folder is not named by its id.
    """
    path = path / MANIFEST if path.is_dir() else path
    try:
        with path.open("rb") as file:
            content = file.read(MAX_MANIFEST_BYTES + 1)
    except OSError as error:
        raise ManifestError(
            f"{path.name}: expected a readable file in {path.parent}, found none"
            f" ({error.strerror})."
        ) from error
    manifest = parse_manifest(content, path.parent)
    # The name that it is found by: the folder may be a link to one of another name.
    name = path.parent.absolute().name
    if manifest.id != name:
        raise ManifestError(
            f"{MANIFEST}: field 'id': expected the folder's name {name!r}, found {manifest.id!r}."
        )
    return manifest


def parse_manifest(content: bytes, folder: Path) -> CharacterManifest:
    """Check the content of a manifest that belongs to a folder.

    Raises:
        ManifestError: see read_manifest.
    """
    if len(content) > MAX_MANIFEST_BYTES:
        raise ManifestError(f"{MANIFEST}: expected at most {MAX_MANIFEST_BYTES} bytes, found more.")
    return _manifest(_Object(_parse_json(content)), folder)


def _parse_json(content: bytes) -> object:
    def refuse_constant(constant: str) -> Never:
        raise ManifestError(f"{MANIFEST}: expected finite numbers, found {constant[:80]}.")

    def parse_finite(text: str) -> float:
        number = float(text)
        if not math.isfinite(number):
            refuse_constant(text)
        return number

    def refuse_repeated(pairs: list[tuple[str, object]]) -> dict[str, object]:
        fields = dict(pairs)
        if len(fields) < len(pairs):
            (name, _), *_ = Counter(name for name, _ in pairs).most_common(1)
            raise ManifestError(
                f"{MANIFEST}: field '{_one_line(name)}': expected once, found again."
            )
        return fields

    try:
        value = json.loads(
            content.decode("utf-8"),
            parse_constant=refuse_constant,
            parse_float=parse_finite,
            object_pairs_hook=refuse_repeated,
        )
        # JSON can name half of a surrogate pair, which no text that is sent on may hold.
        json.dumps(value, ensure_ascii=False).encode("utf-8")
    except ManifestError:
        raise
    except (ValueError, RecursionError) as error:
        raise ManifestError(f"{MANIFEST}: expected JSON in UTF-8, found {error}.") from error
    return value


class _Missing:
    """Stands for the value of a field that is not there."""


class _Object:
    """One JSON object whose fields are taken one after the other; what is left is unknown."""

    def __init__(self, value: object, place: str = "") -> None:
        self._place = place
        if not isinstance(value, dict):
            self._refuse(place.rstrip("."), "an object", value)
        self._fields: dict[str, object] = dict(value)

    def take(self, name: str) -> object:
        if name not in self._fields:
            self.refuse(name, "a value", _Missing())
        return self._fields.pop(name)

    def take_optional(self, name: str) -> object:
        return self._fields.pop(name, None)

    def fields_of(self, name: str) -> "_Object":
        return self.nested(self.take(name), name)

    def nested(self, value: object, name: str) -> "_Object":
        return _Object(value, f"{self._place}{name}.")

    def names(self) -> list[str]:
        return list(self._fields)

    def text(self, name: str, longest: int, form: re.Pattern[str] | None, expected: str) -> str:
        value = self.take(name)
        if form is None:
            form, expected = _ANY_TEXT, f"{expected} of 1 to {longest} characters"
        if not isinstance(value, str) or len(value) > longest or not form.fullmatch(value):
            self.refuse(name, expected, value)
        return value

    def number(self, name: str, low: float, high: float) -> float:
        value = self.take(name)
        if (
            isinstance(value, bool)
            or not isinstance(value, int | float)
            or not low <= value <= high
        ):
            self.refuse(name, f"a number from {low:g} to {high:g}", value)
        return float(value)

    def integer(self, name: str, low: int, high: int) -> int:
        value = self.take(name)
        if isinstance(value, float) and value.is_integer():
            value = int(value)  # to JSON, 1.0 is 1
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            self.refuse(name, f"a whole number from {low} to {high}", value)
        return value

    def finish(self, known: Iterable[str]) -> None:
        for name in self._fields:
            self.refuse(name, f"only the fields {_listed(known)}", name)

    def refuse(self, name: str, expected: str, found: object) -> Never:
        self._refuse(f"{self._place}{name}", expected, found)

    def _refuse(self, field: str, expected: str, found: object) -> Never:
        where = f"field '{_one_line(field)}': " if field else ""
        raise ManifestError(f"{MANIFEST}: {where}expected {expected}, found {_shown(found)}.")


def _shown(value: object) -> str:
    if isinstance(value, _Missing):
        return "nothing"
    if isinstance(value, dict | list):
        return "an object" if isinstance(value, dict) else "a list"
    return _cut(json.dumps(value, ensure_ascii=False))


def _one_line(name: str) -> str:
    """A name out of a manifest, as an error may show it."""
    return _cut(json.dumps(name, ensure_ascii=False)[1:-1])


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}..."


def _listed(names: Iterable[str]) -> str:
    return ", ".join(f"'{name}'" for name in names)


def _manifest(top: _Object, folder: Path) -> CharacterManifest:
    top.integer("schema_version", SCHEMA_VERSION, SCHEMA_VERSION)
    manifest = CharacterManifest(
        id=top.text("id", 32, _ID, "lower-case letters, digits and hyphens after a letter"),
        name=_name(top.fields_of("name")),
        engine=top.text("engine", 32, _WORD, "the name of an engine"),
        sample_rate=top.integer("sample_rate", 8_000, 96_000),
        graphs=_graphs(top.fields_of("graphs")),
        pitch=_pitch(top),
        limits=_limits(top.fields_of("limits")),
        credit=top.text("credit", 300, None, "a text"),
        licence=_licence(top.fields_of("licence")),
        terms_url=top.text("terms_url", 300, _HTTPS, "an https address"),
        consent=top.text("consent", 2_000, None, "a text"),
        contact=top.text("contact", 300, _CONTACT, "an https or mailto address"),
        preview=_preview(top.fields_of("preview")),
        settings=_settings(top),
        folder=folder,
    )
    top.take_optional("$schema")
    top.finish(["schema_version", *list(CharacterManifest.__dataclass_fields__)[:-1]])
    return manifest


def _name(fields: _Object) -> CharacterName:
    name = CharacterName(
        ja=fields.text("ja", 64, None, "a text"), en=fields.text("en", 64, None, "a text")
    )
    fields.finish(("ja", "en"))
    return name


def _graphs(fields: _Object) -> Mapping[str, GraphFile]:
    roles = fields.names()
    if not 1 <= len(roles) <= MAX_GRAPHS:
        raise ManifestError(
            f"{MANIFEST}: field 'graphs': expected 1 to {MAX_GRAPHS} graphs, found {len(roles)}."
        )
    return MappingProxyType({role: _graph(fields.fields_of(role)) for role in roles})


def _graph(fields: _Object) -> GraphFile:
    graph = GraphFile(
        file=fields.text("file", 105, _GRAPH_FILE, "the plain name of an .onnx file"),
        sha256=fields.text("sha256", 64, _SHA256, "64 lower-case hexadecimal digits"),
        bytes=fields.integer("bytes", 1, MAX_GRAPH_BYTES),
    )
    fields.finish(("file", "sha256", "bytes"))
    return graph


def _pitch(top: _Object) -> Pitch | None:
    value = top.take("pitch")
    if value is None:
        return None
    fields = top.nested(value, "pitch")
    low = fields.number("low_hz", 20, 2_000)
    high = fields.number("high_hz", low, 2_000)
    pitch = Pitch(
        policy=_policy(fields),
        median_hz=fields.number("median_hz", low, high),
        log_std=fields.number("log_std", 0.01, 1),
        low_hz=low,
        high_hz=high,
    )
    fields.finish(Pitch.__dataclass_fields__)
    return pitch


def _policy(fields: _Object) -> Literal["auto"] | float:
    value = fields.take("policy")
    if value == "auto":
        return "auto"
    if isinstance(value, bool) or not isinstance(value, int | float) or abs(value) > MAX_SEMITONES:
        fields.refuse(
            "policy", f'"auto" or semitones from -{MAX_SEMITONES:g} to {MAX_SEMITONES:g}', value
        )
    return float(value)


def _limits(fields: _Object) -> Limits:
    shortest = fields.number("min_seconds", 0, 60)
    limits = Limits(min_seconds=shortest, max_seconds=fields.number("max_seconds", shortest, 3_600))
    fields.finish(("min_seconds", "max_seconds"))
    return limits


def _licence(fields: _Object) -> Licence:
    licence = Licence(
        name=fields.text("name", 200, None, "a text"),
        spdx=fields.text("spdx", 64, None, "an SPDX licence identifier"),
        url=fields.text("url", 300, _HTTPS, "an https address"),
    )
    fields.finish(("name", "spdx", "url"))
    return licence


def _preview(fields: _Object) -> Preview:
    colour = fields.text("colour", 7, _COLOUR, "a colour as #rrggbb in lower case")
    portrait = fields.take("portrait")
    if portrait is not None and not (
        isinstance(portrait, str) and _PORTRAIT_FILE.fullmatch(portrait)
    ):
        fields.refuse("portrait", "the plain name of an .svg file or null", portrait)
    fields.finish(("colour", "portrait"))
    return Preview(colour, portrait)


def _settings(top: _Object) -> Mapping[str, Setting]:
    value = top.take_optional("settings")
    if value is None:
        return MappingProxyType({})
    fields = top.nested(value, "settings")
    settings: dict[str, Setting] = {}
    for name in fields.names():
        setting = fields.take(name)
        if not isinstance(setting, str | int | float):
            fields.refuse(name, "a text, a number or true or false", setting)
        settings[name] = setting
    return MappingProxyType(settings)
