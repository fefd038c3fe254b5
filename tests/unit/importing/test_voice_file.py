from __future__ import annotations

import io
import os
import pickle
import struct
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.unit.importing.torch_files import Raw, Stored, archive
from tests.unit.importing.voices import Kind, checkpoint, voice_bytes, weights_of
from tools.bundles.files import VoiceFileError
from tools.importing.torch_archive import MAX_MEMBERS
from tools.importing.voice_file import HIFI_GAN, MRF_HIFI_GAN, VoiceFile, read_voice

DATA = Path(__file__).parents[2] / "data" / "rvc"


def read(content: bytes) -> VoiceFile:
    return read_voice(io.BytesIO(content))


def refusal(content: bytes) -> str:
    with pytest.raises(VoiceFileError) as refused:
        read(content)
    message = str(refused.value)
    assert "\n" not in message
    assert message.isascii()
    return message


def test_a_voice_that_pytorch_has_saved_is_read() -> None:
    with (DATA / "v2-f0-40k.pth").open("rb") as file:
        voice = read_voice(file)

    assert (voice.version, voice.has_pitch, voice.vocoder) == ("v2", True, HIFI_GAN)
    assert (voice.sizes.sample_rate, voice.sizes.hop, voice.speakers) == (40_000, 400, 4)
    assert voice.facts == {"tool": "RVC", "epoch": "1epoch"}
    assert voice.repairs == []
    assert all(weight.dtype == np.float32 for weight in voice.weights.values())


def test_the_weight_normalisation_is_worked_in_whatever_its_spelling() -> None:
    weights = weights_of(Kind())
    gain = weights["dec.ups.0.weight_g"].astype(np.float64)
    direction = weights["dec.ups.0.weight_v"].astype(np.float64)
    spelled = {
        name.replace(".weight_g", ".parametrizations.weight.original0").replace(
            ".weight_v", ".parametrizations.weight.original1"
        ): value.astype(np.float64)
        for name, value in weights.items()
    }

    voice, other = read(voice_bytes(weights=weights)), read(voice_bytes(weights=spelled))

    for row in range(len(gain)):
        expected = gain[row] * direction[row] / np.linalg.norm(direction[row])
        assert np.abs(voice.weights["dec.ups.0.weight"][row] - expected).max() < 1e-6
    assert voice.weights.keys() == other.weights.keys()
    for name, value in voice.weights.items():
        assert np.array_equal(value, other.weights[name])


APPLIO = {"epoch": 120, "author": "Ada", "model_name": "ada\n", "model_hash": "1f"}
WEBUI = {"embedder_name": "hubert_base", "embedder_output_layer": 9, "params": {"channels": 256}}


@pytest.mark.parametrize(
    ("kind", "changes", "facts"),
    [
        (
            Kind(is_mrf=True),
            {**APPLIO, "info": None, "embedder_model": "contentvec"},
            {
                "tool": "Applio",
                "epoch": "120",
                "author": "Ada",
                "name": "ada",
                "encoder": "contentvec",
            },
        ),
        (
            Kind(),
            {**WEBUI, "config": [*Kind().config[:17], 256, Kind().config[17]]},
            {
                "tool": "rvc-webui",
                "epoch": "12epoch",
                "encoder": "hubert_base",
                "encoder layer": "9",
            },
        ),
    ],
)
def test_a_voice_of_other_tools_is_read(
    kind: Kind, changes: dict[str, Any], facts: dict[str, str]
) -> None:
    voice = read(voice_bytes(kind, **changes))

    assert voice.vocoder == (MRF_HIFI_GAN if kind.is_mrf else HIFI_GAN)
    assert (voice.facts, voice.repairs) == (facts, [])
    assert voice.sizes.sample_rate == 40_000


@pytest.mark.parametrize(
    ("kind", "changes", "repair"),
    [
        (Kind(), {"version": "v2"}, "The file says v2, but its weights are v1: taken as v1."),
        (Kind("v2"), {"version": None}, "The file says v1, but its weights are v2: taken as v2."),
        (Kind(), {"f0": 0}, "The file says otherwise, but its weights take a pitch."),
        (Kind(), {"sr": "32k"}, "The file says '32k', but its network makes 40000 Hz."),
    ],
)
def test_what_the_file_says_wrongly_is_told_by_the_weights(
    kind: Kind, changes: dict[str, Any], repair: str
) -> None:
    assert read(voice_bytes(kind, **changes)).repairs == [repair]


def test_attributes_of_a_state_dictionary_are_passed_over() -> None:
    weights = Raw(b"}(X\x07\x00\x00\x00enc_q.xK\x01u}X\x09\x00\x00\x00_metadata}sb")

    message = refusal(archive(checkpoint(Kind()) | {"weight": weights}))

    assert message == "tensor 'enc_q.x': expected a tensor, found 1."


def test_bfloat16_is_widened() -> None:
    weights = weights_of(Kind())
    exact = np.array([[1.5, -2.0, 0.25, 3.0]] * 3, np.float32)
    upper = (exact.view(np.uint32) >> 16).astype("<u2")
    stored = {"emb_g.weight": Stored(upper, storage="BFloat16Storage")}

    voice = read(voice_bytes(weights=weights | stored))

    assert np.array_equal(voice.weights["emb_g.weight"], exact)


def test_a_tensor_may_be_a_transposed_part_of_a_storage() -> None:
    shared = np.arange(20, dtype=np.float32)
    stored = {"emb_g.weight": Stored(shared, offset=2, shape=(3, 4), strides=(1, 4))}

    voice = read(voice_bytes(weights=weights_of(Kind()) | stored))

    assert voice.weights["emb_g.weight"].tolist() == [
        [2, 6, 10, 14],
        [3, 7, 11, 15],
        [4, 8, 12, 16],
    ]


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (b"cposix\nsystem\n(X\x04\x00\x00\x00truetR", "posix.system"),
        (b"\x8c\x02os\x8c\x06system\x93(X\x04\x00\x00\x00truetR", "os.system"),
        (b"ctorch.serialization\nload\n(tR", "torch.serialization.load"),
    ],
)
def test_a_pickle_that_calls_something_is_refused_by_its_name(call: bytes, name: str) -> None:
    content = archive(checkpoint(Kind()) | {"info": Raw(call)})

    message = refusal(content)

    assert f"found a call of '{name}'; nothing of it was run" in message


SPRINGS = b"import os; os.environ['SPRUNG'] = '1'"
PAYLOAD = b"cbuiltins\nexec\n(X" + struct.pack("<i", len(SPRINGS)) + SPRINGS + b"tR"


@pytest.mark.parametrize("place", ["weight", "config", "info"])
def test_a_payload_is_not_run_wherever_it_stands(
    place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPRUNG", "0")

    message = refusal(archive(checkpoint(Kind()) | {place: Raw(PAYLOAD)}))

    assert "found a call of 'builtins.exec'" in message
    assert os.environ["SPRUNG"] == "0"


@pytest.mark.parametrize("instruction", [b"i", b"\x81", b"P", b"\x82"])
def test_an_instruction_that_makes_objects_is_refused(instruction: bytes) -> None:
    content = b"(cposix\nsystem\n" + instruction + b"posix\nsystem\n"

    assert "data.pkl" in refusal(archive(checkpoint(Kind()) | {"info": Raw(content)}))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            {"model": {}, "optimizer": {}, "iteration": 3, "learning_rate": 1e-4},
            "expected a finished voice, found a file of a training (G_*.pth or D_*.pth); bring",
        ),
        (
            {"state_dict": {}},
            "expected an RVC voice with 'weight' and 'config', found the entries 'state_dict'.",
        ),
        ([1, 2], "expected a dictionary with 'weight' and 'config', found none."),
        (
            checkpoint(Kind(), version="voras_beta"),
            "'version': expected 'v1' or 'v2', found 'voras_beta', which is another kind of",
        ),
        (
            checkpoint(Kind()) | {"weight": {"dec.downsample_blocks.0.weight": 1}},
            "tensor 'dec.downsample_blocks.0.weight': expected a tensor, found 1.",
        ),
        (
            checkpoint(Kind(), weights={"dec.downsample_blocks.0.weight": np.ones(1, np.float16)}),
            "vocoder: expected HiFi-GAN or MRF HiFi-GAN, found RefineGAN, which draws noise",
        ),
        (
            checkpoint(Kind(), vocoder="BigVGAN"),
            "vocoder: expected HiFi-GAN or MRF HiFi-GAN, found 'BigVGAN', which cannot be",
        ),
        (
            checkpoint(Kind(), vocoder="MRF HiFi-GAN"),
            "vocoder: expected the tensors of MRF HiFi-GAN, found those of HiFi-GAN.",
        ),
        (
            checkpoint(Kind(), config=[1, 2, 3]),
            "'config': expected a list of 18 or 19 entries, found 3.",
        ),
        (
            checkpoint(Kind(), config=[*Kind().config[:17], 44_100]),
            "'config', entry upsample_rates: expected numbers whose product is 44100 / 100,",
        ),
        (
            checkpoint(Kind(), config=[*Kind().config[:13], 10**9, *Kind().config[14:]]),
            "'config', entry upsample_initial_channel: expected a whole number from 1 to 4096",
        ),
    ],
)
def test_what_is_no_voice_is_refused_in_one_sentence(content: Any, message: str) -> None:
    assert refusal(archive(content)).startswith(message)


@pytest.mark.parametrize("name", ["config", "version", "vocoder", "f0", "sr", "info", "epoch"])
@pytest.mark.parametrize("value", [[], {}, (1,), b"x", -1, 1e300, True, "\u00e9\n" * 99])
def test_an_entry_of_any_kind_is_read_or_refused_cleanly(name: str, value: Any) -> None:
    try:
        said = list(read(archive(checkpoint(Kind()) | {name: value})).facts.values())
    except VoiceFileError as error:
        said = [str(error)]

    assert said
    assert all(text.isprintable() for text in said)


def test_a_pickle_without_an_archive_is_refused_with_what_to_do() -> None:
    assert refusal(pickle.dumps({"weight": {}}, 2)) == (
        "expected a ZIP archive as PyTorch 1.6 and newer write it, found a pickle of PyTorch before"
        " 1.6; load and save the voice with a current version of the tool it comes from."
    )


def test_compressed_parts_are_refused_before_they_are_unpacked() -> None:
    content = archive(checkpoint(Kind()), compression=zipfile.ZIP_DEFLATED)

    assert "expected plain bytes as PyTorch stores them" in refusal(content)


def test_parts_that_overlap_are_refused() -> None:
    content = bytearray(archive(checkpoint(Kind())))
    directory = content.index(b"PK\x01\x02")
    for offset in (20, 24):  # the compressed and the plain size of the first part
        struct.pack_into("<L", content, directory + offset, len(content))

    assert refusal(bytes(content)).startswith("expected parts that fit into the file")


def test_a_table_of_contents_without_end_is_refused_unread() -> None:
    content = bytearray(archive(checkpoint(Kind())))
    end = content.rindex(b"PK\x05\x06")
    struct.pack_into("<H", content, end + 10, MAX_MEMBERS + 1)

    assert "found a larger table of contents" in refusal(bytes(content))


@pytest.mark.parametrize(("wrong", "comment"), [("count", 0), ("directory", 0xFFFF)])
def test_zip64_hides_no_table_of_contents_without_end(wrong: str, comment: int) -> None:
    content = archive(checkpoint(Kind()))
    begin, end = content.index(b"PK\x01\x02"), content.rindex(b"PK\x05\x06")
    count = MAX_MEMBERS + 1 if wrong == "count" else 9
    directory = 1 << 40 if wrong == "directory" else end - begin
    end64 = struct.pack(
        "<4sQ2H2L4Q", b"PK\x06\x06", 44, 45, 45, 0, 0, count, count, directory, begin
    )
    locator = struct.pack("<4sLQL", b"PK\x06\x07", 0, end, 1)
    last = content[end:-2] + struct.pack("<H", comment) + bytes(comment)

    message = refusal(content[:end] + end64 + locator + last)

    assert "found a larger table of contents" in message


def test_a_part_that_is_there_twice_is_refused() -> None:
    with pytest.warns(UserWarning, match="Duplicate name"):
        content = archive(checkpoint(Kind()), extra={"voice/data/0": b"other"})

    assert refusal(content) == "expected every part of the archive once, found one of them twice."


@pytest.mark.parametrize(
    ("stored", "message"),
    [
        (
            Stored(np.ones(4, np.float16), shape=(3, 10**9), strides=(0, 0)),
            "expected a shape that fits into its storage of 4 elements, found 3 x 1000000000 from",
        ),
        (
            Stored(np.ones(12, np.float16), offset=1, shape=(3, 4), strides=(4, 1)),
            "expected a shape that fits into its storage of 12 elements, found 3 x 4 from",
        ),
        (
            Stored(np.ones((3, 4), np.float16), storage="LongStorage"),
            "expected floating-point numbers, found <i8.",
        ),
        (
            Stored(np.ones((3, 4), np.float16), storage="FloatStorage"),
            "storage '0': expected 48 bytes, found 24.",
        ),
        (
            Stored(np.full((3, 4), np.nan, np.float16)),
            "tensor 'emb_g.weight': expected finite numbers, found others; the training has",
        ),
    ],
)
def test_a_tensor_beyond_its_storage_is_refused(stored: Stored, message: str) -> None:
    weights = {"emb_g.weight": stored} | {
        name: value for name, value in weights_of(Kind()).items() if name != "emb_g.weight"
    }

    assert message in refusal(voice_bytes(weights=weights))


def test_many_tensors_over_one_large_storage_are_refused() -> None:
    large = np.zeros(1 << 20, np.float16)
    one = archive({"weight": {"dec.resblocks.0": large}, "config": Kind().config})
    assert len(one) < 3 << 20
    shared = Raw(b"}(" + b"".join(_shared(number, large.size) for number in range(200)) + b"u")

    message = refusal(
        archive(
            {"weight": shared, "config": Kind().config}, extra={"voice/data/0": large.tobytes()}
        )
    )

    assert message == ("expected tensors of at most 536870912 bytes together, found 838860800.")


def _shared(number: int, count: int) -> bytes:
    name = f"dec.resblocks.{number}".encode()
    size = b"J" + struct.pack("<i", count)
    begin = b"X" + struct.pack("<i", len(name)) + name + b"ctorch._utils\n_rebuild_tensor_v2\n("
    storage = b"(X\x07\x00\x00\x00storagectorch\nHalfStorage\nX\x01\x00\x00\x000U\x03cpu"
    return begin + storage + size + b"tQ" + b"K\x00(" + size + b"t(K\x01t\x89NtR"


@pytest.mark.parametrize(
    "content",
    [
        b"r\xff\xff\xff\x7f",  # a place in memory far away
        b"h\x05",  # one that holds nothing
        b"t" * 10,
        b"}" + b"(" + b"}}" + b"u",  # a dictionary as a key
        b"\x8b\xff\xff\xff\x7f" + b"\x01" * 255,
    ],
)
def test_a_pickle_that_makes_no_sense_is_refused(content: bytes) -> None:
    assert "data.pkl" in refusal(archive(checkpoint(Kind()) | {"info": Raw(content)}))


def test_tuples_in_tuples_are_never_hashed() -> None:
    doubled = b")" + b"q\x01h\x01\x86" * 60

    message = refusal(archive(checkpoint(Kind()) | {"info": Raw(b"}(" + doubled + b"K\x01u")}))

    assert "expected a well-formed pickle" in message
