"""Whether there is room for a run."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.front_door import room


def test_a_folder_with_room_is_fine_also_before_it_is_made(tmp_path: Path) -> None:
    assert room.refusal((tmp_path, tmp_path / "not" / "yet"), least=1) is None


def test_a_full_disk_is_told_with_what_is_left(tmp_path: Path) -> None:
    told = room.refusal((tmp_path / "state",), least=1024**6)
    assert told is not None
    assert told.startswith(f"The disk of {tmp_path} has ")
    assert told.endswith("Nothing was changed.")


def test_a_folder_that_takes_nothing_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def access(path: Path, _mode: int) -> bool:
        return path != tmp_path

    monkeypatch.setattr("os.access", access)
    told = room.refusal((tmp_path / "state",))
    assert told is not None
    assert told.startswith(f"{tmp_path} can't be written to")
