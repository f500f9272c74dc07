"""What a worker's preStop says to a Slurm that answers, refuses, starts anew or is gone."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from components.slurm.scripts import pre_stop

# Each command answers from files: `silent` holds the first and the last call that nobody answers, `jobs` what squeue
# lists, and `refused` what slurmctld does not do.
_COMMAND = """\
#!/bin/bash
cd "$(dirname "$0")/.."
name=$(basename "$0")
call=$(($(cat calls) + 1))
echo $call > calls
read -r first last < silent
[ $call -ge $first ] && [ $call -le $last ] && exit 1
[ "$1" = ping ] && exit 0
echo "$name $*" >> said
grep -qxF "$1 $2" refused && exit 1
if [ "$name" = squeue ]; then cat jobs; fi
if [ "$1" = requeue ] || [ "$name" = scancel ]; then sed -i "/^${!#}$/d" jobs; fi
exit 0
"""


@dataclass
class Slurm:
    """A folder with the commands, and what they were asked."""

    folder: Path

    def run(self, *, drain_budget: int = 30) -> list[str]:
        """Everything that was asked, but for looks at the queue."""
        done = subprocess.run(
            ["bash", "-c", pre_stop(drain_budget=drain_budget, kill_wait=1)],
            env={"PATH": f"{self.folder / 'bin'}:{os.environ['PATH']}"},
            timeout=60,
            check=False,
        )
        assert done.returncode == 0
        said = (self.folder / "said").read_text().splitlines()
        return [line for line in said if not line.startswith("squeue")]

    def has(self, **files: str) -> Slurm:
        for name, text in files.items():
            (self.folder / name).write_text(text)
        return self


@pytest.fixture
def slurm(tmp_path: Path) -> Slurm:
    scripts: Mapping[str, str] = {
        **dict.fromkeys(("scontrol", "squeue", "scancel"), _COMMAND),
        "hostname": "#!/bin/sh\necho train-0\n",
        "sleep": "#!/bin/sh\nexit 0\n",
    }
    (tmp_path / "bin").mkdir()
    for name, text in scripts.items():
        (tmp_path / "bin" / name).write_text(text)
        (tmp_path / "bin" / name).chmod(0o755)
    return Slurm(tmp_path).has(silent="0 0", calls="0", jobs="", refused="", said="")


DRAIN = "scontrol update nodename=train-0 state=drain reason=slurm-operator: the pod is ending"


def test_the_node_is_drained_and_each_job_goes_back_into_the_queue(slurm: Slurm) -> None:
    assert slurm.has(jobs="7\n9_4\n").run() == [DRAIN, "scontrol requeue 7", "scontrol requeue 9_4"]


@pytest.mark.parametrize("first", [1, 2, 3, 4])
@pytest.mark.parametrize("calls", [1, 2, 5])
def test_a_slurmctld_that_starts_anew_loses_no_job(slurm: Slurm, first: int, calls: int) -> None:
    """Whenever it is away, the same is done in the end, and no job is told to end."""
    said = slurm.has(jobs="7\n", silent=f"{first} {first + calls - 1}").run()
    assert said == [DRAIN, "scontrol requeue 7"]


def test_a_job_that_may_not_be_requeued_is_told_to_save(slurm: Slurm) -> None:
    said = slurm.has(jobs="7\n8\n", refused="requeue 7\n").run()
    assert said == [
        DRAIN,
        *["scontrol requeue 7"] * 2,
        "scancel --full --signal=TERM 7",
        "scontrol requeue 8",
    ]


def test_a_node_that_slurm_does_not_know_ends_at_once(slurm: Slurm) -> None:
    assert slurm.has(refused="update nodename=train-0\n").run() == [DRAIN] * 2


def test_a_slurmctld_that_is_gone_is_not_waited_for_longer_than_the_budget(slurm: Slurm) -> None:
    assert slurm.has(silent="1 1000000").run(drain_budget=1) == []
