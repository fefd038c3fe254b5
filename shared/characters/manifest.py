"""Character manifests: the strictly checked content of `character.json`.

The API shows these facts and the conversion container relies on them. The JSON Schema for editors,
`characters/character.schema.json`, is made from the models here (`manifest_schema`).
"""

import json
import logging
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Literal, Never

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    JsonValue,
    ValidationError,
    ValidationInfo,
    field_validator,
)

from shared.characters.manifest_fields import (
    Entries,
    Expected,
    Form,
    LongText,
    Number,
    ShortText,
    WholeNumber,
    in_range,
    sentence,
)
from shared.runtime.quoting import printable, quoted

_LOG = logging.getLogger(__name__)

MANIFEST = "character.json"
BUILT_IN = ("hina", "mei", "ned")
"""The characters that come with the service, the default one first."""
ENCODERS = "encoders"
"""The folder beside the characters' ones with graphs that several share, named by SHA-256."""
SCHEMA_VERSION = 1
MAX_MANIFEST_BYTES = 64 * 1024
MAX_PORTRAIT_BYTES = 64 * 1024
MAX_GRAPH_BYTES = (1 << 31) - 1
"""The largest protocol buffers message, and so the largest ONNX file."""
MAX_BUNDLE_BYTES = 1 << 30
"""The most bytes of all graphs of one bundle, unless a setting says otherwise."""
MAX_GRAPHS = 8
MAX_SEMITONES = 24
MAX_STYLES = 512
MAX_STYLE_ID = (1 << 31) - 1

_NOT_SPACE = r"[^\s\x1c-\x1f]"
_NEITHER_SPACE_NOR_SLASH = r"[^\s\x1c-\x1f/]"
_FILE_NAME = r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}"
_HTTPS = rf"https://{_NEITHER_SPACE_NOR_SLASH}+(/{_NOT_SPACE}*)?"
_MAILTO = r"mailto:[^\s\x1c-\x1f@]+@[^\s\x1c-\x1f@]+"

Sha256 = Annotated[str, Form(r"^[0-9a-f]{64}$", 64, "64 lower-case hexadecimal digits")]
HttpsAddress = Annotated[str, Form(rf"^{_HTTPS}$", 300, "an https address")]
Date = Annotated[str, Form(r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$", 10, "a date as YYYY-MM-DD")]
Colour = Annotated[str, Form("^#[0-9a-f]{6}$", 7, "a colour as #rrggbb in lower case")]
Hertz = Annotated[float, Number(20, 2_000)]
PitchPolicy = Annotated[
    Literal["auto"] | Annotated[float, Field(ge=-MAX_SEMITONES, le=MAX_SEMITONES)],
    Expected(f'"auto" or semitones from -{MAX_SEMITONES} to {MAX_SEMITONES}'),
]
Allowed = Annotated[bool | None, Expected("true or false")]
Setting = Annotated[str | int | float | bool, Expected("a text, a number or true or false")]


class ManifestError(ValueError):
    """A wrong manifest; the message is one sentence about one field."""


class _Strict(BaseModel):
    """One JSON object of a manifest: no unknown fields, no conversions, immutable."""

    # Built when first used: one model that holds others would be built once more for each of them.
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, defer_build=True)


class CharacterName(_Strict):
    """A few words in Japanese and in English, shown to visitors."""

    ja: Annotated[str, ShortText(64)]
    en: Annotated[str, ShortText(64)]


class GraphFile(_Strict):
    """One ONNX file of the bundle."""

    file: Annotated[str, Form(rf"^{_FILE_NAME}\.onnx$", 105, "the plain name of an .onnx file")]
    """Its name in the bundle's folder."""
    sha256: Sha256
    bytes: Annotated[int, WholeNumber(1, MAX_GRAPH_BYTES)]
    """Its size."""


class Pitch(_Strict):
    """The character's pitch. median_hz lies between low_hz and high_hz."""

    policy: PitchPolicy
    """The shift of the pitch unless a conversion asks for another.

    "auto" moves the speaker's median to median_hz; a number moves it by so many semitones.
    """
    low_hz: Hertz
    """Frequency below which the character does not speak."""
    high_hz: Hertz
    """Frequency above which the character does not speak."""
    median_hz: Hertz
    """Median fundamental frequency of the character's speech."""
    log_std: Annotated[float, Number(0.01, 1)]
    """Standard deviation of the natural logarithm of the fundamental frequency."""

    @field_validator("high_hz")
    @classmethod
    def _is_above_low(cls, high: float, info: ValidationInfo) -> float:
        return in_range(high, info.data.get("low_hz", 20), 2_000)

    @field_validator("median_hz")
    @classmethod
    def _is_between(cls, median: float, info: ValidationInfo) -> float:
        return in_range(median, info.data.get("low_hz", 20), info.data.get("high_hz", 2_000))


class Limits(_Strict):
    """The shortest and the longest recording that the character converts, in seconds."""

    min_seconds: Annotated[float, Number(0, 60)]
    max_seconds: Annotated[float, Number(0, 3_600)]

    @field_validator("max_seconds")
    @classmethod
    def _is_above_min(cls, longest: float, info: ValidationInfo) -> float:
        return in_range(longest, info.data.get("min_seconds", 0), 3_600)


class CharacterLicence(_Strict):
    """The licence of the character's voice."""

    name: Annotated[str, ShortText(200)]
    spdx: Annotated[str, ShortText(64, "an SPDX licence identifier")]
    url: HttpsAddress | None = None
    """The address of its text; null for a voice that only its owner may use."""
    text: Annotated[str, LongText(30_000)] | None = None
    """The whole text, where the address alone might not last."""


class Feature(_Strict):
    """One feature of a portrait: its middle and its width, as shares of the portrait's width."""

    x: Annotated[float, Number(0, 1)]
    y: Annotated[float, Number(0, 1)]
    width: Annotated[float, Number(0.01, 1)]


class Face(_Strict):
    """The moving parts of a square portrait: they move while the character speaks."""

    mouth: Feature
    eyes: Annotated[tuple[Feature, ...], Field(strict=False, max_length=2)] = ()
    """They blink."""
    skin: Colour
    """The colour of the closed lids, and of the skin around the mouth."""


class Preview(_Strict):
    """The character's looks on a page."""

    colour: Colour
    portrait: Annotated[
        Annotated[str, Field(pattern=rf"^{_FILE_NAME}\.svg$")] | None,
        Expected("the plain name of an .svg file or null"),
    ]
    """A static SVG in the bundle's folder, or null."""
    face: Face | None = None
    """The moving parts of the portrait; null for a still one."""


class Origin(_Strict):
    """The source of an imported voice."""

    source: Annotated[str, ShortText(300)] | None = None
    """The address or the file that it was imported from."""
    author: Annotated[str, ShortText(200)] | None = None
    """Its maker."""
    date: Date | None = None
    """When it was made."""
    sha256: Sha256 | None = None
    """Of the imported file."""
    tool: Annotated[str, ShortText(200)] | None = None
    """The program that trained it."""
    epoch: Annotated[int, WholeNumber(0, 1_000_000_000)] | None = None
    """The training epoch that was exported."""
    step: Annotated[int, WholeNumber(0, 1_000_000_000)] | None = None
    """The training step that was exported."""


class Uses(_Strict):
    """The uses that the voice's owner allows (true) or forbids (false); absent if unknown."""

    commercial: Allowed = None
    redistribution: Allowed = None
    adult: Allowed = None
    politics: Allowed = None

    @property
    def forbidden(self) -> tuple[str, ...]:
        return tuple(use for use, is_allowed in self.model_dump().items() if is_allowed is False)


class OfferedStyle(_Strict):
    """A style in which the character speaks text."""

    id: Annotated[int, WholeNumber(0, MAX_STYLE_ID)]
    """The number by which it is asked for."""
    name: Annotated[str, ShortText(80)]
    speaker: Annotated[str, ShortText(80)] | None = None
    """Its speaker, where the character has several speakers."""


class TextSpeech(_Strict):
    """The character's way of speaking text."""

    engine: (
        Annotated[str, Form("^[a-z][a-z0-9_]{0,31}$", 32, "the name of an engine or null")] | None
    ) = None
    """The engine that speaks text; null if its own engine or the built-in voice does."""
    settings: Annotated[
        Mapping[str, Setting],
        AfterValidator(MappingProxyType),
    ] = Field(default_factory=lambda: MappingProxyType({}))
    """Settings of that engine: one value for each name."""
    styles: Annotated[tuple[OfferedStyle, ...], Field(strict=False, max_length=MAX_STYLES)] = ()
    """The styles that can be asked for; the first is used where none is."""


def _with_japanese(languages: tuple[str, ...]) -> tuple[str, ...]:
    if languages and ("ja" not in languages or len(set(languages)) < len(languages)):
        raise ValueError
    return languages


class Manifest(_Strict):
    """The manifest of a character bundle. Unknown fields are refused."""

    schema_version: Annotated[int, WholeNumber(SCHEMA_VERSION, SCHEMA_VERSION)]
    id: Annotated[
        str,
        Form("^[a-z][a-z0-9-]{0,31}$", 32, "lower-case letters, digits and hyphens after a letter"),
    ]
    """The character's id, which is also the name of the bundle's folder."""
    name: CharacterName
    description: CharacterName | None = None
    """What kind of voice it is, in a few words of both languages."""
    engine: Annotated[str, Form("^[a-z][a-z0-9_]{0,31}$", 32, "the name of an engine")]
    """The engine that runs the graphs, for example harmonic or waveform."""
    sample_rate: Annotated[int, WholeNumber(8_000, 96_000)]
    """Sample rate of the converted audio in Hz."""
    graphs: Annotated[
        Mapping[str, GraphFile],
        Entries(1, MAX_GRAPHS, "graphs"),
        AfterValidator(MappingProxyType),
    ]
    """The ONNX files by the role that the engine gives them."""
    pitch: Pitch | None
    """The character's pitch; null if it cannot be steered."""
    limits: Limits
    credit: Annotated[str, ShortText(300)]
    """The line that must be shown wherever the voice is used."""
    credit_ja: Annotated[str, ShortText(300)] | None = None
    """The same line for pages in Japanese."""
    licence: CharacterLicence
    terms_url: HttpsAddress | None = None
    """The address of the terms of use; null for a voice that only its owner may use."""
    consent: Annotated[str, ShortText(2_000)]
    """The statement by which the voice's owner agreed."""
    contact: Annotated[str, Form(f"^({_HTTPS}|{_MAILTO})$", 300, "an https or mailto address")]
    """The address of the voice's owner."""
    preview: Preview
    takes: Annotated[Literal["speech", "text", "both"], Expected('"speech", "text" or "both"')] = (
        "both"
    )
    """The input that the character converts; "speech" keeps it from speaking text."""
    text: TextSpeech | None = None
    """Its way of speaking text, where it has an engine for that, or styles.

    A character that converts recordings and has nothing here converts the speech of the built-in
    voice.
    """
    languages: Annotated[
        tuple[Literal["en", "es", "it", "ja", "pt"], ...],
        Field(strict=False),
        AfterValidator(_with_japanese),
        Expected('["ja"], or "ja" and some of "en", "es", "it" and "pt" in any order'),
    ] = ()
    """The languages in which it speaks text, the usual one first; empty for those of its engine."""
    origin: Origin | None = None
    uses: Uses | None = None
    settings: Annotated[
        Mapping[str, Setting],
        AfterValidator(MappingProxyType),
        BeforeValidator(
            lambda value: {} if value is None else value,
            json_schema_input_type=Mapping[str, Setting] | None,
        ),
    ] = Field(default_factory=lambda: MappingProxyType({}))
    """Settings of the engine: one value for each name."""
    options: Annotated[Mapping[str, JsonValue], AfterValidator(MappingProxyType)] = Field(
        default_factory=lambda: MappingProxyType({})
    )
    """Settings of the engine in any form; the engine checks them."""
    schema_address: Annotated[str, Field(alias="$schema")] = ""
    """The address of this file's schema, for editors."""


class CharacterManifest(Manifest):
    """The content of a character's manifest, and the folder of its bundle."""

    folder: Path

    @property
    def takes_speech(self) -> bool:
        return self.takes != "text"

    @property
    def takes_text(self) -> bool:
        return self.takes != "speech"

    @property
    def text_languages(self) -> tuple[str, ...]:
        """The languages in which it speaks text where the built-in voice speaks all of its own."""
        if not self.takes_text:
            return ()
        if self.languages:
            return self.languages
        if self.text is not None and self.text.engine == "kokoro":
            return ("ja", "en", "es", "it", "pt")
        return ("ja",) if self.engine == "style_bert_vits2" else ("ja", "en")

    @property
    def forbidden_uses(self) -> tuple[str, ...]:
        return self.uses.forbidden if self.uses else ()

    @property
    def styles(self) -> tuple[OfferedStyle, ...]:
        return self.text.styles if self.text else ()


def read_manifests(folder: Path) -> Mapping[str, CharacterManifest]:
    """Return the manifest of every character in a folder, in the order of `bundle_folders`.

    A bundle whose manifest is wrong is set aside with a log entry.

    Raises:
        ManifestError: the first one or a built-in one is wrong, or there is no bundle at all.
    """
    manifests = {}
    for path in bundle_folders(folder):
        try:
            manifests[path.name] = read_manifest(path)
        except ManifestError as error:
            if not manifests or path.name in BUILT_IN:
                raise
            log_set_aside(path.name, error)
    return MappingProxyType(manifests)


def log_set_aside(name: str, error: ValueError) -> None:
    extra = {"event": "character_set_aside", "character": name}
    _LOG.error("character %s is set aside: %s", name, error, extra=extra)


def bundle_folders(folder: Path) -> Sequence[Path]:
    """Return the bundles in a folder: the built-in ones first, others sorted by id.

    So a new character does not become the default by its name. A folder without any bundle is a
    `ManifestError`.
    """

    def place(path: Path) -> tuple[int, str]:
        known = BUILT_IN.index(path.name) if path.name in BUILT_IN else len(BUILT_IN)
        return known, path.name

    # A hidden folder is a bundle that is being written.
    found = (path.parent for path in folder.glob(f"*/{MANIFEST}"))
    folders = sorted((path for path in found if not path.name.startswith(".")), key=place)
    if not folders:
        raise ManifestError(f"{folder}: expected at least one character bundle, found none.")
    return folders


def read_manifest(path: Path) -> CharacterManifest:
    """Read and check a manifest.

    Args:
        path: the manifest, or the folder of `character.json`.

    Raises:
        ManifestError: it is missing, too large, not JSON, a field is missing, unknown or wrong, or
            its folder is not named by its id.
    """
    path = path / MANIFEST if path.is_dir() else path
    manifest = parse_manifest(read_content(path), path.parent)
    # A link is known by its own name, not by the name of the folder that it leads to.
    name = path.parent.absolute().name
    if manifest.id != name:
        raise ManifestError(
            f"{MANIFEST}: field 'id': expected the folder's name {quoted(name)}, found"
            f" {quoted(manifest.id)}."
        )
    return manifest


def read_content(path: Path) -> bytes:
    """Return the content of a manifest's file, or one byte more than a manifest may have."""
    if path.exists() and not path.is_file():
        # A pipe would be waited for without an end.
        raise ManifestError(f"{path.name}: expected a file in {path.parent}, found something else.")
    try:
        with path.open("rb") as file:
            return file.read(MAX_MANIFEST_BYTES + 1)
    except OSError as error:
        raise ManifestError(
            f"{path.name}: expected a readable file in {path.parent}, found none"
            f" ({error.strerror})."
        ) from error


def parse_manifest(content: bytes, folder: Path) -> CharacterManifest:
    """Check the content of a manifest that belongs to a folder, as `read_manifest` does."""
    if len(content) > MAX_MANIFEST_BYTES:
        raise ManifestError(f"{MANIFEST}: expected at most {MAX_MANIFEST_BYTES} bytes, found more.")
    said = _parse_json(content)
    try:
        Manifest.model_validate(said)
    except ValidationError as error:
        raise ManifestError(f"{MANIFEST}: {sentence(error, Manifest)}") from error
    return CharacterManifest.model_validate({**said, "folder": folder})


def _parse_json(content: bytes) -> Any:
    try:
        value = json.loads(
            content.decode("utf-8"),
            parse_constant=_refuse_constant,
            parse_float=_parse_finite,
            object_pairs_hook=_refuse_repeated,
        )
        # JSON can name half of a surrogate pair, which UTF-8 cannot hold.
        json.dumps(value, ensure_ascii=False).encode("utf-8")
    except ManifestError:
        raise
    except (ValueError, RecursionError) as error:
        raise ManifestError(
            f"{MANIFEST}: expected JSON in UTF-8, found {printable(str(error))}."
        ) from error
    return value


def _refuse_constant(constant: str) -> Never:
    raise ManifestError(f"{MANIFEST}: expected finite numbers, found {constant[:80]}.")


def _parse_finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        _refuse_constant(text)
    return number


def _refuse_repeated(pairs: list[tuple[str, object]]) -> dict[str, object]:
    fields = dict(pairs)
    if len(fields) < len(pairs):
        (name, _), *_ = Counter(name for name, _ in pairs).most_common(1)
        raise ManifestError(f"{MANIFEST}: field {quoted(name)}: expected once, found again.")
    return fields
