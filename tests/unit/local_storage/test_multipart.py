from __future__ import annotations

import json
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from infra.local.storage.protocol.multipart import RelatedParts

BOUNDARY = "=sep="


@settings(deadline=None)
@given(
    content=st.lists(
        st.sampled_from([b"\r\n", b"--", b"--=sep", b"=", b"-", b"\r", b"\n", b"x", b"\0"])
    ).map(b"".join),
    cuts=st.lists(st.integers(0, 300), max_size=6),
)
def test_a_body_is_read_the_same_however_it_is_cut(content: bytes, cuts: list[int]) -> None:
    if f"\r\n--{BOUNDARY}".encode() in b"\r\n" + content:
        return
    resource = {"name": "a", "metadata": {"k": "ü"}}
    body = (
        b"--=sep=\r\ncontent-type: application/json; charset=UTF-8\r\n\r\n"
        + json.dumps(resource).encode()
        + b"\r\n--=sep=\r\ncontent-type: audio/webm\r\n\r\n"
        + content
        + b"\r\n--=sep=--"
    )
    edges = [0, *sorted(min(cut, len(body)) for cut in cuts), len(body)]
    parts = RelatedParts(f'multipart/related; boundary="{BOUNDARY}"')

    pieces = [piece for start, end in pairwise(edges) for piece in parts.feed(body[start:end])]

    assert b"".join(pieces) == content
    assert parts.resource() == resource | {"contentType": "audio/webm"}
