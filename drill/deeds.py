"""What makes things fail, and what takes it back.

Each deed writes down how it is taken back before it is done (`Room.undo_later`), so that a drill that was killed leaves
nothing that the next one does not find and remove.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from drill.job import BYSTANDER, FILLER
from drill.observations import Observation
from drill.room import Room, Undo
from drill.scenarios import (
    Action,
    BadReplacement,
    Beside,
    Cancel,
    Capacity,
    Deed,
    Detection,
    Fillers,
    GpuFault,
    KillDaemons,
    Link,
    Maintenance,
    OptOut,
    Power,
    SignalRank,
    Storage,
    Tear,
    TimeLimit,
    Whose,
)
from drill.site import NAMESPACE, Site, SiteError

if TYPE_CHECKING:
    from crusoe.client import Client

POWER = "local.crusoe.ai/power"
OPT_OUT = "local.crusoe.ai/no-replacement"
_CAPACITY = ("set", "capacity", "--type=h100-80gb-sxm-ib.8x", "--location=us-east1-a")
_DETECTION = ("set", "autoclusters")
_SECONDS = 30.0
FULL_BYTES = 16384
"""What a file may have at most where the storage counts as full: more than a rank's records, less than its share of a
checkpoint."""

DETECT_SECONDS = 2.0
"""What the local cloud's AutoClusters takes at first to see a fault."""


@dataclass(frozen=True)
class LocalCloud:
    """The local cloud's own commands."""

    state: Path

    def run(self, *arguments: str) -> str:
        """What one of them says. Raises SiteError."""
        command = [sys.executable, "-m", "localcloud", *arguments, f"--state={self.state}"]
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=_SECONDS, check=False
        )
        if done.returncode:
            raise SiteError(f"`localcloud {arguments[0]}` failed: {done.stderr.strip().removeprefix('error: ')}")
        return done.stdout


@dataclass(frozen=True)
class Target:
    """Where a job runs: its number, its run folder, and its nodes in Slurm with the machine of each."""

    job: str
    folder: str
    batch: str
    machines: dict[str, str]

    def worker(self, whose: Whose) -> str:
        """The name of a node of the job in Slurm."""
        if whose == "batch":
            return self.batch
        return next((name for name in sorted(self.machines, reverse=True) if name != self.batch), self.batch)


@dataclass(frozen=True)
class Rank:
    """A process of a job on a node: its numbers there and in all, its pid, and the GPU that it has."""

    local: int
    rank: int
    pid: int
    gpu: int

    @classmethod
    def read(cls, line: str) -> Rank:
        """Read `LOCAL_RANK RANK PID CUDA_VISIBLE_DEVICES`; without GPUs its number stands for one."""
        local, rank, pid, *gpus = line.split()
        devices = [int(word) for word in gpus[0].split(",")] if gpus else []
        number = int(local)
        return cls(number, int(rank), int(pid), devices[number] if number < len(devices) else number)


@dataclass
class Hands:
    """Does deeds on a stack. `local` and `client` are None where there is no such thing."""

    site: Site
    room: Room
    see: Callable[[Observation], None]
    say: Callable[[str], None]
    cluster_id: str
    local: LocalCloud | None
    client: Client | None

    def do(self, deed: Deed, target: Target | None) -> None:
        """Do it. Raises SiteError."""
        match deed:
            case Capacity():
                self.room.undo_later(Undo("localcloud", [*_CAPACITY, "--quantity=100"]))
                self.spares(deed.spares)
            case Action():
                self._set_action(deed)
            case OptOut():
                self._opt_out()
            case Fillers():
                self._fill(deed)
            case Detection():
                self.room.undo_later(Undo("localcloud", [*_DETECTION, f"--detect-seconds={DETECT_SECONDS:g}"]))
                self._local().run(*_DETECTION, f"--detect-seconds={deed.seconds:g}")
            case KillDaemons():
                self._kill_daemons()
            case _:
                if target is None:
                    raise SiteError("There is no job yet that could be disturbed.")
                self._disturb(deed, target)

    def spares(self, count: int) -> None:
        """Have so many spare machines of the type that trains."""
        self._local().run(*_CAPACITY, f"--quantity={count}")

    def replace(self, node: str) -> None:
        """Have AutoClusters replace a machine, if it is still there. Raises SiteError or CrusoeError."""
        if self.client is None:
            return
        for vm in self.client.list("compute/vms/instances"):
            if vm.get("name") == node:
                path = f"kubernetes/clusters/{self.cluster_id}/autoclusters/vms/{vm['id']}/remediate"
                self.client.post(path)

    def _disturb(
        self,
        deed: GpuFault
        | Power
        | Link
        | SignalRank
        | Tear
        | Beside
        | Cancel
        | Maintenance
        | BadReplacement
        | Storage
        | TimeLimit,
        target: Target,
    ) -> None:
        match deed:
            case GpuFault():
                self._break_gpu(deed, target)
            case Power():
                self._power(deed, target)
            case Link():
                self._link(deed, target)
            case SignalRank():
                self._signal(deed, target)
            case Beside():
                self._beside(target)
            case Cancel():
                self.site.person(f"scancel {target.job}")
            case Maintenance():
                self._cordon(target)
            case BadReplacement():
                self._break_replacement(deed, target)
            case Storage():
                self._storage(deed, target)
            case TimeLimit():
                self._time_limit(deed, target)
            case Tear():
                self.site.person(
                    f"cd {target.folder}/checkpoints && newest=$(ls -d step-* | sort -V | tail -n 1) && "
                    'file=$(ls -S "$newest"/*.distcp | head -n 1) && truncate -s $(($(stat -c %s "$file") / 2)) "$file"'
                )

    def _fault(self, worker: str, target: Target, what: str) -> None:
        values = {"node": target.machines[worker], "worker": worker, "fault": what}
        self.see(Observation(time.time(), "drill", "fault", values))

    def _break_gpu(self, deed: GpuFault, target: Target) -> None:
        """Break the GPU of the last rank on a node, and have the rank meet that: a made-up GPU gives no CUDA error."""
        worker = target.worker(deed.whose)
        rank = self._last_rank(worker, target)
        if self.local is not None:
            # Where the drilled repair does not replace it, the broken machine must not stay.
            self.room.undo_later(Undo("replace", [target.machines[worker]]))
        self._fault(worker, target, f"XID {deed.xid} on GPU {rank.gpu}")
        if self.local is None:
            self._ask_a_person(target.machines[worker], worker, deed.xid, rank.gpu)
            return
        self.local.run("gpu-fault", f"--node={target.machines[worker]}", f"--xid={deed.xid}", f"--gpu={rank.gpu}")
        if deed.rank == "crashes":
            self.site.worker(worker, f"kill -ABRT {rank.pid}")
        elif deed.rank == "blocks":
            self._hold(worker, rank.pid)

    def _break_replacement(self, deed: BadReplacement, target: Target) -> None:
        worker = target.worker("other")
        node = self.site.run("-n", NAMESPACE, "get", "pod", worker, "-o", "jsonpath={.spec.nodeName}").strip()
        self.room.undo_later(Undo("replace", [node]))
        self._fault(worker, replace(target, machines={**target.machines, worker: node}), f"XID {deed.xid} on GPU 0")
        self._local().run("gpu-fault", f"--node={node}", f"--xid={deed.xid}", "--gpu=0")

    def _storage(self, deed: Storage, target: Target) -> None:
        worker = target.worker(deed.whose)
        rank = self._last_rank(worker, target)
        if deed.full:
            self._fault(worker, target, f"no space for rank {rank.rank}")
        # Only who has the process may bound it: not even root where it lacks CAP_SYS_RESOURCE.
        self.site.worker(
            worker,
            f"of=/proc/{rank.pid}; setpriv --reuid=$(stat -c %u $of) --regid=$(stat -c %g $of) --clear-groups "
            f"prlimit --pid={rank.pid} --fsize={FULL_BYTES if deed.full else 'unlimited'}:",
        )

    def _time_limit(self, deed: TimeLimit, target: Target) -> None:
        if deed.near:
            self._fault(target.worker("other"), target, f"time limit of {deed.minutes} min")
        self.site.slurm("scontrol", "update", f"JobId={target.job}", f"TimeLimit={deed.minutes}")

    def _ask_a_person(self, node: str, worker: str, xid: int, gpu: int) -> None:
        self.say(
            f"Now break GPU {gpu} of node {node} (worker {worker}); this drill breaks nothing by itself. Either write "
            f"an XID error, as root there: `dcgmi test --inject --gpuid {gpu} -f 230 -v {xid}`. Or have AutoClusters "
            f"replace the machine: POST kubernetes/clusters/{self.cluster_id}/autoclusters/vms/<id>/remediate, where "
            "<id> is the node's label crusoe.ai/instance.id. Everything that follows is watched."
        )

    def _last_rank(self, worker: str, target: Target) -> Rank:
        script = (
            "for each in /proc/[0-9]*; do env=$(tr '\\0' '\\n' < $each/environ 2> /dev/null) || continue; "
            f"case $env in *SLURM_JOB_ID={target.job}[!0-9]*) ;; *) continue;; esac; "
            'value() { echo "$env" | sed -n "s/^$1=//p"; }; [ -n "$(value RANK)" ] || continue; '
            "echo $(value LOCAL_RANK) $(value RANK) ${each#/proc/} $(value CUDA_VISIBLE_DEVICES); done; true"
        )
        found = [Rank.read(line) for line in self.site.worker(worker, script).splitlines()]
        if not found:
            raise SiteError(f"No rank of job {target.job} runs on {worker}.")
        # A rank's helpers have its environment; it came first.
        local = max(each.local for each in found)
        return min((each for each in found if each.local == local), key=lambda each: each.pid)

    def _hold(self, worker: str, pid: int) -> None:
        program = Path(__file__).with_name("block.py").read_text(encoding="utf-8")
        holder = subprocess.Popen(
            self.site.inside(worker, "slurmd", "python3", "-", str(pid)),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        if holder.stdin is None or holder.stdout is None:
            raise SiteError("The program that holds a rank did not start.")
        with holder.stdin as given:
            given.write(program)
        if holder.stdout.readline().strip() != "held":
            raise SiteError(f"Process {pid} on {worker} could not be held.")

    def _power(self, deed: Power, target: Target) -> None:
        worker = target.worker(deed.whose)
        node = target.machines[worker]
        if deed.on:
            self.site.run("annotate", "node", node, f"{POWER}-")
            return
        self.room.undo_later(Undo("kubectl", ["annotate", "node", node, f"{POWER}-"]))
        self._fault(worker, target, "power off")
        self.site.run("annotate", "node", node, f"{POWER}=off", "--overwrite")

    def _link(self, deed: Link, target: Target) -> None:
        worker = target.worker(deed.whose)
        state = "up" if deed.up else "down"
        if not deed.up:
            up = ["-n", NAMESPACE, "exec", worker, "-c", "slurmd", "--", "ip", "link", "set", "eth0", "up"]
            self.room.undo_later(Undo("kubectl", up))
            self._fault(worker, target, "link down")
        self.site.worker(worker, f"ip link set eth0 {state}")

    def _signal(self, deed: SignalRank, target: Target) -> None:
        worker = target.worker("other")
        rank = self._last_rank(worker, target)
        self._fault(worker, target, f"SIG{deed.signal} to rank {rank.rank}")
        self.site.worker(worker, f"kill -{deed.signal} {rank.pid}")

    def _beside(self, target: Target) -> None:
        self.room.undo_later(Undo("scancel", [f"--name={BYSTANDER}"]))
        options = f"--job-name={BYSTANDER} --nodelist={target.batch} --gpus=1 --time=10 --output=/dev/null"
        self.site.person(f"sbatch --parsable {options} --wrap='sleep 600'")

    def _cordon(self, target: Target) -> None:
        worker = target.worker("other")
        node = target.machines[worker]
        self.room.undo_later(Undo("kubectl", ["uncordon", node]))
        self._fault(worker, target, "cordoned for maintenance")
        self.site.run("cordon", node)

    def _kill_daemons(self) -> None:
        names = ("app.kubernetes.io/name in (slurmctld,slurmrestd)", "--grace-period=0", "--force", "--wait=false")
        self.site.run("-n", NAMESPACE, "delete", "pods", "-l", *names)

    def _set_action(self, deed: Action) -> None:
        if self.client is None:
            raise SiteError("There is no API to set an action of AutoClusters with.")
        path = f"kubernetes/clusters/{self.cluster_id}/autoclusters/config"
        rows: list[dict[str, Any]] = json.loads(json.dumps(self.client.get(path)))["remediation_configs"]
        before = next((row.get("user_override") for row in rows if row["issue_name"] == deed.issue), None)
        back: dict[str, object] = (
            {"set_remediation_overrides": [{"issue_name": deed.issue, "action": before}]}
            if before
            else {"remove_remediation_overrides": [deed.issue]}
        )
        self.room.undo_later(Undo("api", [path, json.dumps(back)]))
        self.client.patch(path, {"set_remediation_overrides": [{"issue_name": deed.issue, "action": deed.action}]})

    def _opt_out(self) -> None:
        # Both workers of the job, so that it does not matter which of them fails.
        for pod in self.site.items("pods", "-n", NAMESPACE, "-l", "app.kubernetes.io/name=slurmd"):
            name = pod["metadata"]["name"]
            self.room.undo_later(Undo("kubectl", ["-n", NAMESPACE, "label", "pod", name, f"{OPT_OUT}-"]))
            self.site.run("-n", NAMESPACE, "label", "pod", name, f"{OPT_OUT}=true", "--overwrite")

    def _fill(self, deed: Fillers) -> None:
        self.room.undo_later(Undo("scancel", [f"--name={FILLER}"]))
        self.site.person(
            f"for each in $(seq {deed.jobs}); do sbatch --parsable --job-name={FILLER} --exclusive --nodes=1 --time=5 "
            "--output=/dev/null --wrap='sleep 20'; done"
        )

    def _local(self) -> LocalCloud:
        if self.local is None:
            raise SiteError("Only the local cloud can do that; on real machines do it by hand.")
        return self.local
