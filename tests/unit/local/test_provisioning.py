from __future__ import annotations

import json
import socket
import stat
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from google.oauth2 import service_account

from infra.local.cloud.local_cloud import LocalCloud, published_endpoints
from infra.local.cloud.memory import MemoryVoices
from infra.local.cloud.provisioning import plan_subscriptions
from infra.local.configuration import names
from infra.local.configuration.environments import (
    Addresses,
    choose_addresses,
    page_config,
    port_of,
)
from infra.local.configuration.keys import make_key, read_key
from infra.local.configuration.names import Ports
from infra.local.configuration.options import CloudOptions
from shared.runtime.settings import SettingsError, Timeouts

if TYPE_CHECKING:
    from pathlib import Path

ADDRESSES = Addresses(
    api="http://api.test",
    on_upload="http://upload.test",
    convert="http://convert.test",
    dead_letter="http://dead.test",
    sweep="http://sweep.test",
    storage="http://storage.test",
)


def test_the_page_stays_at_its_port_unless_another_program_has_it() -> None:
    def api_of(options: CloudOptions) -> int:
        with Ports() as ports:
            return port_of(choose_addresses(options, ports, emulated=False).api)

    with Ports() as ports:
        (port,) = ports.free(1)
    wanted = CloudOptions(page_port=port)
    with socket.create_server(("127.0.0.1", port)) as server:
        assert port < api_of(wanted) < port + 10
        with pytest.raises(SettingsError, match=f"^port {port} is in use by another program; "):
            api_of(CloudOptions(api_port=port))
        # The server closes first, so that its side of the connection stays for a while.
        visitor = socket.create_connection(("127.0.0.1", port))
        server.accept()[0].close()
        visitor.close()
    assert [api_of(wanted), api_of(wanted)] == [port, port]


def test_every_topic_is_pushed_where_it_belongs_and_dead_letters_are_seen() -> None:
    planned = plan_subscriptions(ADDRESSES, Timeouts(60))

    ways = {
        (s.topic.rpartition("/")[2], s.endpoint, (s.dead_letter_topic or "").rpartition("/")[2])
        for s in planned
    }
    assert ways == {
        ("uploads", "http://upload.test", "uploads-dead"),
        ("conversions", "http://convert.test/push", "conversions-dead"),
        ("uploads-dead", "http://dead.test", ""),
        ("conversions-dead", "http://dead.test", ""),
    }
    assert {s.acknowledgement_seconds for s in planned} == {90}
    assert len({s.name for s in planned}) == 4


def test_a_key_is_a_service_accounts_key_file_that_only_its_owner_reads(tmp_path: Path) -> None:
    path, key = tmp_path / "key.json", make_key()
    key.write(path)

    credentials = service_account.Credentials.from_service_account_file(str(path))
    assert credentials.service_account_email == names.SIGNER
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    again = read_key(path)
    assert again.email == key.email
    assert again.private_key.private_numbers() == key.private_key.private_numbers()


def a_cloud(firestore: str | None) -> LocalCloud:
    services = (f"http://127.0.0.1:{port}" for port in range(5001, 5007))
    addresses = replace(Addresses(*services), page_firestore=firestore)

    async def crashed() -> str:
        return ""

    async def restart() -> None: ...

    return LocalCloud(addresses, MemoryVoices(), crashed, restart, has_page=True)


def test_the_file_of_endpoints_exists_while_the_cloud_is_up(tmp_path: Path) -> None:
    told, path = {}, None
    with pytest.raises(RuntimeError):  # noqa: PT012, SIM117 - the file must go after a crash, too
        with published_endpoints(a_cloud("127.0.0.1:5007"), tmp_path / "new") as path:
            told = json.loads(path.read_text())
            raise RuntimeError

    assert path == tmp_path / "new" / "endpoints.json"
    assert not path.exists()
    addresses = {"api", "page", "firestore", "pubsub", "storage", "live", "voicevox", "wyoming"}
    assert set(told) == addresses | {"page_firestore", "project_id", "pid"}
    assert (told["api"], told["page_firestore"]) == ("http://127.0.0.1:5001", "127.0.0.1:5007")


def test_without_firestore_the_page_waits_on_the_api() -> None:
    with_firestore = page_config(a_cloud("127.0.0.1:5007").addresses)
    without = page_config(a_cloud(None).addresses)

    assert (without["firebase"], without["firestoreEmulator"]) == (None, None)
    assert with_firestore["firebase"]["projectId"] == names.PROJECT_ID
    assert with_firestore["firestoreEmulator"] == "127.0.0.1:5007"
