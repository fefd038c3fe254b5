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


# NumPy's matrix library reads its number of threads once, when NumPy is first imported.
IMPORT_OF_A_DEPLOYABLE = """
import gc, os, runpy, sys

class ThreadsAtFirstImportOfNumPy:
    def find_spec(self, name, path=None, target=None):
        if name == "numpy":
            print(os.environ.get("OPENBLAS_NUM_THREADS"))

sys.meta_path.insert(0, ThreadsAtFirstImportOfNumPy())
try:
    runpy.run_module(sys.argv[1], run_name="__main__")
except SystemExit:
    print(gc.isenabled(), gc.get_stats()[2]["collections"])
"""


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("convert", ["1", "False", "0"]),
        ("live", ["1", "False", "0"]),
        ("live_and_compat", ["1", "False", "0"]),
        ("compat", ["1"]),
    ],
)
def test_a_deployable_imports_numpy_with_one_thread_and_a_converter_collects_no_garbage_meanwhile(
    name: str, told: list[str]
) -> None:
    # With a wrong setting it stops after its imports.
    command = [sys.executable, "-c", IMPORT_OF_A_DEPLOYABLE, f"functions.{name}"]
    ended = subprocess.run(
        command, capture_output=True, text=True, env={"PORT": "0"}, check=True, timeout=60
    )

    assert ended.stdout.split()[: len(told)] == told


def test_a_converter_begins_to_load_before_it_imports_its_clients_and_its_server() -> None:
    # The libraries that take longest to import, for which loading does not wait.
    code = (
        "import sys, functions.convert.process\n"
        "print(*{'google.cloud.firestore_v1', 'google.cloud.storage', 'grpc', 'hypercorn',"
        " 'onnxruntime', 'requests', 'starlette'} & {*sys.modules})"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert ended.stdout.split() == []
