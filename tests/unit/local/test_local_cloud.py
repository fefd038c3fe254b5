from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from infra.local.cloud.local_cloud import Emulators, EmulatorsMissingError, find_emulators

if TYPE_CHECKING:
    from pathlib import Path


def a_java(folder: Path, version: str) -> Path:
    """Make a program that prints a version as Java does."""
    program = folder / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2024-01-16' >&2\n")
    program.chmod(0o755)
    return program


def a_cloud_cli(folder: Path) -> Path:
    firestore = folder / "platform/cloud-firestore-emulator/cloud-firestore-emulator.jar"
    pubsub = folder / "platform/pubsub-emulator/lib"
    firestore.parent.mkdir(parents=True)
    pubsub.mkdir(parents=True)
    firestore.touch()
    for version in ("0.8.2", "0.8.9"):
        (pubsub / f"cloud-pubsub-emulator-{version}-all.jar").touch()
    return folder


def test_the_emulators_are_found_in_the_named_cloud_cli(tmp_path: Path) -> None:
    java, root = a_java(tmp_path / "java", "21.0.2"), a_cloud_cli(tmp_path / "sdk")

    found = find_emulators({"JAVA_HOME": str(tmp_path / "java"), "CLOUDSDK_ROOT_DIR": str(root)})

    assert found == Emulators(
        str(java),
        root / "platform/cloud-firestore-emulator/cloud-firestore-emulator.jar",
        root / "platform/pubsub-emulator/lib/cloud-pubsub-emulator-0.8.9-all.jar",
    )


def test_the_emulators_are_found_beside_gcloud(tmp_path: Path) -> None:
    a_java(tmp_path / "java", "17")
    root = a_cloud_cli(tmp_path / "sdk")
    gcloud = root / "bin" / "gcloud"
    gcloud.parent.mkdir()
    gcloud.write_text("#!/bin/sh\nexit 1\n")
    gcloud.chmod(0o755)

    found = find_emulators({"JAVA_HOME": str(tmp_path / "java"), "PATH": str(gcloud.parent)})

    assert found.firestore_jar.is_relative_to(root)


@pytest.mark.parametrize("version", ["1.8.0_392", "16", "strange"])
def test_a_java_that_is_too_old_is_named(tmp_path: Path, version: str) -> None:
    java = a_java(tmp_path, version)

    with pytest.raises(EmulatorsMissingError, match=f"{java} is too old; install Java 17"):
        find_emulators({"JAVA_HOME": str(tmp_path)})
