from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.unit.graphs.bundles import write_bundle
from tools.bundles.files import VoiceFileError
from tools.bundles.trial import measure

if TYPE_CHECKING:
    from pathlib import Path


def test_the_memory_of_a_bundle_is_not_hidden_by_what_the_import_has_used(tmp_path: Path) -> None:
    bundle = write_bundle(tmp_path)
    used = bytearray(b"x") * (400 << 20)

    report = measure(bundle, 1)

    assert len(used) == 400 << 20
    assert report.real_time_factor > 0
    assert report.peak_megabytes is not None
    assert report.peak_megabytes > 1


def test_why_a_bundle_does_not_work_is_passed_on(tmp_path: Path) -> None:
    bundle = write_bundle(tmp_path, engine="unknown")

    with pytest.raises(VoiceFileError, match="field 'engine': expected one of"):
        measure(bundle, 1)
