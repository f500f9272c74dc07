"""What is said before a job is submitted."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from training import checkpoints, cost, options, preflight
from training.checkpoints import Manifest
from training.preflight import Measured, file_system, loss, main, measured, shared_by_trial, shared_by_type, window

MOUNTS = """\
21 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw
22 21 0:20 / /home rw shared:2 - nfs4 filer:/home rw
23 22 0:21 / /home/me/scratch\\040two rw - tmpfs tmpfs rw
24 21 0:22 / /homes rw - xfs /dev/vdb rw
"""


def chosen(run: Path, *arguments: str) -> options.Options:
    return options.read(["--run", str(run), *arguments], {})


def ran(run: Path, step: float = 2.0, save: float = 5.0) -> None:
    """A run of 20 steps with one save."""
    run.mkdir(exist_ok=True)
    lines = [json.dumps({"step": number, "loss": "0x1p+0", "time": number * step}) for number in range(1, 21)]
    (run / "steps.jsonl").write_text("\n".join(lines))
    (run / "events.jsonl").write_text(json.dumps({"event": "save-published", "time": 9, "seconds": save}) + "\n")


def test_the_file_system_is_that_of_the_nearest_mount() -> None:
    places = {"/var/x": "ext4", "/home/me/run": "nfs4", "/home/me/scratch two/x": "tmpfs", "/homes/me": "xfs"}
    assert {place: file_system(Path(place), MOUNTS) for place in places} == places


@pytest.mark.parametrize(("kind", "well"), [("nfs4", True), ("virtiofs", True), ("xfs", False), ("tmpfs", False)])
def test_a_folder_that_only_one_node_sees_is_refused(kind: str, well: bool) -> None:
    verdict = shared_by_type(kind, Path("/x"))
    assert verdict.well is well
    assert kind in verdict.sentence


def test_nodes_that_do_not_meet_are_named() -> None:
    assert shared_by_trial(Path("/x"), 2, []).well
    verdict = shared_by_trial(Path("/x"), 2, ["gpu-2"])
    assert not verdict.well
    assert "gpu-2" in verdict.sentence


@pytest.mark.parametrize(
    ("save", "kill_wait", "shutdown", "well"),
    [(60, 90, 80, True), (79, 90, 80, False), (60, 30, 80, False), (60, 90, 30, False), (100, 180, 170, True)],
)
def test_a_save_must_fit_what_both_kill_waits_leave(save: float, kill_wait: float, shutdown: float, well: bool) -> None:
    verdict = window(Measured(2.0, save, 1000, estimated=False), kill_wait, shutdown)
    assert verdict.well is well
    assert f"{save + 2:.1f} s (measured)" in verdict.sentence


def test_the_cost_is_not_known_before_a_step(tmp_path: Path) -> None:
    assert loss(chosen(tmp_path), Measured(None, 1.0, 1000, estimated=True), 8, None).well is None


def test_the_cost_at_this_interval_and_the_best_one(tmp_path: Path) -> None:
    verdict = loss(chosen(tmp_path, "--interval", "100"), Measured(10.0, 30.0, 1000, estimated=False), 1024, None)
    # 1,024 GPUs fail every 8 hours; sqrt(2 x 30 s x 28,800 s) = 1,315 s = 131 steps.
    assert "every 8.0 hours" in verdict.sentence
    assert "50 steps on average" in verdict.sentence
    assert "--interval 131" in verdict.sentence


@given(gpus=st.integers(1, 100_000))
def test_more_gpus_never_fail_less_often(gpus: int) -> None:
    assert cost.mtbf(gpus + 1) <= cost.mtbf(gpus)


def test_failures_as_they_were_published() -> None:
    assert cost.mtbf(8) == pytest.approx(47 * 86400)
    assert cost.mtbf(1024) == pytest.approx(8 * 3600)
    assert cost.mtbf(16384) == pytest.approx(1.8 * 3600)
    assert cost.mtbf(1) == pytest.approx(8 * 47 * 86400)


@given(save=st.floats(0.1, 600), gpus=st.integers(8, 16384))
def test_the_best_interval_costs_least(save: float, gpus: int) -> None:
    def overhead(interval: float) -> float:
        return save / interval + interval / 2 / cost.mtbf(gpus)

    best = cost.cost(gpus, 100, save).best
    assert math.isclose(best, math.sqrt(2 * save * cost.mtbf(gpus)))
    assert overhead(best) <= min(overhead(best * 1.1), overhead(best / 1.1))


def test_what_a_run_has_measured_is_used(tmp_path: Path) -> None:
    ran(tmp_path)
    draft = checkpoints.draft_of(tmp_path / "checkpoints", 20, 0, 0)
    draft.mkdir(parents=True)
    (draft / "x").write_bytes(b"1234567")
    checkpoints.publish(draft, Manifest(20, 2, "ddp", {}, "0x1p+0", {"x": checkpoints.digest(draft / "x")}))
    assert measured(chosen(tmp_path), None) == Measured(2.0, 5.0, 7, estimated=False)


def test_it_says_one_sentence_to_each_question(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["--run", str(tmp_path / "run"), "--width", "64", "--kill-wait", "90"], {})
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 4
    assert [line.split()[0] for line in lines] == ["no", "yes", "yes", "?"]
    assert code == 1
    assert not list((tmp_path / "run").glob(".preflight*"))


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").touch()
    assert main(["--run", str(tmp_path / "file" / "run")], {}) == 1
    assert "run folder can't be used" in capsys.readouterr().out


def test_tasks_of_a_step_meet_or_are_missed(tmp_path: Path) -> None:
    meet = preflight._meet  # pyright: ignore[reportPrivateUsage]
    assert meet(tmp_path / "m", "a", ["a"], 0) == []
    assert meet(tmp_path / "m", "b", ["a", "b", "c"], 0) == ["c"]
