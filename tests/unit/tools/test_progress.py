"""What a long step says."""

import io

import pytest
from rich.console import Console

from tools import progress
from tools.progress import Reporter, spoken


@pytest.mark.parametrize(
    ("seconds", "expected"), [(0.4, "0 s"), (59, "59 s"), (60, "1 min"), (90, "1 min 30 s"), (3600, "60 min")]
)
def test_durations_read_as_a_person_says_them(seconds: float, expected: str):
    assert spoken(seconds) == expected


def test_without_a_terminal_there_are_plain_lines(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(progress, "HEARTBEAT_SECONDS", 0)
    file = io.StringIO()
    with Reporter(Console(file=file, width=80)).step("kwok 0.7.0: building with Go", 90) as step:
        step.tick()
    assert file.getvalue().splitlines() == [
        "kwok 0.7.0: building with Go (about 1 min 30 s) ...",
        "  still at it after 0 s",
        "kwok 0.7.0: building with Go: done after 0 s",
    ]


def test_a_step_that_fails_says_so():
    file = io.StringIO()
    with pytest.raises(RuntimeError), Reporter(Console(file=file, width=80)).step("fetching"):
        raise RuntimeError
    assert file.getvalue().splitlines()[-1] == "fetching: stopped after 0 s"


def test_on_a_terminal_elapsed_and_expected_time_are_live():
    file = io.StringIO()
    console = Console(file=file, width=100, force_terminal=True, color_system=None)
    with Reporter(console).step("fetching", 190) as step:
        step.tick()
        step.tick(5, 10)
    shown = file.getvalue()
    assert "0:00:00" in shown
    assert "(about 3 min 10 s)" in shown
    assert shown.rstrip().endswith("fetching: done after 0 s")
