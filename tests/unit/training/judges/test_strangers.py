"""What characters are judged by is read from folders."""

import shutil
from pathlib import Path

import numpy as np
import soundfile

from tools.training.decoder.features import RATE
from tools.training.judges.strangers import READERS, english
from tools.training.recordings.selection import SHIPPED


def test_readers_are_read_as_files_and_as_librispeech_lays_them_out(tmp_path: Path) -> None:
    chapter = tmp_path / "61" / "70968"
    chapter.mkdir(parents=True)
    for number in range(2):
        tone = np.sin(np.arange(22_050) / (5 + number)).astype(np.float32)
        soundfile.write(chapter / f"61-70968-000{number}.flac", tone, 22_050)
    (chapter / "61-70968.trans.txt").write_text("61-70968-0001 HE BEGAN A CONFUSED COMPLAINT\n")
    shutil.copy(SHIPPED / "strangers" / "367.opus", tmp_path)
    found = english(tmp_path)
    assert [(one.name, one.text) for one in found] == [
        ("367", None),
        ("61-70968-0000", None),
        ("61-70968-0001", "HE BEGAN A CONFUSED COMPLAINT"),
    ]
    assert {one.group for one in found} == {READERS}
    assert len(found[1].wave) == RATE
