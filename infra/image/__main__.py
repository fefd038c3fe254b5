"""Does what functions/convert/Dockerfile says in a clean directory, and starts the result.

No container engine is needed: the image's folders /source and /app become folders of a temporary
one, COPY takes what .dockerignore lets through, RUN runs, and the command starts as an unprivileged
user over files that nobody may write. What concerns the base image itself is named and left out.
"""
# ruff: noqa: S603, T201 - a command for a terminal, which runs what the Dockerfile says

from __future__ import annotations

import argparse
import http.client
import json
import os
import platform
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pathspec

from infra.image.dockerfile import DockerfileError, Stage, read

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT: Final = Path(__file__).parents[2]
DOCKERFILE: Final = ROOT / "functions/convert/Dockerfile"
OUR_FOLDERS: Final = ("/app", "/source")
READY_SECONDS: Final = 60.0
STOP_SECONDS: Final = 10.0
HTTP2_PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00"
HTTP2_SETTINGS: Final = 4

# What Terraform sets, made up: a container gets ready whether or not the services answer.
ENVIRONMENT: Final = {
    "PROJECT_ID": "nobodys-project",
    "PUSH_AUDIENCE": "https://convert.invalid",
    "PUSH_SERVICE_ACCOUNT": "push@nobodys-project.iam.gserviceaccount.com",
    "RESULTS_BUCKET": "nobodys-results",
    "SIGNING_SERVICE_ACCOUNT": "convert@nobodys-project.iam.gserviceaccount.com",
    "UPLOADS_BUCKET": "nobodys-uploads",
}
CREDENTIALS: Final = {
    "type": "authorized_user",
    "client_id": "nobody",
    "client_secret": "none",
    "refresh_token": "none",
}


class ImageError(Exception):
    """What the image would contain does not do what it must."""


class Workshop:
    """A folder that stands for the root of the image's file system.

    Args:
        folder: the folder; empty at first.
        python: the interpreter that stands for the base image's.
    """

    def __init__(self, folder: Path, python: str) -> None:
        self.folder = folder
        self._python = python
        self._context = _context_files()

    def place(self, path: str) -> Path:
        """Return where a path of the image lies."""
        return self.folder / path.lstrip("/")

    def here(self, text: str) -> str:
        """Replace the image's own folders in a text by where they lie."""
        pattern = rf"(?<![\w/])({'|'.join(OUR_FOLDERS)})(?=[/:\s]|$)"
        return re.sub(pattern, lambda found: str(self.place(found[1])), text)

    def build(self, stage: Stage) -> None:
        """Carry out a stage's COPY and RUN instructions."""
        for instruction in stage.instructions:
            if instruction.name == "COPY":
                self._copy(instruction.rest)
            elif instruction.name == "RUN":
                self._run(instruction.rest)

    def _copy(self, rest: str) -> None:
        source, target = rest.split()
        _say(f"COPY {rest}")
        files = [one for one in self._context if one == source or one.startswith(source)]
        if not files:
            raise ImageError(f"COPY {rest}: .dockerignore lets nothing through of {source}")
        for file in files:
            inside = file.removeprefix(source) if source.endswith("/") else Path(file).name
            goal = self.place(target) / inside
            goal.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / file, goal)

    def _run(self, command: str) -> None:
        _say(f"RUN {command}")
        words = shlex.split(self.here(command))
        programs = {"python": [self._python], "pip": [sys.executable, "-m", "pip"]}
        subprocess.run([*programs[words[0]], *words[1:]], check=True)


def find_python(user: int) -> str:
    """Return an interpreter of this version that the container's user may run.

    One in root's home, say, is not: its files are closed to everybody else.

    Raises:
        ImageError: there is none.
    """
    name = f"python{sys.version_info.major}.{sys.version_info.minor}"
    own = str(Path(sys.executable).resolve())
    for path in (own, f"/usr/local/bin/{name}", f"/usr/bin/{name}"):
        if not Path(path).is_file():
            continue
        try:
            trial = subprocess.run([path, "-c", ""], check=False, cwd="/", **_as_user(user))
        except PermissionError:
            continue
        if trial.returncode == 0:
            return path
    raise ImageError(
        f"no {name} is open to user {user}; install one in /usr, or run this as an ordinary user"
    )


def _as_user(user: int) -> dict[str, Any]:
    """Return what makes a process another user's: only root can, and others need it less."""
    if os.geteuid() != 0:
        return {}
    return {"user": user, "group": user, "extra_groups": []}


def _context_files() -> list[str]:
    """Return what `docker build` would see: the checkout without what .dockerignore keeps out."""
    lines = (ROOT / ".dockerignore").read_text().splitlines()
    ignored = pathspec.GitIgnoreSpec.from_lines(lines)
    # The two folders that any COPY names: the rest of a checkout can be large.
    found = [
        path
        for top in ("characters", "functions", "shared", "speech")
        for path in _walk(ROOT / top)
    ]
    return sorted(path for path in found if not ignored.match_file(path))


def _walk(folder: Path) -> Iterator[str]:
    for place, folders, files in os.walk(folder):
        folders[:] = [one for one in folders if one not in {"node_modules", "__pycache__"}]
        yield from ((Path(place) / file).relative_to(ROOT).as_posix() for file in files)


def _say(text: str) -> None:
    print(f"  {text}", flush=True)


@contextmanager
def _running(workshop: Workshop, stage: Stage, port: int) -> Iterator[subprocess.Popen[bytes]]:
    """Start the image's command as its user, in its folder, with its environment and no other."""
    command = stage.command
    program = workshop.place("/app/venv/bin") / command[0]
    environment = {name: workshop.here(value) for name, value in stage.environment.items()}
    if environment.get("HOME") != "/tmp":  # noqa: S108 - the one folder a container may write to
        raise ImageError("HOME must be /tmp, the one folder that the image may write to")
    with tempfile.TemporaryDirectory() as writable:
        os.chmod(writable, 0o777)  # noqa: S103, PTH101 - stands for the container's own /tmp
        credentials = Path(writable) / "credentials.json"
        credentials.write_text(json.dumps(CREDENTIALS))
        process = subprocess.Popen(
            [str(program), *command[1:]],
            cwd=workshop.here(stage.find("WORKDIR")[-1]),
            env=environment
            | ENVIRONMENT
            | {
                "GOOGLE_APPLICATION_CREDENTIALS": str(credentials),
                "HOME": writable,
                "PORT": str(port),
                "TMPDIR": writable,
            },
            **_as_user(stage.user),
        )
        try:
            yield process
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()


def _ask(port: int, path: str) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request("GET", path)
        return connection.getresponse().status
    finally:
        connection.close()


def _await_readiness(process: subprocess.Popen[bytes], port: int) -> float:
    """Ask /readyz until it answers 2xx; return the seconds."""
    begin = time.monotonic()
    while time.monotonic() - begin < READY_SECONDS:
        if process.poll() is not None:
            raise ImageError(f"the command ended with {process.returncode} instead of serving")
        try:
            if 200 <= _ask(port, "/readyz") < 300:  # noqa: PLR2004 - 2xx
                return time.monotonic() - begin
        except OSError:
            pass
        time.sleep(0.02)
    raise ImageError(f"/readyz did not answer with 2xx within {READY_SECONDS:g} s")


def _check_http2(port: int) -> None:
    """Speak HTTP/2 without TLS, as Cloud Run does to a port named h2c."""
    with socket.create_connection(("127.0.0.1", port), timeout=5) as connection:
        connection.sendall(HTTP2_PREFACE)
        header = connection.recv(9)
    if len(header) < 9 or header[3] != HTTP2_SETTINGS:  # noqa: PLR2004 - a frame's header
        raise ImageError("the server does not speak HTTP/2 in clear text (h2c)")


def _stop(process: subprocess.Popen[bytes]) -> float:
    begin = time.monotonic()
    process.send_signal(signal.SIGTERM)
    try:
        code = process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        raise ImageError(f"SIGTERM did not end it within {STOP_SECONDS:g} s") from None
    if code != 0:
        raise ImageError(f"SIGTERM ended it with {code} instead of 0")
    return time.monotonic() - begin


def _check_contents(app: Path) -> None:
    """Look whether bytecode and model are there and no installer or compiler is."""
    tools = [one for name in ("pip", "setuptools", "wheel", "gcc") for one in app.rglob(name)]
    if tools:
        raise ImageError(f"build tools are left: {', '.join(map(str, tools))}")
    for source in (*app.glob("functions/**/*.py"), *app.glob("shared/**/*.py")):
        cached = list((source.parent / "__pycache__").glob(f"{source.stem}.*.pyc"))
        if not cached:
            raise ImageError(f"{source.relative_to(app)} has no bytecode")
    if not list(app.glob("characters/*/*.onnx")):
        raise ImageError("there is no character's model")


def _forbid_writing(app: Path) -> None:
    for path in (app, *app.rglob("*")):
        if not path.is_symlink():
            path.chmod(path.stat().st_mode & 0o555 | 0o444)


def _allow_removing(app: Path) -> None:
    for path in (app, *app.rglob("*")):
        if path.is_dir() and not path.is_symlink():
            path.chmod(0o755)


def _megabytes(folder: Path) -> float:
    files = (path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
    return sum(path.stat().st_size for path in files) / 1e6


def exercise(folder: Path) -> None:
    """Build in an empty folder what the image would contain, start it, and put it to the test.

    Raises:
        ImageError: it does not do what it must.
        subprocess.CalledProcessError: a step failed.
    """
    build, final = read(DOCKERFILE)
    workshop = Workshop(folder, find_python(final.user))
    print(f"Building with Python {platform.python_version()} (the image: {build.base})")
    workshop.build(build)
    for command in final.find("RUN"):
        _say(f"left out, concerns the base image: RUN {command}")
    app = workshop.place("/app")
    _check_contents(app)
    _forbid_writing(app)
    try:
        _start(workshop, final, _megabytes(app))
    finally:
        _allow_removing(app)


def _start(workshop: Workshop, final: Stage, megabytes: float) -> None:
    app = workshop.place("/app")
    before = set(workshop.folder.rglob("*"))
    print(f"Starting {final.command} as user {final.user} over {megabytes:.0f} MB of files")
    port = _free_port()
    with _running(workshop, final, port) as process:
        seconds = _await_readiness(process, port)
        _say(f"/readyz answered after {seconds:.2f} s")
        if _ask(port, "/healthz") >= 300:  # noqa: PLR2004 - not 2xx
            raise ImageError("/healthz does not answer with 2xx")
        _check_http2(port)
        _say("/healthz answers, HTTP/2 in clear text is spoken")
        _say(f"SIGTERM ended it after {_stop(process):.2f} s")
    written = set(workshop.folder.rglob("*")) - before
    if written:
        raise ImageError(f"it has written into the image: {sorted(map(str, written))[:5]}")
    _say(f"nothing was written into {app.name}/")


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def main() -> int:
    """Exercise the Dockerfile; return 0 if what it makes works, else 1 with the reason."""
    parser = argparse.ArgumentParser(prog="python -m infra.image", description=__doc__)
    parser.add_argument("--keep", type=Path, help="an empty folder to build in and keep")
    keep = parser.parse_args().keep
    try:
        if keep is not None:
            keep.mkdir(parents=True, exist_ok=True)
            exercise(keep.resolve())
            return 0
        with tempfile.TemporaryDirectory(prefix="image-") as folder:
            os.chmod(folder, 0o755)  # noqa: S103, PTH101 - the container's user must get in
            exercise(Path(folder).resolve())
    except (DockerfileError, ImageError, subprocess.CalledProcessError) as error:
        print(f"The image would not work: {error}", file=sys.stderr)
        return 1
    print("The image would work.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
