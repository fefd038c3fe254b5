from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

HOLDER = """
import os, time
from functions.compat.service.shared_files import run_folder
with run_folder() as folder:
    child = os.fork()
    if child:
        print(folder, child, flush=True)
    time.sleep(60)
"""


def test_a_folder_is_removed_at_the_end_and_what_a_killed_run_left_by_the_next_one(
    tmp_path: Path,
) -> None:
    (tmp_path / "compat-of-somebody").mkdir()  # without a lock, so it is nobody's of ours
    environment = os.environ | {"TMPDIR": str(tmp_path), "PYTHONPATH": "."}

    def folders() -> set[str]:
        return {each.name for each in tmp_path.glob("compat-*")} - {"compat-of-somebody"}

    def run_once() -> None:
        code = "from functions.compat.service.shared_files import run_folder\nwith run_folder(): 0"
        subprocess.run([sys.executable, "-c", code], env=environment, check=True, timeout=60)

    with subprocess.Popen(
        [sys.executable, "-c", HOLDER], env=environment, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None
        path, child = holder.stdout.readline().split()
        used = {Path(path).name}
        run_once()
        assert folders() == used

        holder.send_signal(signal.SIGKILL)
        holder.wait(60)
        run_once()
        assert folders() == used, "a process of the run is still there"

        os.kill(int(child), signal.SIGKILL)
        while folders():
            run_once()

    assert (tmp_path / "compat-of-somebody").is_dir()
