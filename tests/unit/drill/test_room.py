"""What a drill leaves, and who takes it back: itself, or the next one after a kill."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from drill.room import Room, RoomError, Undo

FIRST, SECOND = Undo("kubectl", ["uncordon", "a"]), Undo("scancel", ["7"])


def test_deeds_are_taken_back_last_first_and_nothing_stays(tmp_path: Path) -> None:
    room, done = Room(tmp_path), list[Undo]()
    assert room.enter("secret") == []
    assert room.kubeconfig.stat().st_mode & 0o077 == 0
    room.undo_later(FIRST)
    room.undo_later(SECOND)
    room.leave(done.append)
    assert done == [SECOND, FIRST]
    assert list(tmp_path.iterdir()) == []


def test_the_next_drill_finds_what_a_killed_one_left(tmp_path: Path) -> None:
    script = (
        "import sys, time; from pathlib import Path; from drill.room import Room, Undo\n"
        "room = Room(Path(sys.argv[1])); room.enter('x'); room.undo_later(Undo('kubectl', ['uncordon', 'a']))\n"
        "room.undo_later(Undo('scancel', ['7'])); print('ready', flush=True); time.sleep(60)"
    )
    killed = subprocess.Popen([sys.executable, "-c", script, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    assert killed.stdout is not None
    assert killed.stdout.readline() == "ready\n"
    with pytest.raises(RoomError, match=f"process {killed.pid}"):
        Room(tmp_path).enter("x")
    killed.kill()
    killed.communicate()
    left, done = Room(tmp_path), list[Undo]()
    assert [each.arguments for each in left.enter("x")] == [["7"], ["uncordon", "a"]]
    left.leave(done.append)
    assert [each.arguments for each in done] == [["7"], ["uncordon", "a"]]


def test_what_is_not_yet_taken_back_stays_written_down(tmp_path: Path) -> None:
    room = Room(tmp_path)
    room.enter("x")
    room.undo_later(FIRST)
    room.undo_later(SECOND)

    def once(undo: Undo) -> None:
        if undo == FIRST:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        room.leave(once)
    kept = json.loads((tmp_path / "running.json").read_text())
    assert [each["arguments"] for each in kept["undo"]] == [["uncordon", "a"]]


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"pid": 1}', "null"])
def test_a_file_that_says_nothing_is_nothing_left(tmp_path: Path, text: str) -> None:
    (tmp_path / "running.json").write_text(text)
    assert Room(tmp_path).enter("x") == []


def test_programs_of_a_killed_drill_are_ended_and_no_others(tmp_path: Path) -> None:
    mark = f"--kubeconfig={tmp_path / 'kubeconfig'}"
    own = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)", mark])
    other = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)", f"{mark}.other"])
    try:
        while mark not in psutil.Process(own.pid).cmdline():
            time.sleep(0.01)
        Room(tmp_path).enter("x")
        assert own.wait(10) != 0
        assert other.poll() is None
    finally:
        own.kill()
        other.kill()
        own.wait()
        other.wait()


def test_reports_of_another_scenario_stay(tmp_path: Path) -> None:
    room = Room(tmp_path)
    (room.report_folder("a") / "old").touch()
    (room.report_folder("b") / "kept").touch()
    assert list(room.report_folder("a").iterdir()) == []
    assert (tmp_path / "b" / "kept").exists()
