"""A local cloud whose processes can be held, killed, frozen and disconnected."""

from __future__ import annotations

import asyncio
import base64
import os
import sys
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import httpx
from google.auth.credentials import AnonymousCredentials
from google.cloud import storage

from infra.local.cloud import provisioning
from infra.local.configuration import names
from infra.local.configuration.environments import (
    FIRESTORE_VARIABLE,
    PUBSUB_VARIABLE,
    Addresses,
    deployable_environments,
)
from infra.local.configuration.keys import make_key
from infra.local.configuration.names import Ports
from infra.local.configuration.options import ROOT, RULES, CloudOptions
from infra.local.processes.children import READY_SECONDS, Supervisor
from shared.google.firestore import RenewableClient
from shared.google.listener import DocumentListener
from shared.google.sharded_bucket import shard_names, shard_of
from shared.google.voices import FirestoreVoices
from shared.voices.objects import upload_name
from shared.voices.tickets import Tickets
from shared.voices.voice import Options, create, new_voice_id
from tests.integration.served import SAMPLE
from tests.robustness.faults.barriers import VARIABLE, Barriers
from tests.robustness.faults.scale_to_zero_proxy import Front

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence
    from pathlib import Path

    from infra.local.cloud.local_cloud import Emulators
    from infra.local.processes.children import Process
    from shared.voices.store import VoiceStore
    from shared.voices.voice import Voice

# No file may become larger than 512 bytes; the log goes to a pipe, because it must not fail. The
# limit is the soft one: the processes that decode, which can open no file, set another for their
# answer, which lies in memory.
NO_DISK = ("sh", "-c", '(ulimit -S -f 1; exec "$@") 2>&1 | cat', "sh")
DELIVERIES = 5
"""How often a message is delivered before dead_letter gets it: the fewest that Pub/Sub allows."""

SHARDS = 3
"""Over how many buckets recordings and results are spread, each."""

NOWHERE = "http://127.0.0.1:9"
CONVERT_WITH_BARRIERS = "tests.robustness.faults.convert_with_barriers"


@dataclass(frozen=True)
class Instance:
    """One process of a service, and where deliveries reach it."""

    process: Process
    url: str

    async def log(self) -> str:
        return await asyncio.to_thread(self.process.log.read_text)


class FaultyCloud:
    """The processes, and the test's view of them."""

    def __init__(
        self,
        folder: Path,
        barriers: Barriers,
        front: Front,
        addresses: Addresses,
        voices: VoiceStore,
        *,
        as_deployed: bool = False,
    ) -> None:
        self.barriers = barriers
        self.front = front
        self.addresses = addresses
        self.voices = voices
        self.logs = folder / "logs"
        self.supervisor = Supervisor(self.logs)
        self.key_file = folder / "signing-key.json"
        self._as_deployed = as_deployed
        self._options = (
            CloudOptions()
            if as_deployed
            else CloudOptions(concurrency=6, backlog=20, upload_shards=SHARDS)
        )
        self._started = 0
        os.environ["STORAGE_EMULATOR_HOST"] = addresses.storage
        self._storage = storage.Client(names.PROJECT_ID, credentials=AnonymousCredentials())

    async def start_convert(self, prefix: Sequence[str] = (), **changes: str) -> Instance:
        (port,) = self.supervisor.ports.free(1)
        module = "functions.convert" if self._as_deployed else CONVERT_WITH_BARRIERS
        command = [*prefix, sys.executable, "-m", module]
        url = f"http://127.0.0.1:{port}"
        environment = {"PORT": str(port), **changes}
        process = await self._start("convert", command, environment)
        await self.supervisor.wait_until_ready(process, f"{url}/readyz")
        return Instance(process, f"{url}/push")

    async def start_live(self, **changes: str) -> Instance:
        (port,) = self.supervisor.ports.free(1)
        command = [sys.executable, "-m", "tests.robustness.faults.live_with_barriers"]
        process = await self._start("live", command, {"PORT": str(port), **changes})
        await self.supervisor.wait_until_ready(process, f"http://127.0.0.1:{port}/readyz")
        return Instance(process, f"ws://127.0.0.1:{port}/live")

    def ticket(self, voice_id: str) -> str:
        return Tickets([names.LIVE_TICKET_KEY]).sign(voice_id, timedelta(minutes=10)).text

    async def start_on_upload(self, **changes: str) -> Instance:
        if self._as_deployed:
            return await self.start_function("on_upload", **changes)
        (port,) = self.supervisor.ports.free(1)
        command = [
            sys.executable,
            "-m",
            "tests.robustness.faults.on_upload_with_barriers",
            str(port),
        ]
        url = f"http://127.0.0.1:{port}"
        process = await self._start("on_upload", command, changes)
        await self.supervisor.wait_until_ready(process, f"{url}/healthz")
        return Instance(process, f"{url}/")

    async def start_function(
        self, name: str, prefix: Sequence[str] = (), **changes: str
    ) -> Instance:
        (port,) = self.supervisor.ports.free(1)
        source = ROOT / "functions" / name / "main.py"
        command = [*prefix, sys.executable, "-m", "functions_framework", "--asgi"]
        command += [f"--source={source}", f"--target={name}", "--host=127.0.0.1", f"--port={port}"]
        url = f"http://127.0.0.1:{port}"
        process = await self._start(name, command, changes)
        await self.supervisor.wait_until_ready(process, f"{url}/healthz")
        return Instance(process, f"{url}/")

    async def stop(self, instance: Instance) -> None:
        self.supervisor.processes.remove(instance.process)
        await instance.process.stop()

    async def create_voice(self, age: timedelta = timedelta(0)) -> str:
        """Create the document of a voice, as the api does, or did so long ago."""
        now = datetime.now(UTC) - age
        voice = create(new_voice_id(), "mei", Options(content_type="audio/webm"), now=now)
        await self.voices.create(voice)
        return voice.voice_id

    async def upload(self, voice_id: str) -> int:
        blob = self._bucket(names.UPLOADS_BUCKET, voice_id).blob(upload_name(voice_id))
        await asyncio.to_thread(
            blob.upload_from_filename,
            str(SAMPLE),
            content_type="audio/webm",
            if_generation_match=0,
        )
        assert blob.generation is not None
        return int(blob.generation)

    async def upload_bytes(self, voice_id: str) -> int:
        """Return the size of a voice's recording as it lies in the bucket; 0 if there is none."""
        bucket = self._bucket(names.UPLOADS_BUCKET, voice_id)
        blob = await asyncio.to_thread(bucket.get_blob, upload_name(voice_id))
        return 0 if blob is None else int(blob.size)

    async def results(self, voice_id: str) -> list[str]:
        bucket = self._bucket(names.RESULTS_BUCKET, voice_id)
        return await asyncio.to_thread(
            lambda: [blob.name for blob in bucket.list_blobs(prefix=f"{voice_id}/")]
        )

    async def read(self, voice_id: str) -> Voice:
        return (await self.voices.read(voice_id)).voice

    async def ended(self, voice_id: str) -> Voice:
        async with self.voices.watch(voice_id) as states:
            async for voice in states:
                if voice is not None and voice.status.is_final:
                    return voice
        raise AssertionError("the listener ended")

    async def retained(self, topic: str, voice_id: str) -> list[bytes]:
        """Return the messages about a voice that a topic's retained subscription still has."""
        subscription = names.subscription_path(f"{topic}-retained")
        body = {"maxMessages": 100, "returnImmediately": True}
        async with httpx.AsyncClient(timeout=READY_SECONDS) as client:
            url = f"http://{self.addresses.pubsub}/v1/{subscription}"
            pulled = (await client.post(f"{url}:pull", json=body)).json()
            received = pulled.get("receivedMessages", [])
            ids = [one["ackId"] for one in received]
            # Put them back for whoever looks next.
            again = {"ackIds": ids, "ackDeadlineSeconds": 0}
            (await client.post(f"{url}:modifyAckDeadline", json=again)).raise_for_status()
        messages = [one["message"] for one in received]
        ours = (m for m in messages if m.get("attributes", {}).get("voice_id") == voice_id)
        return [base64.b64decode(message["data"]) for message in ours]

    async def publish(self, topic: str, data: bytes, attributes: Mapping[str, str]) -> None:
        async with httpx.AsyncClient(timeout=READY_SECONDS) as client:
            path, pubsub = names.topic_path(topic), f"http://{self.addresses.pubsub}"
            await provisioning.publish(client, pubsub, path, data, attributes)

    @property
    def shards(self) -> int:
        """Over how many buckets recordings and results are spread, each."""
        return self._options.upload_shards

    def uploads_bucket(self, voice_id: str) -> str:
        return self._shard(names.UPLOADS_BUCKET, voice_id)

    def _shard(self, name: str, voice_id: str) -> str:
        return shard_names(name, self.shards)[shard_of(voice_id, self.shards)]

    def _bucket(self, name: str, voice_id: str) -> Any:
        return self._storage.bucket(self._shard(name, voice_id))

    async def _start(self, name: str, command: list[str], changes: Mapping[str, str]) -> Process:
        self._started += 1
        environments = deployable_environments(self._options, self.addresses, self.key_file)
        environment = {
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "PYTHONUNBUFFERED": "1",
            "STORAGE_EMULATOR_HOST": self.addresses.storage,
            FIRESTORE_VARIABLE: str(self.addresses.firestore),
            PUBSUB_VARIABLE: str(self.addresses.pubsub),
            VARIABLE: self.barriers.address,
            **environments[name],
            **changes,
        }
        return await self.supervisor.start(f"{name}-{self._started}", command, environment)


@asynccontextmanager
async def faulty_cloud(
    emulators: Emulators, folder: Path, *, as_deployed: bool = False
) -> AsyncIterator[FaultyCloud]:
    """Start emulators, storage, dead_letter, one on_upload and one conversion container."""
    async with AsyncExitStack() as stack:
        barriers = await stack.enter_async_context(Barriers())
        addresses = _choose_addresses(stack.enter_context(Ports()))
        front = Front(str(addresses.pubsub))
        voices = _open_voices(addresses)
        stack.push_async_callback(voices.aclose)
        cloud = FaultyCloud(folder, barriers, front, addresses, voices, as_deployed=as_deployed)
        stack.push_async_callback(cloud.supervisor.stop_all)
        await stack.enter_async_context(front)
        await _start_foundations(cloud, emulators, folder, as_deployed=as_deployed)
        convert, on_upload, dead_letter = await asyncio.gather(
            cloud.start_convert(), cloud.start_on_upload(), cloud.start_function("dead_letter")
        )
        front.default = {
            "convert": convert.url,
            "on_upload": on_upload.url,
            "dead_letter": dead_letter.url,
        }
        yield cloud


async def _start_foundations(
    cloud: FaultyCloud, emulators: Emulators, folder: Path, *, as_deployed: bool
) -> None:
    make_key().write(cloud.key_file)
    addresses, supervisor = cloud.addresses, cloud.supervisor
    firestore, pubsub = str(addresses.firestore), str(addresses.pubsub)
    storage = [sys.executable, "-m", "infra.local.cloud.storage_service"]
    storage_port = addresses.storage.rpartition(":")[2]
    commands = {
        "firestore": (emulators.firestore_command(firestore, RULES), f"http://{firestore}/"),
        "pubsub": (emulators.pubsub_command(pubsub), f"http://{pubsub}/"),
        "storage": (
            [*storage, storage_port, str(folder / "storage"), str(cloud.key_file), pubsub],
            f"{addresses.storage}/storage/v1/b?project={names.PROJECT_ID}",
        ),
    }
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    started = [
        (await supervisor.start(name, command, environment), probe)
        for name, (command, probe) in commands.items()
    ]
    for process, probe in started:
        await supervisor.wait_until_ready(process, probe)
    await _provision(cloud, as_deployed=as_deployed)


async def _provision(cloud: FaultyCloud, *, as_deployed: bool) -> None:
    # Where the front pushes to is its own affair.
    planned = provisioning.plan_subscriptions(cloud.addresses, CloudOptions().timeouts)
    often = [
        replace(
            subscription,
            attempts=DELIVERIES,
            first_backoff_seconds=0.3,
            longest_backoff_seconds=1.0,
        )
        for subscription in planned
    ]
    async with httpx.AsyncClient(timeout=READY_SECONDS) as client:
        pubsub = f"http://{cloud.addresses.pubsub}"
        await provisioning.make_subscriptions(client, pubsub, planned if as_deployed else often)
        await provisioning.make_buckets(client, cloud.addresses.storage, (), shards=cloud.shards)
    await cloud.front.start()


def _choose_addresses(ports: Ports) -> Addresses:
    storage_port, firestore, pubsub = ports.free(3)
    return Addresses(
        api=NOWHERE,
        on_upload=NOWHERE,
        convert=NOWHERE,
        dead_letter=NOWHERE,
        sweep=NOWHERE,
        storage=f"http://127.0.0.1:{storage_port}",
        firestore=f"127.0.0.1:{firestore}",
        pubsub=f"127.0.0.1:{pubsub}",
    )


def _open_voices(addresses: Addresses) -> VoiceStore:
    os.environ[FIRESTORE_VARIABLE] = str(addresses.firestore)
    client = RenewableClient(project=names.PROJECT_ID)
    return FirestoreVoices(client, DocumentListener(client, targets_per_stream=100))


def _port(address: str) -> int:
    return int(address.rpartition(":")[2])
