"""The health checks, run by a real bash with stand-ins of the tools that they ask."""

from __future__ import annotations

import shutil
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[4] / "components" / "slurm" / "health"
CHECKS = sorted(each.stem for each in FOLDER.glob("check-*.sh"))
TOOLS = ("bash", "awk", "sed", "grep", "tail", "find", "wc", "cat", "basename", "dirname", "df", "rm", "ls", "tr")
PLACES = ("sys", "dev", "spool", "mounts", "declared")
MORE = ("timeout", "sleep", "hostname")
RECORD = "NodeName=train-0 Arch=x86_64 Gres=gpu:h100:8(S:0-1) State=IDLE ThreadsPerCore=1"
DRAINED = "NodeName=train-0 Gres=gpu:h100:8(S:0-1) State=IDLE+DRAIN Reason={} [root@2026-11-29T23:00:00] Comment=x"
GPUS = "for i in $(seq {}); do echo GPU-$i; done"


@dataclass
class Machine:
    """A machine with the tools that a test gives it, and no others."""

    root: Path

    def tool(self, name: str, script: str) -> None:
        path = self.root / "bin" / name
        path.write_text(f"#!/bin/bash\n{script}\n")
        path.chmod(0o755)

    def node(self, record: str) -> None:
        """What scontrol says of the node; what it is told is written down."""
        self.tool("scontrol", f'if [ "$2" = show ]; then echo "{record}"; else echo "$*" >> {self.root}/told; fi')

    @property
    def told(self) -> str:
        path = self.root / "told"
        return path.read_text() if path.exists() else ""

    def run(self, script: str, **env: str) -> tuple[int, str]:
        done = subprocess.run(
            ["/bin/bash", str(FOLDER / f"{script}.sh")],
            env={
                **{"HEALTH_PATH": str(self.root / "bin"), "HEALTH_FOLDER": str(FOLDER), "SLURMD_NODENAME": "train-0"},
                **{f"HEALTH_{name.upper()}": str(self.root / name) for name in PLACES},
                "HEALTH_RETRY_SECONDS": "0.1",
                **env,
            },
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        return done.returncode, done.stdout.strip()


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    for name in ("bin", "sys", "dev", "spool"):
        (tmp_path / name).mkdir()
    (tmp_path / "mounts").touch()
    for name in (*TOOLS, *MORE, "seq"):
        found = shutil.which(name)
        assert found, name
        (tmp_path / "bin" / name).symlink_to(found)
    one = Machine(tmp_path)
    one.node(RECORD)
    one.tool("nvidia-smi", GPUS.format(8))
    return one


@pytest.mark.parametrize("check", CHECKS)
def test_what_nobody_can_see_is_no_fault(machine: Machine, check: str) -> None:
    # No tool of the GPUs, no adapters, no slurmctld.
    for name in ("nvidia-smi", "scontrol"):
        (machine.root / "bin" / name).unlink()
    assert machine.run(check) == (0, "")


@pytest.mark.parametrize(("found", "answer"), [(8, (0, "")), (7, (1, "7 of 8")), (0, (1, "0 of 8"))])
def test_gpus_are_counted_against_what_slurm_was_told(machine: Machine, found: int, answer: tuple[int, str]) -> None:
    machine.tool("nvidia-smi", GPUS.format(found))
    assert machine.run("check-gpu-count") == answer


def test_gpus_without_a_tool_are_the_drivers_devices(machine: Machine) -> None:
    (machine.root / "bin" / "nvidia-smi").unlink()
    for number in range(7):
        (machine.root / "dev" / f"nvidia{number}").touch()
    (machine.root / "dev" / "nvidiactl").touch()
    assert machine.run("check-gpu-count") == (1, "7 of 8")


@pytest.mark.parametrize("gres", ["(null)", "tmpfs:4"])
def test_a_node_without_gpus_has_none_to_lose(machine: Machine, gres: str) -> None:
    machine.node(RECORD.replace("gpu:h100:8(S:0-1)", gres))
    machine.tool("nvidia-smi", "exit 9")
    assert machine.run("check-gpu-count") == (0, "")


@pytest.mark.parametrize(
    ("code", "fault"), [(79, True), (48, True), (74, True), (13, False), (31, False), (43, False), (94, False)]
)
def test_hardwares_xids_are_faults_and_applications_are_not(machine: Machine, code: int, fault: bool) -> None:
    machine.tool("dmesg", f"echo '[ 1.2] NVRM: Xid (PCI:0000:4d:00): {code}, pid=1, name=python, text'")
    assert machine.run("check-xid") == ((1, str(code)) if fault else (0, ""))


@pytest.mark.parametrize(
    ("row", "answer"),
    [
        ("0, 0, No, No", ""),
        ("0, [N/A], [N/A], [N/A]", ""),
        ("3, 2, 0, 0", "gpu 3: 2 uncorrectable errors"),
        ("3, 0, Yes, No", "gpu 3: row remapping failed"),
        ("3, 0, 0, 1", "gpu 3: row remapping is pending, reset the gpu"),
    ],
)
def test_memory(machine: Machine, row: str, answer: str) -> None:
    machine.tool("nvidia-smi", f"echo '{row}'")
    assert machine.run("check-ecc") == (1 if answer else 0, answer)


@pytest.mark.parametrize(
    ("links", "answer"),
    [
        (["26.562 GB/s", "26.562 GB/s"], ""),
        (["<inactive>", "<inactive>"], ""),
        (["26.562 GB/s", "<inactive>"], "1 links down"),
    ],
)
def test_nvlink(machine: Machine, links: list[str], answer: str) -> None:
    lines = "\n".join(f"Link {number}: {state}" for number, state in enumerate(links))
    machine.tool("nvidia-smi", f"cat <<'EOF'\nGPU 0: NVIDIA H100\n{lines}\nEOF")
    assert machine.run("check-nvlink") == (1 if answer else 0, answer)


@pytest.mark.parametrize(
    ("layer", "state", "answer"),
    [
        ("InfiniBand", "4: ACTIVE", ""),
        ("InfiniBand", "1: DOWN", "mlx5_1 is DOWN"),
        ("InfiniBand", "2: INIT", "mlx5_1 is INIT"),
        ("Ethernet", "1: DOWN", ""),
    ],
)
def test_adapters(machine: Machine, layer: str, state: str, answer: str) -> None:
    port = machine.root / "sys/class/infiniband/mlx5_1/ports/1"
    port.mkdir(parents=True)
    (port / "link_layer").write_text(f"{layer}\n")
    (port / "state").write_text(f"{state}\n")
    assert machine.run("check-hca") == (1 if answer else 0, answer)


def test_a_shared_disk_that_does_not_answer(machine: Machine) -> None:
    here, gone = machine.root / "dev", machine.root / "gone"
    (machine.root / "mounts").write_text(f"a {here} nfs4 rw 0 0\nb /proc ext4 rw 0 0\n")
    assert machine.run("check-mounts") == (0, "")
    (machine.root / "mounts").write_text(f"a {here} nfs4 rw 0 0\nb {gone} virtiofs rw 0 0\n")
    assert machine.run("check-mounts") == (1, f"{gone} does not answer")


def test_a_spool_that_can_not_be_written_or_is_full(machine: Machine) -> None:
    assert machine.run("check-disk") == (0, "")
    assert list((machine.root / "spool").iterdir()) == []
    spool = machine.root / "file"
    spool.touch()
    assert machine.run("check-disk", HEALTH_SPOOL=str(spool)) == (1, f"{spool} can't be written")
    code, said = machine.run("check-disk", HEALTH_FREE_MIB=str(10**9))
    assert code == 1
    assert "MiB left" in said


@pytest.mark.parametrize(("offset", "answer"), [("0.000012", ""), ("-7.5", "7.5 s off"), ("61", "61.0 s off")])
def test_the_clock(machine: Machine, offset: str, answer: str) -> None:
    machine.tool("chronyc", f"echo 'C0A80101,192.168.1.1,2,1700000000.1,{offset},0.1,0.1,1,1,1,1,1,1,Normal'")
    assert machine.run("check-clock") == (1 if answer else 0, answer)


def test_a_healthy_machine_is_left_alone(machine: Machine) -> None:
    for script in ("health-check", "prolog-health", "epilog-health"):
        assert machine.run(script) == (0, "")
    assert machine.told == ""


@pytest.mark.parametrize("script", ["health-check", "prolog-health", "epilog-health"])
def test_a_lost_gpu_drains_with_owner_check_and_both_counts(machine: Machine, script: str) -> None:
    # The prolog goes by what the last health check has read.
    machine.run("health-check")
    machine.tool("nvidia-smi", GPUS.format(7))
    code, _ = machine.run(script)
    # The prolog refuses the job, so that Slurm starts it elsewhere; the others never fail.
    assert code == (1 if script == "prolog-health" else 0)
    assert machine.told == "update nodename=train-0 state=drain reason=health: gpu-count 7 of 8\n"


@pytest.mark.parametrize(
    ("reason", "overwritten"),
    [
        ("slurm-operator: XID 79", True),
        ("actor: 2 launch failures in 10 min, last job 8", True),
        ("bad fan, ada", False),
        ("health: ecc gpu 3", False),
        ("Kill task failed", False),
    ],
)
def test_what_a_person_said_stays(machine: Machine, reason: str, overwritten: bool) -> None:
    machine.node(DRAINED.format(reason))
    machine.tool("nvidia-smi", GPUS.format(7))
    machine.run("health-check")
    assert bool(machine.told) is overwritten


def test_a_check_that_hangs_is_a_fault_in_bounded_time(machine: Machine) -> None:
    machine.tool("nvidia-smi", "exec sleep 60")
    begun = time.monotonic()
    machine.run("health-check", HEALTH_CHECK_SECONDS="1")
    assert time.monotonic() - begun < 10
    assert machine.told == "update nodename=train-0 state=drain reason=health: gpu-count hangs\n"


def test_a_node_that_slurmctld_does_not_know_yet_is_drained_as_soon_as_it_does(machine: Machine) -> None:
    # The first `update` is refused.
    machine.tool(
        "scontrol",
        f'if [ "$2" = show ]; then echo "{RECORD}"; exit; fi; '
        f"if [ ! -e {machine.root}/asked ]; then : > {machine.root}/asked; exit 1; fi; "
        f'echo "$*" >> {machine.root}/told',
    )
    machine.tool("nvidia-smi", GPUS.format(7))
    machine.run("health-check")
    deadline = time.monotonic() + 10
    while not machine.told and time.monotonic() < deadline:
        time.sleep(0.05)
    assert "health: gpu-count 7 of 8" in machine.told


def test_the_prolog_sees_a_spool_on_which_no_job_can_start(machine: Machine) -> None:
    spool = machine.root / "file"
    spool.touch()
    code, _ = machine.run("prolog-health", HEALTH_SPOOL=str(spool))
    assert code == 1
    assert f"health: disk {spool} can't be written" in machine.told


def test_a_prolog_on_a_healthy_machine_never_asks_slurmctld(machine: Machine) -> None:
    machine.tool("scontrol", f"echo asked >> {machine.root}/told")
    assert machine.run("prolog-health") == (0, "")
    assert machine.told == ""


def test_prolog_and_epilog_without_the_checks_hold_nobody_up(machine: Machine) -> None:
    for script in ("prolog-health", "epilog-health"):
        assert machine.run(script, HEALTH_FOLDER=str(machine.root / "nowhere")) == (0, "")


def test_every_check_is_called() -> None:
    text = (FOLDER / "health-check.sh").read_text()
    assert [each for each in CHECKS if each not in text] == []
