"""What a pod sees of a broken machine: the kernel's log through `dmesg`, and GPUs that are gone."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from localcloud.facts import Facts
from localcloud.kubernetes.gpu_faults import GPU_FAULTS, GpuFault
from localcloud.slurm import machine
from localcloud.slurm.kubelet import gpus_of

HEALTH = Path(__file__).parents[3] / "components" / "slurm" / "health"
GONE = GpuFault(79, 3)


def node(annotation: str = "") -> dict[str, Any]:
    return {
        "metadata": {
            "labels": {"node.kubernetes.io/instance-type": "h100-80gb-sxm-ib.8x"},
            "annotations": {GPU_FAULTS: annotation} if annotation else {},
        },
        "status": {"capacity": {"nvidia.com/gpu": "8"}},
    }


def test_dmesg_says_what_the_driver_wrote_and_nothing_of_this_machine(tmp_path: Path) -> None:
    program = tmp_path / "node" / "dmesg"
    machine.write_dmesg(program, [])
    assert subprocess.run([str(program)], capture_output=True, text=True, check=True).stdout == ""
    before = program.stat().st_ino
    machine.write_dmesg(program, [GONE])
    said = subprocess.run([str(program)], capture_output=True, text=True, check=True).stdout
    assert "NVRM: Xid (PCI:0000:04:00): 79, " in said
    assert program.stat().st_ino == before, "running pods have this very file"


@pytest.mark.parametrize(
    ("faults", "found"), [([], ""), ([GONE], "79"), ([GpuFault(48, 0)], "48"), ([GpuFault(13, 0)], "")]
)
def test_the_platform_s_health_check_reads_it(tmp_path: Path, faults: list[GpuFault], found: str) -> None:
    machine.write_dmesg(tmp_path / "dmesg", faults)
    environ = {**os.environ, "HEALTH_PATH": f"{tmp_path}:{os.environ['PATH']}"}
    command = ["bash", str(HEALTH / "check-xid.sh")]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=False)
    assert (done.stdout.strip(), done.returncode) == (found, 1 if found else 0)


def test_a_gpu_that_fell_off_the_bus_has_no_model_and_the_others_keep_their_numbers() -> None:
    types = Facts().vm_types
    assert all(gpus_of(node(), types))
    models = gpus_of(node("[[79, 3], [48, 5]]"), types)
    assert [number for number, model in enumerate(models) if not model] == [3]
    assert len(models) == 8


def test_gpus_are_taken_away_by_number_and_place_on_the_bus() -> None:
    assert machine.places({3, 0}) == ["0=0000:01:00.0", "3=0000:04:00.0"]
