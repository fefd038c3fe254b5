"""The metadata of an AIVMX file, which describes its speakers and styles.

Three entries (Aivis Voice Model specification 1.0): `aivm_manifest` and `aivm_hyper_parameters`,
JSON, and `aivm_style_vectors`, an array of numpy in base64. They stay in the bundle's graph, so
that the graph alone is complete. The file is not trusted: everything in it has bounds, and a value
that does not fit is refused with one sentence.
"""

import base64
import binascii
import hashlib
import io
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from tokenize import TokenError
from typing import Annotated, Literal, TypeVar
from uuid import UUID

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from shared.runtime.quoting import printable, quoted

STYLE_SIZE = 256
STYLES_OF_A_SPEAKER = 32


@dataclass(frozen=True)
class Style:
    id: int
    name: str
    local_id: int


@dataclass(frozen=True)
class StyleBertSpeaker:
    uuid: str
    name: str
    local_id: int
    styles: tuple[Style, ...]


@dataclass(frozen=True, eq=False)
class StyleBertVoice:
    """The speakers and styles of a model.

    `style_vectors` holds one for each style, float32 [styles, 256]; the first is the neutral one.
    """

    sample_rate: int
    add_blank: bool
    speakers: tuple[StyleBertSpeaker, ...]
    style_vectors: NDArray[np.float32]

    def style_vector(self, local_id: int, weight: float) -> NDArray[np.float32]:
        """Mix a style with the neutral one: weight 0 is neutral, 1 the style, more is stronger."""
        neutral = self.style_vectors[0]
        towards = (self.style_vectors[local_id] - neutral) * np.float32(weight)
        return np.asarray(neutral + towards, np.float32)

    def find_style(self, style_id: int) -> tuple[StyleBertSpeaker, Style] | None:
        pairs = ((speaker, style) for speaker in self.speakers for style in speaker.styles)
        return next((pair for pair in pairs if pair[1].id == style_id), None)


_DATA_URL = re.compile(r"data:([a-z]+/[a-z0-9.+-]+);base64,")
_SIGNATURES: Mapping[str, re.Pattern[bytes]] = {
    "image/jpeg": re.compile(rb"\xff\xd8\xff"),
    "image/png": re.compile(rb"\x89PNG\r\n\x1a\n"),
    "audio/wav": re.compile(rb"RIFF....WAVE", re.DOTALL),
    "audio/mp4": re.compile(rb"....ftyp", re.DOTALL),
}
_SAME_TYPES: Mapping[str, str] = {"audio/x-wav": "audio/wav", "audio/m4a": "audio/mp4"}


class AivmxError(ValueError):
    """A file that is no usable AIVMX model; the message is one sentence with the reason."""


@dataclass(frozen=True)
class MediaFile:
    content_type: str
    content: bytes


@dataclass(frozen=True)
class StyleSample:
    sound: MediaFile
    transcript: str


@dataclass(frozen=True)
class StyleMedia:
    icon: MediaFile | None
    samples: tuple[StyleSample, ...]


_Kind = Literal["icon", "sample"]
_MEDIA: Mapping[_Kind, tuple[frozenset[str], int]] = {
    "icon": (frozenset({"image/jpeg", "image/png"}), 4 << 20),
    "sample": (frozenset({"audio/wav", "audio/mp4"}), 16 << 20),
}
"""The types of an icon and of a sample, and the most bytes."""


def _decode_media(url: str, kind: _Kind, owner: str) -> MediaFile:
    types, most = _MEDIA[kind]
    what = f"{kind} of {owner}"
    expected = f"aivm_manifest: {what}: expected a data URL of {' or '.join(sorted(types))}"
    found = _DATA_URL.match(url)
    content_type = _SAME_TYPES.get(found[1], found[1]) if found else None
    if found is None or content_type not in types:
        raise AivmxError(f"{expected}, found another.")
    if len(url) - found.end() > -(-most // 3) * 4:
        raise AivmxError(f"{expected} of at most {most} bytes, found more.")
    try:
        content = base64.b64decode(url[found.end() :], validate=True)
    except binascii.Error as error:
        raise AivmxError(f"{expected}, found one that is not base64.") from error
    if not _SIGNATURES[content_type].match(content):
        raise AivmxError(f"{expected}, found content of another type.")
    return MediaFile(content_type, content)


_MAX_METADATA_BYTES = 128 << 20
_MAX_SAMPLES = 32
_MAX_SPEAKERS = 256
_LONGEST_LICENCE = 200_000

_ARCHITECTURE = "Style-Bert-VITS2 (JP-Extra)"
_MANIFEST = "aivm_manifest"
_HYPER_PARAMETERS = "aivm_hyper_parameters"
_STYLE_VECTORS = "aivm_style_vectors"
ENTRIES = frozenset({_MANIFEST, _HYPER_PARAMETERS, _STYLE_VECTORS})

_Model = TypeVar("_Model", bound=BaseModel)

_STYLE_BITS = 5
_SPEAKER_BITS = 27
_INT32 = 0x7FFF_FFFF


@dataclass(frozen=True, eq=False)
class AivmxFacts:
    """The description of a model; `licence` is Markdown, None if it is not to be published."""

    uuid: str
    name: str
    version: str
    description: str
    creators: tuple[str, ...]
    licence: str | None
    voice: StyleBertVoice
    icons: Mapping[str, MediaFile]
    media: Mapping[int, StyleMedia]


class _Entry(BaseModel):
    model_config = ConfigDict(strict=True, frozen=True)


_Name = Annotated[str, Field(min_length=1, max_length=80)]


class _Sample(_Entry):
    audio: str
    transcript: Annotated[str, Field(max_length=2_000)]


class _Style(_Entry):
    name: Annotated[str, Field(min_length=1, max_length=20)]
    icon: str | None = None
    local_id: Annotated[int, Field(ge=0, lt=STYLES_OF_A_SPEAKER)]
    voice_samples: Annotated[list[_Sample], Field(max_length=_MAX_SAMPLES)] = []


class _Speaker(_Entry):
    name: _Name
    icon: str
    uuid: Annotated[UUID, Field(strict=False)]
    local_id: Annotated[int, Field(ge=0, lt=_MAX_SPEAKERS)]
    styles: Annotated[list[_Style], Field(min_length=1, max_length=STYLES_OF_A_SPEAKER)]


class _Manifest(_Entry):
    manifest_version: Literal["1.0"]
    name: _Name
    description: Annotated[str, Field(max_length=140)] = ""
    creators: Annotated[list[Annotated[str, Field(max_length=255)]], Field(max_length=100)] = []
    license: Annotated[str, Field(max_length=_LONGEST_LICENCE)] | None = None
    model_architecture: Annotated[str, Field(max_length=80)]
    model_format: Literal["ONNX"]
    uuid: Annotated[UUID, Field(strict=False)]
    version: Annotated[str, Field(pattern=r"^\d+\.\d+\.\d+[0-9A-Za-z.+-]*$", max_length=64)]
    speakers: Annotated[list[_Speaker], Field(min_length=1, max_length=_MAX_SPEAKERS)]


class _Data(_Entry):
    sampling_rate: Annotated[int, Field(ge=8_000, le=96_000)]
    add_blank: bool = True
    n_speakers: Annotated[int, Field(ge=1, le=_MAX_SPEAKERS)] = 1


class _HyperParameters(_Entry):
    version: Annotated[str, Field(max_length=80)]
    data: _Data


def read_facts(metadata: Mapping[str, str]) -> AivmxFacts:
    """Read the metadata of a model.

    Raises AivmxError if an entry is missing, malformed or too large, or the architecture is not
    supported.
    """
    manifest = _read(_Manifest, metadata, _MANIFEST)
    if manifest.model_architecture != _ARCHITECTURE:
        raise AivmxError(
            f"{_MANIFEST}: field 'model_architecture': expected {quoted(_ARCHITECTURE)},"
            f" found {quoted(manifest.model_architecture)}."
        )
    parameters = _read(_HyperParameters, metadata, _HYPER_PARAMETERS)
    if not parameters.version.endswith("JP-Extra"):
        raise AivmxError(
            f"{_HYPER_PARAMETERS}: field 'version': expected one of JP-Extra, found"
            f" {quoted(parameters.version)}."
        )
    vectors = _style_vectors(_entry(metadata, _STYLE_VECTORS))
    _check_ids(manifest, parameters, len(vectors))
    icons, media = _media(manifest.speakers)
    return AivmxFacts(
        uuid=str(manifest.uuid),
        name=manifest.name,
        version=manifest.version,
        description=manifest.description,
        creators=tuple(manifest.creators),
        licence=manifest.license,
        voice=StyleBertVoice(
            parameters.data.sampling_rate,
            parameters.data.add_blank,
            tuple(
                StyleBertSpeaker(
                    str(speaker.uuid),
                    speaker.name,
                    speaker.local_id,
                    tuple(
                        Style(style_id(str(speaker.uuid), each.local_id), each.name, each.local_id)
                        for each in speaker.styles
                    ),
                )
                for speaker in manifest.speakers
            ),
            vectors,
        ),
        icons=icons,
        media=media,
    )


def style_id(speaker_uuid: str, local_id: int) -> int:
    """Number a style as AivisSpeech Engine does, so that its clients find it."""
    digest = hashlib.md5(speaker_uuid.encode(), usedforsecurity=False).hexdigest()
    speaker = int(digest, 16) & ((1 << _SPEAKER_BITS) - 1)
    return (speaker << _STYLE_BITS | local_id) & _INT32


def _entry(metadata: Mapping[str, str], name: str) -> str:
    if name not in metadata:
        raise AivmxError(f"AIVMX: expected {quoted(name)} in the model's metadata, found none.")
    if len(metadata[name]) > _MAX_METADATA_BYTES:
        raise AivmxError(f"{name}: expected at most {_MAX_METADATA_BYTES} bytes, found more.")
    return metadata[name]


def _read(kind: type[_Model], metadata: Mapping[str, str], name: str) -> _Model:
    try:
        return kind.model_validate_json(_entry(metadata, name))
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        field = ".".join(str(part) for part in first["loc"])
        where = f"field {quoted(field)}: " if field else ""
        raise AivmxError(f"{name}: {where}{printable(first['msg'])}.") from error


def _style_vectors(encoded: str) -> NDArray[np.float32]:
    expected = f"{_STYLE_VECTORS}: expected float32 [styles, {STYLE_SIZE}] in base64"
    try:
        array = io.BytesIO(base64.b64decode(encoded, validate=True))
        np.lib.format.read_magic(array)
        shape, is_fortran, dtype = np.lib.format.read_array_header_1_0(array)
    # The header is Python's; of ten thousand signs in a row its parser says MemoryError.
    except (ValueError, SyntaxError, TokenError, RecursionError, MemoryError) as error:
        raise AivmxError(f"{expected}, found no array.") from error
    values = array.read()
    # Looked at before anything as large as the header says is made.
    if dtype != np.dtype("<f4") or is_fortran or shape[1:] != (STYLE_SIZE,):
        raise AivmxError(f"{expected}, found {dtype} {list(shape)}.")
    if shape[0] == 0 or len(values) != 4 * STYLE_SIZE * shape[0]:
        raise AivmxError(f"{expected}, found {len(values)} bytes for {list(shape)}.")
    vectors = np.frombuffer(values, np.float32).reshape(shape)
    if not np.isfinite(vectors).all():
        raise AivmxError(f"{expected}, found values that are not finite.")
    return vectors


def _check_ids(manifest: _Manifest, parameters: _HyperParameters, styles: int) -> None:
    _refuse_repeated("local_id of speakers", [speaker.local_id for speaker in manifest.speakers])
    _refuse_repeated("uuid of speakers", [speaker.uuid for speaker in manifest.speakers])
    for speaker in manifest.speakers:
        if speaker.local_id >= parameters.data.n_speakers:
            raise AivmxError(
                f"{_MANIFEST}: speaker {quoted(speaker.name)}: expected a local_id below"
                f" {parameters.data.n_speakers}, found {speaker.local_id}."
            )
        _refuse_repeated("local_id of styles", [style.local_id for style in speaker.styles])
        for style in speaker.styles:
            if style.local_id >= styles:
                raise AivmxError(
                    f"{_MANIFEST}: style {quoted(style.name)}: expected a local_id below {styles},"
                    f" the number of style vectors, found {style.local_id}."
                )


def _refuse_repeated(what: str, values: list[int] | list[UUID]) -> None:
    if len(set(values)) < len(values):
        raise AivmxError(f"{_MANIFEST}: expected each {what} once, found one again.")


def _media(speakers: Iterable[_Speaker]) -> tuple[dict[str, MediaFile], dict[int, StyleMedia]]:
    icons: dict[str, MediaFile] = {}
    media: dict[int, StyleMedia] = {}
    for speaker in speakers:
        uuid = str(speaker.uuid)
        icons[uuid] = _decode_media(speaker.icon, "icon", quoted(speaker.name))
        for style in speaker.styles:
            owner = f"{quoted(style.name)} of {quoted(speaker.name)}"
            media[style_id(uuid, style.local_id)] = StyleMedia(
                None if style.icon is None else _decode_media(style.icon, "icon", owner),
                tuple(
                    StyleSample(_decode_media(sample.audio, "sample", owner), sample.transcript)
                    for sample in style.voice_samples
                ),
            )
    return icons, media
