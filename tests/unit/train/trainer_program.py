"""Stands in for the training command: the same arguments and output, but the bundle is a copy."""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shutil
import signal
import sys
import time
import wave
from pathlib import Path

parser = argparse.ArgumentParser()
parser.add_argument("behaviour")
parser.add_argument("bundle", type=Path)
for name in ("recordings", "consent", "spoken-consent", "into", "work"):
    parser.add_argument(f"--{name}", type=Path, required=True)
for name in ("as", "name", "language"):
    parser.add_argument(f"--{name}", required=True, dest=f"{name}_")
given = parser.parse_args()


def seconds(file: Path) -> float:
    with wave.open(str(file)) as opened:
        frames, rate = opened.getnframes(), opened.getframerate()
    return float(frames / rate)


def keep(name: str) -> None:
    """Keep what a stage makes, as the training does; die in it if that is the behaviour."""
    file = kept / f"{name}.pickle"
    if file.exists():
        return
    if given.behaviour == f"die in {name}":
        os.kill(os.getpid(), signal.SIGKILL)
    if given.behaviour == f"hang in {name}":
        time.sleep(600)
    if journal := globals().get("JOURNAL"):
        with Path(journal).open("a") as notes:
            notes.write(f"{given.as_} {name}\n")
    file.with_suffix(".partial").write_text(name)
    file.with_suffix(".partial").replace(file)


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


consent = json.loads(given.consent.read_text("utf-8"))
sentence = given.work / f"{given.as_}.sentence.json"
assert sentence.stat().st_mtime <= given.spoken_consent.stat().st_mtime
assert seconds(given.spoken_consent) > 1
total = sum(map(seconds, given.recordings.iterdir()))
recordings = [(each.name, *each.stat()[6:9:2]) for each in sorted(given.recordings.iterdir())]
made_of = hashlib.sha256(json.dumps(recordings).encode()).hexdigest()
kept = given.work / given.as_
if kept.exists() and (kept / "made_of.txt").read_text() != made_of:
    shutil.rmtree(kept)
kept.mkdir(exist_ok=True)
(kept / "made_of.txt").write_text(made_of)
say("[1/6] reading")
keep("selection")
say("used: 2:00 of your recordings")
say("[2/6] preparing")
keep("lessons")
say("[3/6] preparing others")
keep("others")
say("[5/6] learning the voice  45%, 1:20 left")
keep("learner")
if given.behaviour == "die at the end":
    os.kill(os.getpid(), signal.SIGKILL)
if given.behaviour == "hang":
    time.sleep(600)
if given.behaviour == "crash":
    raise RuntimeError("out of memory")
if given.behaviour.startswith("refuse with "):
    code = given.behaviour.removeprefix("refuse with ")
    names = [each.name for each in given.recordings.iterdir()]
    told = f"{given.recordings}: expected one voice, found two. [{code}]"
    sys.stderr.write(f"{' '.join([told, *names])}\n")
    raise SystemExit(1)
if given.behaviour == "refuse":
    sys.stderr.write("a warning of a library\n")
    sys.stderr.write(f"{given.recordings}: expected 2 minutes, found {total:.0f} s\n")
    raise SystemExit(1)
target = given.into / given.as_
shutil.copytree(given.bundle, target)
if (encoders := given.bundle.parent / "encoders").exists():
    shutil.copytree(encoders, given.into / "encoders")
manifest = json.loads((target / "character.json").read_text("utf-8"))
manifest |= {"id": given.as_, "name": {"ja": given.name_, "en": given.name_}}
portrait = "portrait.svg" if given.behaviour.startswith("draw") else None
if given.behaviour == "draw a script":
    script = '<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>'
    (target / "portrait.svg").write_text(script)
manifest |= {"consent": consent["consent"]}
manifest |= {"preview": {"colour": "#aabbcc", "portrait": portrait}}
(target / "character.json").write_text(json.dumps(manifest), "utf-8")
listening = given.work / given.as_ / "listen"
listening.mkdir(parents=True)
figures = {"converted": 0.87, "recorded": 0.97, "reachable": 0.92, "before": 0.53, "left": 0.6}
unused = {"another_voice": 12.4, "too_short": 30.0}
card = {
    "seconds": total,
    "unused": unused,
    "likeness": figures,
    "likeness_of_others": figures,
    "words": None,
}
(listening / "card.json").write_text(json.dumps(card), "utf-8")
for whose in ("own", "other"):
    for what in ("original", "converted"):
        shutil.copyfile(given.spoken_consent, listening / f"{whose}-1-{what}.wav")
if given.behaviour == "break":
    (target / "harmonic.onnx").write_bytes(b"no network")
