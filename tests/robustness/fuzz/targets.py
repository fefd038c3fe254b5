"""The fuzzed targets: every place that first reads untrusted bytes."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import io
import json
import logging
import tempfile
from collections.abc import Callable, Coroutine
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import numpy as np
import pytest
from hypothesis import strategies as st

from functions.compat.voicevox.speakers import plain_png
from functions.convert import main as convert
from functions.convert.settings import ConvertSettings
from functions.dead_letter import main as dead_letter
from functions.dead_letter.settings import DeadLetterSettings
from functions.on_upload import main as on_upload
from functions.on_upload.settings import OnUploadSettings
from infra.local.cloud.memory import MemoryVoices
from shared.characters.bundle_files import BundleError
from shared.conversion import composition
from shared.conversion.start import ConversionTools
from shared.google.tokens import CertificateCache, FirebaseTokenVerifier, GoogleTokenVerifier
from shared.ports import TokenRefusedError
from shared.runtime import settings
from shared.runtime.logs import LOCAL_KEY, CloudLoggingFormatter
from shared.speech.decoding.decoder import Decoder
from shared.speech.decoding.recording import DecodeLimits
from shared.speech.engines.aivmx import AivmxError
from shared.speech.engines.registry import ENGINES
from shared.speech.graphs.bundle_folders import load_character
from shared.speech.graphs.onnx_files import UnsafeModelError, inspect_model
from shared.speech.graphs.portraits import check_portrait, picture_in
from shared.voices.voice import VoiceError
from tests.integration.audio.recordings import FLAVOURS
from tests.robustness.fuzz.compat_targets import COMPAT_TARGETS
from tests.robustness.fuzz.harness import MIB, Target, UncleanError, fuzz
from tests.robustness.fuzz.live_target import live_sessions, speaking_live
from tests.robustness.fuzz.mutation import documents, mutated
from tests.robustness.fuzz.text_targets import reading_texts, texts
from tests.robustness.hostile import files
from tests.support.buckets import MemoryBucket
from tests.support.messages import RecordingPublisher, upload_notification
from tests.support.speakers import a_speaker
from tests.support.tokens import AUDIENCE, EMAIL, CertificateServer, Issuer, push_claims
from tests.support.voices import a_waiting, an_upload
from tests.unit.api.stage import WEBM, ApiStage
from tests.unit.graphs import small_graphs
from tests.unit.graphs.bundles import manifest, write_bundle
from tests.unit.importing import exported, torch_files
from tests.unit.importing.indexes import Index
from tests.unit.importing.voices import Kind, voice_bytes
from tools.bundles.files import VoiceFileError
from tools.bundles.portraits import draw_portrait
from tools.importing.aivmx_files import parse_aivmx
from tools.importing.exports import read_export
from tools.importing.retrieval_index import read_index
from tools.importing.synthesizer import build_synthesizer
from tools.importing.voice_file import read_voice

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from multiprocessing.connection import Connection

    from starlette.applications import Starlette


TINY_AIVMX = Path(__file__).parents[2] / "data" / "aivmx" / "tiny.aivmx"
DAMAGED_BYTES = 20_000

VOICE_ID = "3c7d1f2a-94be-4c0d-8f11-5a6b7c8d9e0f"
"""The same in every run, so that a kept input means the same when it is replayed."""


class _LogReader(logging.Handler):
    """Writes every entry as the services do, so that one that cannot be written fails."""

    def emit(self, record: logging.LogRecord) -> None:
        self.format(record).encode()


@contextmanager
def _logged() -> Iterator[None]:
    reader = _LogReader()
    reader.setFormatter(CloudLoggingFormatter("p", LOCAL_KEY))
    logs = [logging.getLogger(name) for name in ("functions", "shared", "python_multipart")]
    with pytest.MonkeyPatch.context() as patch, ExitStack() as levels:
        for log in logs:
            # Thousands of inputs are refused; logging each would hide everything else.
            patch.setattr(log, "propagate", False)
            patch.setattr(log, "handlers", [reader])
            levels.callback(log.setLevel, log.level)
            log.setLevel(logging.INFO)
        yield


def _recordings() -> st.SearchStrategy[bytes]:
    """Recordings of every kind, and some files that are hostile already."""
    seeds = {name: files.good(name) for name in FLAVOURS}
    seeds |= {
        "streams": files.many_streams(50),
        "reference": files.reference_movie("file:/etc/passwd"),
        "compressed index": files.compressed_index(2),
        "compressed frames": files.compressed_frames(2, 0),
        "nested boxes": files.nested_boxes(50),
        "nested elements": files.nested_elements(50),
        "addresses": files.matroska_that_names("http://127.0.0.1/"),
        "opus": files.ogg_opus(files.opus_head(), files.opus_tags("A=B")),
        "id3": files.id3_that_names("http://127.0.0.1/"),
        "floats": files.float_wav(0.5),
    }
    return mutated(seeds)


Decode = Callable[[Decoder, DecodeLimits, bytes], Coroutine[Any, Any, None]]


@contextmanager
def _decoding(decode: Decode) -> Iterator[Callable[[bytes], str]]:
    """Decode with one decoder, which still decodes at the end."""

    async def answer_to(data: bytes) -> str:
        try:
            await decode(decoder, DecodeLimits(), data)
        except VoiceError as error:
            if "so that it cannot be read" in error.message:
                raise UncleanError("the decoding process crashed") from error
            _require_sentence(error.message)
            return error.code
        return "result"

    with asyncio.Runner() as runner:
        decoder = Decoder(max_processes=1)
        try:
            runner.run(decoder.start())
            yield lambda data: runner.run(answer_to(data))
            if runner.run(answer_to(files.good("flac"))) != "result":
                raise UncleanError("a good recording is not decoded any more")
        finally:
            runner.run(decoder.aclose())


async def _decode(decoder: Decoder, limits: DecodeLimits, data: bytes) -> None:
    recording = await decoder.decode(data, limits=limits)
    if not recording.confined or not np.isfinite(recording.samples).all():
        raise UncleanError("a recording that is not confined, or has no numbers")
    if not limits.shortest <= recording.seconds <= limits.longest:
        raise UncleanError(f"a recording of {recording.seconds} s")


async def _decode_while_it_comes(decoder: Decoder, limits: DecodeLimits, data: bytes) -> None:
    # Cut in another way for each input, and in the same way each time.
    step = 1 + len(data) * 7919 % 5000

    async def send() -> None:
        for begin in range(0, len(data), step):
            await stream.send(data[begin : begin + step])
        stream.end()

    seconds = 0.0
    with await decoder.open_stream(data, limits=limits, wall_seconds=15.5) as stream:
        sending = asyncio.create_task(send())
        try:
            async for piece in stream.pieces():
                seconds += len(piece.samples) / piece.sample_rate
            # Of one that is made up it need not be what the whole is.
            await stream.whole()
        finally:
            sending.cancel()
            await asyncio.gather(sending, return_exceptions=True)
    if not 0 < seconds <= limits.longest:
        raise UncleanError(f"a recording of {seconds} s")


VOICE = replace(a_waiting(), voice_id=VOICE_ID)


def _pushes() -> st.SearchStrategy[bytes]:
    """Envelopes around notifications and conversion messages."""
    event = upload_notification(an_upload(VOICE_ID))
    resource = json.loads(event.data)
    names = ("bucket", "object", "generation", "content_type", "bytes")
    upload = {name: getattr(an_upload(VOICE_ID), name) for name in names}
    wish = {"voice_id": VOICE_ID, "upload": upload}
    attributes = dict(event.attributes)

    def enveloped(content: bytes, framing: Callable[[str], str] = str) -> dict[str, Any]:
        coded = framing(base64.b64encode(content).decode())
        message = {"data": coded, "attributes": attributes, "messageId": "1"}
        return {"message": message, "subscription": "projects/p/subscriptions/s"}

    def encoded(content: bytes, framing: Callable[[str], str] = str) -> bytes:
        return json.dumps(enveloped(content, framing)).encode()

    tame = st.one_of(documents(resource), documents(wish)).map(encoded)
    framings = (str, str.lower, lambda text: text.rstrip("="), lambda text: f" {text}")
    return st.one_of(
        *(tame, tame, tame),
        st.builds(encoded, st.binary(max_size=50), st.sampled_from(framings)),
        documents(enveloped(event.data)),
        documents(enveloped(json.dumps(wish).encode())),
        mutated({"wish": encoded(json.dumps(wish).encode())}),
    )


@contextmanager
def _pushing() -> Iterator[Callable[[bytes], str]]:
    """Push to every service that Pub/Sub pushes to, over voices in memory."""
    voices = MemoryVoices()
    apps = _push_apps(voices, MemoryBucket("uploads"), MemoryBucket("results"))

    async def push(data: bytes) -> str:
        answers = []
        for url, app in apps.items():
            await voices.delete(VOICE_ID)
            await voices.create(VOICE)
            request = httpx.Request("POST", url, content=data)
            response = await httpx.ASGITransport(app).handle_async_request(request)
            if response.status_code not in {204, 422}:
                raise UncleanError(f"answered {response.status_code}")
            answers.append(str(response.status_code))
        return ", ".join(answers)

    with asyncio.Runner() as runner, _logged():
        yield lambda data: runner.run(push(data))


def _push_apps(
    voices: MemoryVoices, uploads: MemoryBucket, results: MemoryBucket
) -> dict[str, Starlette]:
    """Build the three services that are pushed to, by the URL of their push endpoint."""
    common = {
        "project_id": "p",
        "environment": "local",
        "push_verification": "off",
        "uploads_bucket": "uploads",
        "results_bucket": "results",
    }
    topic = common | {"conversions_topic": "conversions"}
    # No object is there, so that nothing is decoded or converted.
    tools = ConversionTools(Decoder(), {"mei": a_speaker("mei")})
    stores = composition.Stores(voices, uploads, results)
    return {
        "http://on-upload.test/": on_upload.build(
            settings.load(OnUploadSettings, **topic),
            on_upload.OnUploadServices(voices, RecordingPublisher(), lambda: uploads),
        ),
        "http://dead-letter.test/": dead_letter.build(
            settings.load(DeadLetterSettings, **topic),
            dead_letter.DeadLetterServices(voices, uploads, results, RecordingPublisher()),
        ),
        "http://convert.test/push": convert.build(
            settings.load(ConvertSettings, **common, signing_key_file="none"),
            composition.ConversionServices(stores, tools),
        ),
    }


ISSUER = Issuer()


def _tokens() -> st.SearchStrategy[bytes]:
    """Tokens whose three parts are nearly valid, and texts that are not tokens."""

    def base64url(content: bytes) -> bytes:
        return base64.urlsafe_b64encode(content).rstrip(b"=")

    header = {"alg": "RS256", "kid": "key-1", "typ": "JWT"}
    claims = dict(push_claims())
    part = st.one_of(documents(header), documents(claims), st.binary(max_size=40))
    parts = st.lists(part.map(base64url), max_size=4).map(b".".join)
    signed = mutated({"signed": ISSUER.sign(push_claims()).encode()}, most=3)
    removed = part.map(lambda each: base64url(each) + b".SIGNATURE_REMOVED_BY_GOOGLE")
    scheme = st.sampled_from((b"Bearer ", b"bearer ", b"Bearer", b"Basic ", b""))
    return st.builds(bytes.__add__, scheme, st.one_of(parts, signed, removed, st.binary()))


@contextmanager
def _verifying() -> Iterator[Callable[[bytes], str]]:
    """Give a token to every verifier."""
    google: dict[str, Any] = {"audience": AUDIENCE, "email": EMAIL}

    async def verify(data: bytes) -> str:
        certificates = CertificateCache(CertificateServer(ISSUER).fetch)
        verifiers = (
            GoogleTokenVerifier(certificates, **google),
            GoogleTokenVerifier(certificates, signature_may_be_removed=True, **google),
            FirebaseTokenVerifier(certificates, project_id="p"),
        )
        answers = []
        for verifier in verifiers:
            try:
                await verifier.verify(data.decode("latin-1"))
            except TokenRefusedError as error:
                _require_sentence(str(error))
                answers.append("refused")
            else:
                answers.append("accepted")
        return ", ".join(answers)

    with asyncio.Runner() as runner:
        yield lambda data: runner.run(verify(data))


def _forms() -> st.SearchStrategy[bytes]:
    """Forms with unusual boundaries, headers, sizes and ends; the first two lines are the type of
    the content and the size of the pieces."""
    wild = st.builds(_part, _part_headers(), st.one_of(st.binary(max_size=40), _form_values()))
    named = _named("voice_id", VOICE_ID.encode())
    tame = st.sampled_from((named, named, _file(WEBM), _file(b"fLaC"), _named("note", b"x")))
    good, end = named + _file(WEBM), b"--frontier--\r\n"
    forms = st.one_of(
        st.lists(st.one_of(tame, tame, tame, wild), max_size=5).map(
            lambda all_: b"".join(all_) + end
        ),
        wild.map(lambda part: named + part + end),
        mutated({"good": good + end, "cut": good, "twice": good * 2 + end}, most=3),
    )
    sizes = st.sampled_from((b"1", b"7", b"64", b"65536"))
    return st.tuples(_content_types(), sizes, forms).map(b"\n".join)


@contextmanager
def _uploading() -> Iterator[Callable[[bytes], str]]:
    """Put forms to the api, over voices and buckets in memory."""
    stage = ApiStage()
    transport = httpx.ASGITransport(stage.app(), raise_app_exceptions=False)

    async def put(data: bytes) -> str:
        await stage.voices.delete(VOICE_ID)
        await stage.voices.create(VOICE)
        stage.uploads.objects.clear()
        content_type, _, rest = data.partition(b"\n")
        size, _, body = rest.partition(b"\n")
        step = int(size) if size.isdigit() and 0 < int(size) < MIB else 65_536

        async def pieces() -> AsyncIterator[bytes]:
            for at in range(0, len(body), step):
                yield body[at : at + step]

        url, headers = "http://api.test/api/v1/voices", [(b"content-type", content_type)]
        request = httpx.Request("PUT", url, headers=headers, content=pieces())
        response = await transport.handle_async_request(request)
        await response.aread()
        if response.status_code == httpx.codes.ACCEPTED:
            return "202"
        if (
            response.headers["content-type"] != "application/problem+json"
            or response.status_code >= 500
        ):
            raise UncleanError(f"answered {response.status_code} {response.text}")
        problem = response.json()
        _require_sentence(problem["detail"])
        return f"{response.status_code} {problem['code']}"

    with asyncio.Runner() as runner, _logged():
        yield lambda data: runner.run(put(data))


def _content_types() -> st.SearchStrategy[bytes]:
    form = b"multipart/form-data; boundary=frontier"
    sets = (b"", b"utf-16", b"idna", b"undefined", b"unicode_escape", b"utf-7", b"a\0b", b"zlib")
    known = (
        *(form + b"; charset=" + each for each in sets),
        form + b"; charset*=utf-8''x",
        b'multipart/form-data; boundary="frontier"',
        b"multipart/form-data; boundary=",
        b"multipart/form-data; boundary*0=front; boundary*1=ier",
        b"multipart/form-data; boundary=\xff\xfe",
        b"multipart/form-data; boundary=" + b"x" * 300,
        b"multipart/form-data",
        b"multipart/form-dataaa; boundary=frontier",
        b"multipart/mixed; boundary=frontier",
        b"",
    )
    clean = st.binary(max_size=20).map(lambda text: bytes(set(text) - {10, 13}))
    made = clean.map(lambda text: form + b"; " + text)
    plain = st.just(form)
    return st.one_of(plain, plain, plain, st.sampled_from(known), made)


def _part_headers() -> st.SearchStrategy[bytes]:
    said = b"Content-Disposition: form-data"
    disposition = st.sampled_from(
        (
            said + b'; name="voice_id"',
            said + b'; name="file"; filename="../../etc/passwd"',
            said + b"; name=\"file\"; filename*=utf-8''%ff%00",
            said + b'; name="file"; filename="\xff\xed\xa0\x80"',
            said + b'; name="voice_id"; name="file"; filename=""',
            b'Content-Disposition: attachment; filename="f"',
            *(said, b"Content-Disposition:", said + b"; name=\xff+2AA-"),
        )
    )
    known = (
        *(b"Content-Type: audio/webm", b"Content-Type: audio/webm;codecs=\xff\x01\x7f"),
        *(b"Content-Type: audio/webm; " + b"x" * 3_000, b"Content-Transfer-Encoding: base64"),
        *(b"Content-Length: -1", b": no name", b"no colon", b" folded", b"\0: \0"),
    )
    other = st.one_of(st.sampled_from(known), st.binary(max_size=20))
    return st.builds(lambda *lines: b"\r\n".join(filter(None, lines)), disposition, other, other)


def _form_values() -> st.SearchStrategy[bytes]:
    return st.sampled_from(
        (
            *(WEBM, b"", b"\xff" * 40, b"+2AA-", b"\\ud800", b"x" * 5_000, b"\x1aE\xdf\xa3"),
            *(VOICE_ID.encode(), b"\r\n--frontier", b"\r\n--frontie"),
        )
    )


def _named(name: str, value: bytes) -> bytes:
    return _part(f'Content-Disposition: form-data; name="{name}"'.encode(), value)


def _file(content: bytes) -> bytes:
    head = b'Content-Disposition: form-data; name="file"; filename="f"\r\nContent-Type: audio/webm'
    return _part(head, content)


def _part(headers: bytes, value: bytes) -> bytes:
    return b"--frontier\r\n" + headers + b"\r\n\r\n" + value + b"\r\n"


GRAPH = small_graphs.content(small_graphs.harmonic_graph())


def _manifests() -> st.SearchStrategy[bytes]:
    """Manifests of character bundles; a few with very many fields."""
    digest = hashlib.sha256(GRAPH).hexdigest()
    entry = {"file": "harmonic.onnx", "sha256": digest, "bytes": len(GRAPH)}
    right = manifest(graphs={"harmonic": entry})
    crowded = st.integers(1, 20_000).map(
        lambda count: b"{" + b",".join(b'"%x":1' % n for n in range(count)) + b"}"
    )
    nearly = documents(right)
    return st.one_of(nearly, nearly, nearly, mutated({"": json.dumps(right).encode()}), crowded)


@contextmanager
def _loading() -> Iterator[Callable[[bytes], str]]:
    """Load a bundle, whose manifest is written anew for every input."""

    def load(data: bytes) -> str:
        (bundle / "character.json").write_bytes(data)
        try:
            character = load_character(bundle, ENGINES)
        except BundleError as error:
            return _place_of(str(error))
        # The api shows these facts: they have to be texts that can be sent.
        repr(character.manifest).encode()
        json.dumps([character.manifest.credit, character.manifest.name.ja], allow_nan=False)
        _require_text(character.manifest)
        return "result"

    with tempfile.TemporaryDirectory() as folder:
        bundle = write_bundle(Path(folder), GRAPH)
        yield load


def _require_text(found: Any) -> None:
    for value in vars(found).values():
        if isinstance(value, str):
            value.encode()
        elif isinstance(value, float):
            json.dumps(value, allow_nan=False)
        elif hasattr(value, "__dataclass_fields__"):
            _require_text(value)
        elif isinstance(value, dict) or hasattr(value, "items"):
            json.dumps(
                {k: v for k, v in value.items() if isinstance(v, str | float)},
                allow_nan=False,
                ensure_ascii=False,
            ).encode()


def _place_of(sentence: str) -> str:
    _require_sentence(sentence)
    if "expected" not in sentence or "found" not in sentence:
        raise UncleanError(f"it does not say what was expected and found: {sentence}")
    head, _, rest = sentence.partition(": ")
    return rest.partition(":")[0] if rest.startswith("field") else head


def _file_target(
    make_inputs: Callable[[], st.SearchStrategy[bytes]],
    read: Callable[[bytes], object],
    refusal: type[Exception],
    **limits: Any,
) -> Target:
    """Files that are read at once, or refused with one error."""

    def feed(data: bytes) -> str:
        try:
            read(data)
        except refusal as error:
            _require_sentence(str(error))
            return "refused"
        return "result"

    return Target(make_inputs, lambda: nullcontext(feed), **limits)


def _damaged_graphs() -> st.SearchStrategy[bytes]:
    seeds = {"graph": small_graphs.content(small_graphs.harmonic_graph())}
    return st.one_of(mutated(seeds), mutated(seeds), st.binary(max_size=200))


def _inspect(data: bytes) -> None:
    facts = inspect_model(data)
    for tensor in (*facts.inputs.values(), *facts.outputs.values()):
        str(tensor).encode()


def _damaged_portraits() -> st.SearchStrategy[bytes]:
    """Damage the built-in character's portrait, small ones and pictures in one."""
    folder = Path(__file__).parents[3] / "characters" / "mei"
    small = b'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 9 9">%s</svg>'
    seeds = {
        "mei": (folder / "portrait.svg").read_bytes(),
        "circle": small % b'<circle cx="4" fill="url(#a)"/>',
        "deep": small % (b"<g>" * 3_000 + b"</g>" * 3_000),
        "entity": b"<?xml version='1.0'?><!DOCTYPE a [<!ENTITY b 'c'>]>" + small % b"&b;",
        "UTF-16": (small % b"<g/>").decode().encode("utf-16"),
    }
    png = plain_png("#336699")
    pictures = {"png": png, "jpeg": picture_in(draw_portrait(png, "#000000")) or b""}
    held = (
        mutated({kind: content}).map(partial(_holding, small, kind.encode()))
        for kind, content in pictures.items()
    )
    return st.one_of(mutated(seeds), *held)


def _holding(drawing: bytes, kind: bytes, picture: bytes) -> bytes:
    address = b"data:image/%s;base64,%s" % (kind, base64.b64encode(picture))
    return drawing % (b'<image href="%s"/>' % address)


def _require_sentence(text: str) -> None:
    """Raise if a text cannot be sent, logged or shown in one line."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise UncleanError(f"an error that cannot be sent: {text!r}") from error
    if not text or len(text) > 2_000 or any(mark in text for mark in "\n\r\0"):
        raise UncleanError(f"an error that is no sentence: {text[:200]!r}")


def _damaged_voices() -> st.SearchStrategy[bytes]:
    """Damage voices of RVC (`.pth`), and pickles in sound archives."""
    kinds = {"with pitch": Kind(channels=16), "without": Kind(has_pitch=False, channels=16)}
    seeds = {name: voice_bytes(kind) for name, kind in kinds.items()}
    pickles = {name: torch_files.pickle_of(seed) for name, seed in seeds.items()}
    calls = {"call": b"\x80\x02cposix\nsystem\n(X\x04\x00\x00\x00truetR."}
    whole = seeds["with pitch"]
    inside = mutated(pickles | calls, most=3).map(
        lambda content: torch_files.with_pickle(whole, content)
    )
    return st.one_of(inside, inside, mutated(seeds, most=2))


def _damaged_indexes() -> st.SearchStrategy[bytes]:
    kinds = {"full": Index(), "sparse": Index(is_sparse=True), "mapped": Index(direct_map=5)}
    return mutated({name: index.content() for name, index in kinds.items()}, most=2)


def _read_index(data: bytes) -> None:
    index = read_index(data)
    if not np.isfinite(index.vectors).all() or index.cells.max() >= len(index.centroids):
        raise UncleanError("vectors that are no numbers, or in cells that are not there")


def _damaged_exports() -> st.SearchStrategy[bytes]:
    silent = Kind(has_pitch=False, channels=16)
    seeds = {
        "official": exported.official(silent).content(),
        "voice-changer": exported.voice_changer(silent).content(),
        "fork": exported.fork(silent).content(),
    }
    return mutated(seeds, most=2)


def _damaged_aivmx() -> st.SearchStrategy[bytes]:
    """Damage a voice's metadata, or the first nodes of its graph."""
    content = TINY_AIVMX.read_bytes()
    first, rest = content[:DAMAGED_BYTES], content[DAMAGED_BYTES:]
    graph, metadata = content[:-DAMAGED_BYTES], content[-DAMAGED_BYTES:]
    return st.one_of(
        mutated({"tiny": metadata}, most=4).map(lambda end: graph + end),
        mutated({"tiny": first}, most=4).map(lambda begin: begin + rest),
    )


def _read_voice(data: bytes) -> None:
    build_synthesizer(read_voice(io.BytesIO(data)))


def targets() -> dict[str, Target]:
    """Return every target by its name."""
    portrait = partial(check_portrait, "portrait.svg")
    # A decoding process has limits of its own: 5 s of processor time, 15.5 s altogether.
    return {
        "decoder": Target(_recordings, partial(_decoding, _decode), seconds=20.0),
        "streamed-decoder": Target(
            _recordings, partial(_decoding, _decode_while_it_comes), seconds=20.0
        ),
        "push": Target(_pushes, _pushing),
        "token": Target(_tokens, _verifying),
        "multipart": Target(_forms, _uploading),
        "live": Target(live_sessions, speaking_live),
        **COMPAT_TARGETS,
        "manifest": Target(_manifests, _loading),
        "graph": _file_target(_damaged_graphs, _inspect, UnsafeModelError),
        "portrait": _file_target(_damaged_portraits, portrait, BundleError),
        "voice": _file_target(_damaged_voices, _read_voice, VoiceFileError),
        "text": Target(texts, reading_texts, memory_bytes=96 * MIB),
        "aivmx": _file_target(_damaged_aivmx, parse_aivmx, AivmxError, memory_bytes=96 * MIB),
        "index": _file_target(_damaged_indexes, _read_index, VoiceFileError),
        "export": _file_target(
            _damaged_exports, read_export, VoiceFileError, seconds=20.0, memory_bytes=256 * MIB
        ),
    }


def fuzz_here(to: Connection, name: str, seconds: float, seed: int, current: Path) -> None:
    """Fuzz a target, and send its tally."""
    # What is written to a file survives a crash of its process.
    to.send(fuzz(targets()[name], seconds=seconds, first_seed=seed, before=current.write_bytes))
