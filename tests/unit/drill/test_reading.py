"""From what the systems say to observations."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from drill import reading
from drill.streams import Notebook, Streams
from tests.unit.drill.making import seen


def test_a_node_under_repair() -> None:
    item: dict[str, Any] = {
        "metadata": {"name": "n", "annotations": {"crusoe.ai/remediation": "XID_79-1"}},
        "spec": {"unschedulable": True},
        "status": {"conditions": [{"type": "Ready", "status": "True"}, {"type": "DiskPressure", "status": "False"}]},
    }
    what = reading.node(item, 1.0).what
    assert what == {"name": "n", "cordoned": True, "mark": "crusoe.ai/remediation=XID_79-1", "conditions": ["Ready"]}
    tainted = {"metadata": {"name": "n"}, "spec": {"taints": [{"key": "crusoe.ai/remediation.a", "value": "b"}]}}
    assert reading.node(tainted, 1.0).what["mark"] == "crusoe.ai/remediation.a=b"
    assert reading.node({"metadata": {"name": "n"}}, 1.0).what["mark"] == ""


def test_slurm_as_scontrol_shows_it() -> None:
    line = (
        "1700000000.5 JobId=7 JobName=drill UserId=user(1000) JobState=PENDING Reason=BeginTime Restarts=1 "
        "EligibleTime=2026-11-30T10:00:05 NodeList= BatchHost=train-0"
    )
    found = reading.slurm_line(line)
    assert found is not None
    assert (found.at, found.what["state"], found.what["restarts"], found.what["batch"]) == (
        1700000000.5,
        "PENDING",
        1,
        "train-0",
    )
    assert found.what["eligible"] > 0
    node = "1.25 NodeName=train-1 State=IDLE+DRAIN Reason=slurm-operator: XID 79 [slurm@2026-11-30T10:00:05]"
    found = reading.slurm_line(node)
    assert found is not None
    assert found.what == {"name": "train-1", "state": "IDLE+DRAIN", "reason": "slurm-operator: XID 79"}


@pytest.mark.parametrize("line", ["", "x", "1.0", "1.0 slurm_load_jobs error: down", "x JobId=1", "1.0 JobId=1"])
def test_what_says_nothing_is_left_out(line: str) -> None:
    assert reading.slurm_line(line) is None


@pytest.mark.parametrize("moment", ["", "Unknown", "N/A", "None"])
def test_a_time_that_is_none(moment: str) -> None:
    assert reading.seconds(moment) == 0.0


def test_lines_of_the_run_folder() -> None:
    step = reading.step_line('{"step": 3, "loss": "0x1p-1", "attempt": 1, "time": 5.5}')
    assert step is not None
    assert (step.at, step.what["attempt"]) == (5.5, 1)
    event = reading.event_line('{"time": 6.5, "event": "resumed", "step": 40}')
    assert event is not None
    assert (event.at, event.what["event"]) == (6.5, "resumed")
    for line in ("", "{", "[]", '{"event": "x"}', "==> a file <=="):
        assert reading.event_line(line) is None
        assert reading.step_line(line) is None


def test_programs_are_followed_and_started_again_until_they_are_closed(tmp_path: Path) -> None:
    book = Notebook()
    streams = Streams(book)
    script = f'date >> {tmp_path}/starts; echo nonsense; echo \'{{"type": "ADDED", "object": {{"a": 1}}}}\'; sleep 0.1'
    streams.objects(["sh", "-c", script], lambda kind, item, at: seen(at, "kubernetes", "event", type=kind, **item))
    deadline = time.monotonic() + 20
    while len(book.all) < 2 and time.monotonic() < deadline:
        time.sleep(0.05)
    streams.close()
    assert book.all[0].what == {"type": "ADDED", "a": 1}
    starts = (tmp_path / "starts").read_text().count("\n")
    assert starts >= 2
    time.sleep(0.8)
    assert (tmp_path / "starts").read_text().count("\n") == starts


def test_the_notebook_keeps_changes_of_a_thing_and_every_step() -> None:
    book = Notebook()
    for at in range(3):
        book.see(seen(at, "slurm", "node", name="a", state="IDLE"))
        book.see(seen(at, "slurm", "node", name="b", state="IDLE"))
        book.see(seen(at, "job", "step", step=1, attempt=0, loss="x"))
    book.see(seen(9, "slurm", "node", name="a", state="DOWN"))
    book.see(None)
    assert [(each.at, each.kind) for each in book.all if each.kind == "node"] == [(0, "node"), (0, "node"), (9, "node")]
    assert len([each for each in book.all if each.kind == "step"]) == 3


@pytest.mark.parametrize(
    ("line", "kind", "what"),
    [
        ("12.5 Other filler      8           RUNNING     0     ", "filler", {"job": "8"}),
        (
            "12.5 Other bystander   9           RUNNING     0",
            "bystander",
            {"job": "9", "state": "RUNNING", "restarts": 0},
        ),
        (
            "12.5 Other bystander   9           PENDING     2",
            "bystander",
            {"job": "9", "state": "PENDING", "restarts": 2},
        ),
    ],
)
def test_other_jobs_of_the_drill(line: str, kind: str, what: dict[str, object]) -> None:
    found = reading.slurm_line(line)
    assert found is not None
    assert (found.at, found.source, found.kind, found.what) == (12.5, "slurm", kind, what)


@pytest.mark.parametrize("line", ["1 Other filler 8 PENDING 0", "1 Other", "1 Other bystander 9", "x Other a b c d"])
def test_what_says_nothing_of_another_job(line: str) -> None:
    assert reading.slurm_line(line) is None
