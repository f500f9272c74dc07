"""The batch script, run with stand-ins for Slurm's programs that write down what they are asked."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from training import codes, records

ROOT = Path(__file__).parents[3]
SCRIPT = ROOT / "training" / "job.sbatch"

SRUN = """\
#!/bin/bash
echo "srun $*" >> "$CALLS"
[ "$1" = --help ] && { [ -z "${PYXIS:-}" ] || echo "  --container-image=[USER@]..."; exit 0; }
echo $$ > "$CALLS.srun"
[ -z "${SLEEP:-}" ] || exec sleep "$SLEEP"
exit "${STATUS:-0}"
"""

SCANCEL = """\
#!/bin/bash
echo "scancel $*" >> "$CALLS"
"""

SCONTROL = """\
#!/bin/bash
echo "scontrol $*" >> "$CALLS"
case "$*" in
    "show hostnames "*) echo "$3" | tr , '\\n' ;;
    *"show job"*) echo "JobId=7 ExcNodeList=${EXCLUDED:-(null)} Requeue=1" ;;
    *"show node"*)
        for node in a b c d; do
            state=IDLE; [ "${DOWN:-}" != $node ] || state='DOWN*+DRAIN'
            echo "NodeName=$node State=$state Partitions=all,gpu Extra={\\"instance\\": \\"vm-$node\\"} X=1"
        done ;;
    requeue*) kill -TERM "$PPID" ;;
    update*)
        # As Slurm while the job is still completing.
        [ -e "$CALLS.refused" ] && exit 0
        touch "$CALLS.refused"
        echo "Job/step already completing or completed" >&2
        exit 1 ;;
esac
"""


class Batch:
    """The script in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.run = folder, folder / "run"
        self.calls = folder / "calls"
        (folder / "bin").mkdir()
        for name, text in (("srun", SRUN), ("scontrol", SCONTROL), ("scancel", SCANCEL)):
            (folder / "bin" / name).write_text(text)
            (folder / "bin" / name).chmod(0o755)
        self.variables = {
            "PATH": f"{folder}/bin:/usr/bin:/bin",
            "PYTHON": sys.executable,
            "CALLS": str(self.calls),
            "SLURM_JOB_ID": "7",
            "SLURM_JOB_NODELIST": "a,b",
            "SLURM_JOB_NUM_NODES": "2",
            "SLURM_JOB_PARTITION": "gpu",
            "SLURM_SUBMIT_DIR": str(ROOT),
            "SLURMD_NODENAME": "a",
        }

    def start(self, *options: str, **variables: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            ["bash", str(SCRIPT), "--run", str(self.run), *options],
            env=self.variables | variables,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def result(self, *options: str, **variables: str) -> tuple[int, str]:
        process = self.start(*options, **variables)
        said = process.communicate(timeout=60)[0]
        return process.returncode, said

    def asked(self, program: str) -> list[str]:
        text = self.calls.read_text() if self.calls.exists() else ""
        return [line.removeprefix(f"{program} ") for line in text.splitlines() if line.startswith(f"{program} ")]

    def changed(self) -> list[str]:
        """What scontrol was asked to change."""
        return [line for line in self.asked("scontrol") if line.startswith(("requeue", "update"))]

    def until_running(self) -> None:
        deadline = time.monotonic() + 30
        while not Path(f"{self.calls}.srun").exists():
            assert time.monotonic() < deadline
            time.sleep(0.01)


@pytest.fixture
def batch(tmp_path: Path) -> Batch:
    return Batch(tmp_path)


def blame(batch: Batch, node: str, attempt: str = "0") -> None:
    environ = {"SLURMD_NODENAME": node, "SLURM_RESTART_COUNT": attempt}
    records.Records(batch.run, environ, writer=f"launch-{node}").event(
        "ranks-failed", failures=[{"rank": 1, "code": -9, "time": 1}]
    )


def test_it_asks_slurm_for_what_recovery_needs() -> None:
    lines = [line.split(" ", 1)[1] for line in SCRIPT.read_text().splitlines() if line.startswith("#SBATCH")]
    assert {"--requeue", "--open-mode=append", "--ntasks-per-node=1", "--signal=B:USR1@180"} <= set(lines)


def test_one_launcher_on_each_node_gets_the_trainers_options(batch: Batch) -> None:
    code, _ = batch.result("--steps", "9")
    assert code == codes.DONE
    assert batch.asked("srun") == [
        f"--kill-on-bad-exit=1 {sys.executable} -m training.launch --run {batch.run} --steps 9"
    ]
    assert batch.changed() == []


def test_a_crash_goes_back_into_the_queue_away_from_the_node_to_blame(batch: Batch) -> None:
    blame(batch, "b")
    code, said = batch.result(STATUS="1", EXCLUDED="d")
    assert code == codes.STOPPED, said
    # Refused while the job is completing, the change is tried again.
    change = "update JobId=7 ExcNodeList=b,d StartTime=now+30"
    assert batch.changed() == ["requeue 7", change, change]
    assert "Crash 1 of 3" in said
    # The next crash: of four nodes, one of which is the user's to exclude, the job is left the two that it needs.
    blame(batch, "a", attempt="1")
    code, said = batch.result(STATUS="1", EXCLUDED="b,d", SLURM_RESTART_COUNT="1")
    assert batch.changed()[-1] == "update JobId=7 ExcNodeList=a,d StartTime=now+60"
    assert "b is suspected, but without it too few nodes are left" in said


def test_a_failed_node_is_no_crash_and_no_suspect(batch: Batch) -> None:
    blame(batch, "b")
    code, said = batch.result(STATUS="1", DOWN="b")
    assert code == codes.STOPPED
    assert "doesn't count" in said
    assert batch.changed()[-1] == "update JobId=7 StartTime=now+0"


def test_after_three_crashes_it_gives_up(batch: Batch) -> None:
    codes_seen = [batch.result(STATUS="1", TRAINING_PAUSE="0")[0] for _ in range(3)]
    assert codes_seen == [codes.STOPPED, codes.STOPPED, codes.GAVE_UP]
    assert len([line for line in batch.changed() if line.startswith("requeue")]) == 2


def test_a_member_of_an_array_requeues_itself_alone(batch: Batch) -> None:
    member = {"SLURM_ARRAY_JOB_ID": "7", "SLURM_ARRAY_TASK_ID": "2"}
    batch.result(STATUS="1", **member)
    assert batch.changed()[0] == "requeue 7_2"
    assert batch.changed()[-1].startswith("update JobId=7_2 ")
    # What it keeps is in a folder of its own.
    assert (batch.run / "2" / "requeue.json").exists()
    assert not (batch.run / "requeue.json").exists()


def test_sigterm_is_left_to_slurm(batch: Batch) -> None:
    process = batch.start(SLEEP="30")
    batch.until_running()
    process.send_signal(signal.SIGTERM)
    process.send_signal(signal.SIGTERM)
    os.kill(int(Path(f"{batch.calls}.srun").read_text()), signal.SIGTERM)
    said = process.communicate(timeout=60)[0]
    assert process.returncode == 143, said
    assert "told=term" in said
    assert batch.changed() == []


@pytest.mark.parametrize(
    ("member", "name"), [({}, "7"), ({"SLURM_ARRAY_JOB_ID": "7", "SLURM_ARRAY_TASK_ID": "2"}, "7_2")]
)
def test_before_the_time_limit_the_ranks_are_told_and_the_job_goes_on(
    batch: Batch, member: dict[str, str], name: str
) -> None:
    process = batch.start(SLEEP="30", **member)
    batch.until_running()
    process.send_signal(signal.SIGUSR1)
    while not batch.asked("scancel"):
        time.sleep(0.01)
    os.kill(int(Path(f"{batch.calls}.srun").read_text()), signal.SIGTERM)
    said = process.communicate(timeout=60)[0]
    assert batch.asked("scancel") == [f"--signal=TERM {name}"]
    assert batch.changed()[0] == f"requeue {name}", said
    assert batch.changed()[-1].endswith("StartTime=now+0")


def test_refused_options_end_the_job(batch: Batch) -> None:
    records.Records(batch.run, {}, rank=0).event("leaving", code=codes.REFUSED, why="other data", step=0)
    assert batch.result(STATUS="1")[0] == codes.REFUSED
    assert batch.changed() == []


def test_in_a_container_the_ranks_get_its_image_and_mounts(batch: Batch) -> None:
    code, _ = batch.result(PYXIS="1", CONTAINER_IMAGE="registry/torch:2", CONTAINER_MOUNTS="/home/me/runs")
    assert code == codes.DONE
    words = batch.asked("srun")[-1].split()
    assert words[1] == "--container-image=registry/torch:2"
    mounts = words[2].removeprefix("--container-mounts=").split(",")
    assert mounts[:2] == [f"{ROOT}:{ROOT}:ro", "/home/me/runs"]


def test_without_pyxis_a_container_is_refused_in_words(batch: Batch) -> None:
    code, said = batch.result(CONTAINER_IMAGE="registry/torch:2")
    assert code == codes.REFUSED
    assert "Pyxis is missing" in said
