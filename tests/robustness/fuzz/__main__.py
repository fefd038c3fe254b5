"""Fuzzes what strangers' bytes reach, each target in a process of its own.

    python -m tests.robustness.fuzz --minutes 10 [--target NAME] [--seed N]
    python -m tests.robustness.fuzz --replay .fuzz/NAME/INPUT

The last target, `properties`, are the tests that draw inputs: here they draw others than in
`nox -s tests`. It ends with a line for each target, and with exit code 1 if an input crashed its
target, was not answered cleanly or went over a limit, or a test failed. Such an input is kept in
`.fuzz`, with what replays it.
"""

from __future__ import annotations

import argparse
import hashlib
import multiprocessing
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from tests.robustness.fuzz.harness import Tally, try_one
from tests.robustness.fuzz.targets import fuzz_here, targets

if TYPE_CHECKING:
    from collections.abc import Sequence

KEPT = Path(".fuzz")
# Beyond its time a process may finish a batch, and make a failing input small.
GRACE_SECONDS = 600.0
SHOWN_KINDS = 6
PROPERTIES = "properties"


def main(arguments: Sequence[str]) -> int:
    """Fuzz or replay, as the arguments say."""
    parser = argparse.ArgumentParser(prog="fuzz", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--minutes", type=float, default=1.0, help="altogether (default: 1)")
    choices = [*targets(), PROPERTIES]
    parser.add_argument("--target", choices=choices, action="append")
    parser.add_argument("--seed", type=int, help="to begin with (default: the time)")
    parser.add_argument("--replay", type=Path, metavar="FILE", help="try one kept input")
    options = parser.parse_args(arguments)
    if options.replay is not None:
        answer = try_one(targets()[options.replay.parent.name], options.replay.read_bytes())
        sys.stdout.write(f"answered: {answer}\n")
        return 0
    wanted = options.target or choices
    seed = int(time.time()) if options.seed is None else options.seed
    seconds = 60 * options.minutes / len(wanted)
    names = [name for name in wanted if name != PROPERTIES]
    tallies = {name: fuzz_apart(name, seconds, seed) for name in names}
    sys.stdout.write(f"seed {seed}\n")
    for name, tally in tallies.items():
        answers = "; ".join(
            f"{kind} {count}" for kind, count in tally.kinds.most_common(SHOWN_KINDS)
        )
        sys.stdout.write(
            f"{name}: {tally.tried} inputs, {len(tally.failures)} failures, slowest"
            f" {tally.slowest:.2f} s, largest process {tally.memory_bytes >> 20} MiB; {answers}\n"
        )
        for failure, data in tally.failures.items():
            path = KEPT / name / hashlib.sha256(data).hexdigest()[:16]
            path.write_bytes(data)
            replay = f"python -m tests.robustness.fuzz --replay {path}"
            sys.stdout.write(f"{name}: {failure}\n  replay it: {replay}\n")
    is_well = not any(tally.failures for tally in tallies.values())
    if PROPERTIES in wanted:
        # The tests that draw inputs, with others than usual.
        drawn = ("-m", "hypothesis", "--hypothesis-profile=default", f"--hypothesis-seed={seed}")
        command = (sys.executable, "-m", "pytest", "-q", *drawn, "tests/unit", "tests/integration")
        is_well &= subprocess.run(command, check=False).returncode == 0
    return 0 if is_well else 1


def fuzz_apart(name: str, seconds: float, seed: int) -> Tally:
    """Fuzz a target in a process that may crash or hang."""
    current = KEPT / name / "current"
    current.parent.mkdir(parents=True, exist_ok=True)
    current.write_bytes(b"")
    ours, theirs = multiprocessing.Pipe(duplex=False)
    spawning = multiprocessing.get_context("spawn")
    process = spawning.Process(target=fuzz_here, args=(theirs, name, seconds, seed, current))
    process.start()
    theirs.close()
    try:
        if ours.poll(seconds + GRACE_SECONDS):
            tally: Tally = ours.recv()
            return tally
        failure = "the process did not end"
    except EOFError:
        process.join()
        failure = f"the process ended with {process.exitcode}"
    finally:
        process.kill()
        process.join()
    return Tally(failures={failure: current.read_bytes()})


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
