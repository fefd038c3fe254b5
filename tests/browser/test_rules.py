"""What anybody with the browser SDK can do with the documents."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

import httpx
import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.browser.conftest import OpenPage
    from tests.browser.endpoints import Endpoints

FORBIDDEN = {
    "list",
    "list one",
    "query by status",
    "query by owner",
    "create",
    "overwrite",
    "update",
    "delete",
    "write below",
    "read elsewhere",
    "write elsewhere",
}

READING = {"get", "get none", "listen"}

Outcomes = dict[str, str]


@pytest.fixture
def try_everything(
    open_page: OpenPage, harness: str, cloud: Endpoints
) -> Callable[[str, str | None], Outcomes]:
    """Tries every access as a visitor, signed in or not, and returns each outcome."""
    visitor = open_page(microphone=None)
    visitor.page.evaluate(harness)

    def try_everything(voice_id: str, user: str | None) -> Outcomes:
        outcomes: Outcomes = visitor.page.evaluate(
            "([site, voice, user]) => window.harness.tryEverything(site, voice, user)",
            [cloud.site(), voice_id, user],
        )
        # The SDK reports each refusal on the console, and looks for the internet by an image where
        # an answer is late, which the page's policy forbids.
        visitor.complaints[:] = [
            each
            for each in visitor.complaints
            if "Firestore" not in each and "cleardot" not in each
        ]
        return outcomes

    return try_everything


@pytest.mark.parametrize("owner", [None, "mika"])
def test_a_client_with_the_voice_id_or_the_owner_may_only_read_the_voice(
    try_everything: Callable[[str, str | None], Outcomes], cloud: Endpoints, owner: str | None
) -> None:
    outcomes = try_everything(_voice(cloud, owner=owner), owner)
    assert {outcomes.pop(name) for name in READING} == {"ok"}
    assert outcomes == dict.fromkeys(FORBIDDEN, "permission-denied")


def test_only_the_owner_may_read_an_owned_voice(
    try_everything: Callable[[str, str | None], Outcomes], cloud: Endpoints
) -> None:
    voice_id = _voice(cloud, owner="mika")
    everything = FORBIDDEN | {"get", "listen"}
    for stranger in (None, "jun"):
        outcomes = try_everything(voice_id, stranger)
        assert outcomes.pop("get none") == "ok"
        assert outcomes == dict.fromkeys(everything, "permission-denied")


def test_the_client_listens_as_the_owner_in_the_callers_firestore(
    open_page: OpenPage, harness: str, cloud: Endpoints
) -> None:
    visitor = open_page(microphone=None)
    visitor.page.evaluate(harness)
    told = visitor.page.evaluate(
        "([site, voice, user]) => window.harness.watch(site, voice, user)",
        [cloud.site(), _voice(cloud, owner="mika", status="failed", code="silent"), "mika"],
    )
    assert told == "silent"
    assert visitor.sent("GET", "/api/v1/conversion/") == []


def _voice(cloud: Endpoints, owner: str | None, status: str = "done", code: str = "") -> str:
    voice_id = str(uuid.uuid4())
    fields: dict[str, Any] = {
        "status": {"stringValue": status},
        "owner": {"nullValue": None} if owner is None else {"stringValue": owner},
        "error": {"mapValue": {"fields": {"code": {"stringValue": code}}}},
    }
    documents = (
        f"http://{cloud.firestore}/v1/projects/{cloud.project_id}/databases/(default)/documents"
    )
    response = httpx.patch(
        f"{documents}/shards/0/voices/{voice_id}",
        json={"fields": fields},
        # The emulator's word for a service, which the rules do not touch.
        headers={"Authorization": "Bearer owner"},
    )
    response.raise_for_status()
    return voice_id
