"""Nothing waits without a limit for something outside of the process."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT: Final = Path(__file__).parents[2]
PRODUCT: Final = ("functions", "infra", "shared", "tools/bundles", "tools/importing")

WAITS: Final = frozenset(
    [
        "accept",
        "anext",
        "communicate",
        "connect",
        "drain",
        "join",
        "open_connection",
        "readexactly",
        "readline",
        "readuntil",
        "receive",
        "recv",
        "sock_recv",
        "sock_sendall",
        "wait",
        "wait_closed",
    ]
)
"""Methods and functions that wait for something; whether it is outside shows the table below."""

REQUESTS: Final = frozenset({"requests.get", "requests.post", "requests.put", "requests.request"})
COMMANDS: Final = frozenset({"subprocess.run", "subprocess.check_output", "subprocess.check_call"})

LIMITED_ELSEWHERE: Final = {
    # Bodies and messages of clients.
    "shared/container/server.py receive_noting": "the application that reads has one",
    "shared/container/server.py _read_for_ever": "ends when the answer's end is sent",
    "functions/api/result_wait.py while_connected": "what is waited for has a limit",
    "functions/api/result_wait.py _wait_for_disconnection": "ends with what is waited for",
    "functions/compat/text_socket.py serve": "accepting sends an answer and waits for none",
    "functions/compat/wyoming.py read_event": "IDLE_SECONDS, in the server",
    "functions/live/service.py receive": "each message has one, in the intake",
    "functions/live/service.py serve": "accepting sends an answer and waits for none",
    # Inside of the process: tasks, queues, and the end of the process itself.
    "shared/conversion/bucket_characters.py _drop_idle": "until a character is returned",
    "shared/container/supervision.py send_heartbeats": "until Gunicorn ends this process",
    "shared/container/server.py wait": "until a signal comes",
    "shared/container/server.py drain_when_stopped": "until a signal comes",
    "shared/conversion/worker.py carry_out": "the work has a deadline",
    "functions/compat/service/synthesis.py _in_thread": "a piece is as long as its budget",
    "functions/compat/service/synthesis.py _change": "slow readers are ended",
    "functions/live/stream.py _run": "until the session has its answer",
    "functions/live/conversion.py turn": "until the computation begins or ends",
    "functions/train/runner.py _make": "decoding and the trainer have limits",
    "functions/train/trainer.py run": "the process is killed",
    "infra/local/processes/servers.py crashed": "until a server ends",
    "infra/local/cloud/emulated.py _open_firestore_to_pages": "a page's listener has no end",
    "infra/local/cloud/emulated.py _ask_everything": "READY_SECONDS, around it",
    "infra/local/processes/scale_to_zero.py keep_minimum": "until an instance ends",
    "infra/local/processes/scale_to_zero.py _watch": "until the instance ends or is stuck",
    "functions/compat/text_socket.py _speak_after": "what was asked before; speaking has limits",
    "infra/local/processes/children.py run_in_background": "it was cancelled",
    "infra/local/processes/children.py wait": "whoever calls it has one",
    "infra/local/processes/children.py stop": "it was killed",
    "infra/local/processes/children.py wait_for_an_end": "until a process ends",
    "infra/local/processes/scale_to_zero.py over": "until a signal comes",
    "infra/local/processes/scale_to_zero.py serve_proxy": "until a signal comes",
    "shared/google/listener.py _until_one_ends": "the streams have limits of their own",
    "shared/voices/store.py states": "whoever waits for a state has one",
    # Calls of our own methods, which have limits themselves.
    "shared/conversion/characters.py connect": "CONNECT_SECONDS, and the store's",
    "functions/live/main.py drain": "finishing_seconds, and the worker's",
    "shared/conversion/composition.py open_conversion_services": "see connect",
    "infra/local/cloud/embedded.py converters": "see functions/live/main.py",
    "infra/local/commands/live.py __aenter__": "OPENING_SECONDS, a second time around it",
    "shared/google/sharded_bucket.py connect": "CONNECT_SECONDS, in each bucket",
    # The local storage server: its clients have limits, and a developer's machine has no strangers.
    "infra/local/storage/requests.py received_body": "the client's",
    # A developer's command; Ctrl-C ends it.
    "infra/terraform/check.py _run": "terraform test is ended after 600 s by the session",
    # Decoding processes: `run` and `open` have limits; what is heard ends with its session.
    "shared/speech/decoding/subprocesses.py _send": "run has one",
    "shared/speech/decoding/subprocesses.py _spawned_send": "run has one",
    "shared/speech/decoding/subprocesses.py is_running": "the socket does not block",
    "shared/speech/decoding/subprocesses.py _report_process": "run and open have one",
    "shared/speech/decoding/process_output.py _read": "listening_seconds, in the session",
    "shared/speech/decoding/process_output.py receive": "run, open or the session has one",
    "shared/speech/decoding/process_output.py receive_message": "likewise",
    "shared/speech/decoding/process_output.py send": "likewise",
    # Processes that were killed, or that limit themselves.
    "infra/local/commands/live.py _recording": "it was killed",
    "tools/bundles/files.py run_apart": "the process ends itself, see _begin",
    "shared/speech/decoding/subprocesses.py aclose": "it was killed",
    "shared/speech/decoding/subprocesses.py run": "it was killed",
    "shared/speech/results/credentials.py read_credentials_apart": "it was killed",
    "shared/speech/results/credentials.py main": "its parent kills it",
}
"""What the search below finds and why it has an end, by file and function."""


def found_in(path: str, source: str) -> Iterator[str]:
    """Yield each place that waits without a limit of its own, as file and function."""
    yield from _found(ast.parse(source), path, "module", limited=False)


def _found(node: ast.AST, path: str, function: str, *, limited: bool) -> Iterator[str]:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        function, limited = node.name, False
    if isinstance(node, ast.AsyncWith):
        contexts = [ast.unparse(item.context_expr) for item in node.items]
        limited = limited or any(each.startswith("asyncio.timeout") for each in contexts)
    if isinstance(node, ast.Call) and not limited and _waits(node):
        yield f"{path} {function}"
    for child in ast.iter_child_nodes(node):
        yield from _found(child, path, function, limited=limited)


def _waits(call: ast.Call) -> bool:
    whole = ast.unparse(call.func)
    limits = [word for word in call.keywords if word.arg in {"timeout", "timeout_s"}]
    if any(isinstance(word.value, ast.Constant) and word.value.value is None for word in limits):
        return True
    if limits:
        return False
    if whole in REQUESTS | COMMANDS or whole.endswith("urlopen"):
        return True
    name = whole.rpartition(".")[2]
    if name == "result":
        return ".submit(" in whole
    # `"".join(parts)`, `path.join(...)` and `Barrier.wait(1.0)` wait for nothing, or not for long.
    return name in WAITS and not (name == "join" and call.args)


@cache
def found_in_product() -> frozenset[str]:
    return frozenset(
        place
        for top in PRODUCT
        for path in (ROOT / top).rglob("*.py")
        for place in found_in(path.relative_to(ROOT).as_posix(), path.read_text())
    )


def test_whatever_waits_has_a_limit_or_a_reason_to_have_none() -> None:
    assert sorted(found_in_product() - LIMITED_ELSEWHERE.keys()) == []


def test_the_table_names_nothing_that_is_gone() -> None:
    assert sorted(LIMITED_ELSEWHERE.keys() - found_in_product()) == []


@pytest.mark.parametrize(
    "line",
    [
        "await client.post(url, timeout=None)",
        "httpx.AsyncClient(timeout=None)",
        "requests.get(url)",
        "urllib.request.urlopen(url)",
        "subprocess.run(['java'])",
        "await process.wait()",
        "process.communicate()",
        "await anext(states)",
        "await socket.recv()",
        "thread.join()",
        "pool.submit(step).result()",
    ],
)
def test_waiting_without_a_limit_is_found(line: str) -> None:
    assert [*found_in("a.py", f"async def f():\n    {line}\n")] == ["a.py f"]


@pytest.mark.parametrize(
    "line",
    [
        "await client.post(url, timeout=3.0)",
        "async with asyncio.timeout(3): await process.wait()",
        "async with asyncio.timeout(3), voices.watch(i) as s: await anext(s)",
        "', '.join(parts)",
        "subprocess.run(['java'], timeout=3)",
    ],
)
def test_waiting_with_a_limit_is_not(line: str) -> None:
    assert [*found_in("a.py", f"async def f():\n    {line}\n")] == []
