"""What looks on inside of a pod: each line has its moment, nothing says nothing, and it ends with who asked."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import pytest

from drill.job import Job
from drill.reading import slurm_line
from drill.site import Site

ANSWERS = {
    "scontrol": r"""case "$*" in *job*) echo 'JobId=7 JobState=RUNNING Restarts=1 Comment=100%s\n';;
        *) printf 'NodeName=train-0 State=IDLE\nNodeName=train-1 State=MIXED\n';; esac""",
    "squeue": '[ ! -e "$OTHERS" ] || echo "filler      12          RUNNING     0     "',
}


@pytest.mark.parametrize("others", [False, True])
def test_a_look_tells_what_slurm_says_and_ends_with_its_input(tmp_path: Path, *, others: bool) -> None:
    for name, text in ANSWERS.items():
        program = tmp_path / name
        program.write_text(f"#!/bin/bash\n{text}\n")
        program.chmod(0o755)
    if others:
        (tmp_path / "others").touch()
    script = Job(Site("kubectl", tmp_path / "kubeconfig", "ada", "login-0")).look("7")[-1]
    environ = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "OTHERS": str(tmp_path / "others")}
    began = time.time()
    done = subprocess.run(
        ["bash", "-c", script], stdin=subprocess.DEVNULL, capture_output=True, text=True, env=environ, timeout=60
    )
    assert (done.returncode, done.stderr) == (0, "")
    seen = [slurm_line(line) for line in done.stdout.splitlines()]
    kinds = [each.kind for each in seen if each is not None]
    assert kinds == ["job", "node", "node", *(["filler"] if others else [])]
    assert all(each is not None and began <= each.at <= time.time() for each in seen)
