from __future__ import annotations

import gc
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from shared.conversion.composition import log_start
from tests.support.logs import log_book

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def without_collector() -> Iterator[None]:
    gc.disable()
    yield
    gc.unfreeze()
    gc.enable()


@pytest.mark.usefixtures("without_collector")
def test_an_instance_that_serves_collects_its_garbage() -> None:
    with log_book() as book:
        log_start()

    assert gc.isenabled()
    assert gc.get_freeze_count() > 0
    assert len(book.of("instance_started")) == 1


@pytest.mark.parametrize("name", ["convert", "live", "live_and_compat"])
def test_garbage_is_not_collected_while_a_deployable_is_imported(name: str) -> None:
    # Without settings it stops after its imports; what is there then was never collected.
    code = (
        "import gc, runpy, sys\n"
        f"try: runpy.run_module('functions.{name}', run_name='__main__')\n"
        "except SystemExit: print(gc.isenabled(), gc.get_stats()[2]['collections'])"
    )
    command = [sys.executable, "-c", code]
    ended = subprocess.run(command, capture_output=True, text=True, env={}, check=True)

    assert ended.stdout.split() == ["False", "0"]


def test_a_converter_begins_to_load_before_it_imports_its_clients_and_its_server() -> None:
    # What loading can wait for: the libraries that take longest to import.
    code = (
        "import sys, functions.convert.process\n"
        "print(*{'google.cloud.firestore_v1', 'google.cloud.storage', 'grpc', 'hypercorn',"
        " 'onnxruntime', 'requests', 'starlette'} & {*sys.modules})"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert ended.stdout.split() == []
