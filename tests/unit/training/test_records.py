"""What a run writes down, its options, and SIGTERM while the trainer is blocked."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from training import codes, options, records
from training.records import Records


def test_steps_and_events_are_read_as_they_were_written(tmp_path: Path) -> None:
    environ = {"SLURM_RESTART_COUNT": "2", "TORCHELASTIC_RESTART_COUNT": "1", "SLURMD_NODENAME": "gpu-1"}
    clock = iter([3.0, 1.0, 2.0])
    first = Records(tmp_path, environ, rank=0, clock=lambda: next(clock))
    first.step(7, 0.1)
    first.event("started", pid=5)
    Records(tmp_path, environ, rank=3, writer="rank3", clock=lambda: 0.5).event("started", pid=6)
    about = {"attempt": 2, "round": 1}
    assert records.steps(tmp_path) == [{"step": 7, "loss": (0.1).hex(), "time": 3.0, **about}]
    assert records.events(tmp_path) == [
        {"event": "started", "time": 0.5, **about, "rank": 3, "node": "gpu-1", "pid": 6},
        {"event": "started", "time": 1.0, **about, "rank": 0, "node": "gpu-1", "pid": 5},
    ]


def test_a_line_that_was_cut_off_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "steps.jsonl").write_text('{"step": 1}\n{"step": 2, "lo')
    assert records.steps(tmp_path) == [{"step": 1}]
    assert records.steps(tmp_path / "missing") == []


def test_options_come_from_arguments_then_from_the_environment() -> None:
    environ = {"TRAINING_STEPS": "50", "TRAINING_STEP_SECONDS": "0.5", "TRAINING_STRATEGY": "fsdp2"}
    found = options.read(["--run", "/x", "--steps", "60"], environ)
    assert (found.steps, found.step_seconds, found.strategy, found.interval) == (60, 0.5, "fsdp2", 20)
    assert options.read([], {"TRAINING_RUN": "/y"}).run == Path("/y")


def test_a_member_of_an_array_has_a_folder_of_its_own() -> None:
    assert options.read(["--run", "/x"], {"SLURM_ARRAY_TASK_ID": "3"}).run == Path("/x/3")


@pytest.mark.parametrize(
    ("arguments", "environ", "said"),
    [
        ([], {}, "--run is missing"),
        (["--run", "/x", "--steps", "0"], {}, "0 is not above zero"),
        (["--run", "/x"], {"TRAINING_STEPS": "many"}, "argument --steps: invalid"),
        (["--run", "/x", "--width", "30"], {}, "--width 30 is no multiple of 4"),
        (["--run", "/x"], {"TRAINING_STRATEGY": "zero3"}, "invalid choice: 'zero3'"),
    ],
)
def test_bad_options_are_named(
    arguments: list[str], environ: dict[str, str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        options.read(arguments, environ)
    assert ended.value.code == codes.REFUSED
    assert said in capsys.readouterr().err


BLOCKED = """
import os, sys, time
from training.signals import Termination
termination = Termination(float(sys.argv[1]), 66)
termination.noticed = lambda: os.write(1, b"noticed\\n")
termination.stuck = lambda: os.write(1, b"stuck\\n")
termination.watch()
print("ready", flush=True)
if sys.argv[2] == "blocked":
    import ctypes
    # A call of C that no signal ends, as a collective that waits for a dead rank.
    while True:
        ctypes.CDLL(None).sleep(60)
elif sys.argv[2] == "saves":
    with termination.saving():
        time.sleep(1.5)
    termination.answered()
    os._exit(7)
else:
    while not termination.asked:
        time.sleep(0.01)
    termination.answered()
    time.sleep(0.5)
    os._exit(7)
"""


@pytest.mark.parametrize(
    ("mode", "code", "said"),
    [("blocked", 66, "noticed\nstuck\n"), ("answers", 7, "noticed\n"), ("saves", 7, "noticed\n")],
)
def test_sigterm_is_answered_in_time_or_the_process_ends(mode: str, code: int, said: str) -> None:
    process = subprocess.Popen([sys.executable, "-c", BLOCKED, "0.3", mode], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGTERM)
    process.send_signal(signal.SIGTERM)
    assert process.wait(20) == code
    assert process.stdout.read() == said
    process.stdout.close()
