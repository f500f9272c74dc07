"""The actor on a real API server and a real Slurm: what its rules mean there."""

from __future__ import annotations

import base64
import http.client
import json
import ssl
import time
from collections.abc import Generator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from actor import notes
from actor.__main__ import Actor
from actor.kubernetes import Kubernetes
from actor.notices import STATES
from actor.notify import Notifier
from actor.settings import Settings
from actor.slurm import Slurm
from tests.integration.localcloud_kubernetes.support import until
from tests.integration.localcloud_slurm.site import Site, worker
from tests.unit.actor.receiver import SECRET, Receiver
from tests.unit.localcloud_kubernetes.support import h100

HOSTS = {"gpu-0": h100(1).name, "gpu-1": h100(2).name, "gpu-2": h100(3).name}
HEALTH = Path(__file__).parents[3] / "components" / "slurm" / "health"
MARK = "crusoe.ai/remediation"
CRED_EXPIRE = 10


@dataclass
class Stage:
    """A site with an actor that looks when the test says so."""

    site: Site
    actor: Actor
    jobs: list[str] = field(default_factory=list[str])

    def submit(self, *arguments: str, script: str = "sleep 600") -> str:
        """The id of a new batch job."""
        told = self.site.slurm("sbatch", "--parsable", "-o", "/tmp/out", *arguments, "--wrap", script)
        self.jobs.append(told.strip())
        return told.strip()

    def look(self, times: int = 1) -> None:
        for _ in range(times):
            assert self.actor.look(), "it leads, and both APIs answer"

    def job(self, name: str) -> dict[str, str]:
        """What `scontrol show job` says."""
        text = self.site.slurm("scontrol", "--oneliner", "show", "job", name)
        return dict(word.split("=", 1) for word in text.split() if "=" in word)

    def until_job(self, name: str, state: str, seconds: float = 60) -> None:
        until(lambda: self.job(name)["JobState"] == state, seconds)

    def node(self, name: str) -> tuple[set[str], str]:
        """States and reason of a node."""
        found = self.actor.slurm.nodes()[name]
        return set(found.states), found.reason

    def fail(self, name: str, value: str = "XID_79") -> None:
        """Mark a worker's machine as AutoClusters would."""
        self.site.live.kubectl("annotate", "node", HOSTS[name], f"{MARK}={value}", "--overwrite")

    def events(self, name: str) -> list[str]:
        found = self.site.live.get("events", "-n", "default", "--field-selector", f"involvedObject.name={HOSTS[name]}")
        return [each["reason"] for each in found["items"] if each["source"].get("component") == "slurm-actor"]

    def heal(self) -> None:
        """Everything as before the test."""
        self.site.slurm("scancel", "--user=root")
        self.site.live.kubectl("delete", "lease", "slurm-actor", "-n", "slurm", "--ignore-not-found")
        for each in self.actor.slurm.reservations():
            self.actor.slurm.unreserve(each)
        for name, host in HOSTS.items():
            self.site.live.kubectl("uncordon", host)
            notes = ("nodeset.slinky.slurm.net/node-cordon-reason", "actor.gpuplatform/handled", MARK)
            self.site.live.kubectl("annotate", "node", host, *(f"{each}-" for each in notes))
            if "DRAIN" in self.node(name)[0]:
                self.actor.slurm.update_node(name, state=["UNDRAIN"])
        until(lambda: self.site.slurm("sinfo", "-h", "-t", "idle", "-o", "%D").strip() == "3", 60)


@pytest.fixture(scope="module")
def third(site: Site) -> Generator[Site]:
    """The site with a third worker; each machine has its id, as the cloud labels it."""
    for name, host in HOSTS.items():
        site.live.kubectl("label", "node", host, f"crusoe.ai/instance.id=vm-{name}", "--overwrite")
    site.create(worker("gpu-2", HOSTS["gpu-2"]))
    site.await_ready("slurm-controller-0", "slurm-restapi-0", *HOSTS)
    yield site
    site.live.kubectl("delete", "pod", "gpu-2", "-n", "slurm")
    site.slurm("scontrol", "delete", "nodename=gpu-2")


def actor_of(site: Site) -> Actor:
    token = site.slurm("scontrol", "token", "username=slurm", "lifespan=3600").strip().partition("=")[2]
    account = site.live.kubectl("create", "token", "default", "-n", "slurm", "--duration=1h").strip()
    server = site.live.kubectl("config", "view", "--raw", "-o", "jsonpath={.clusters[0].cluster.server}")

    def api() -> http.client.HTTPConnection:
        parts, trust = urlsplit(server), ssl.create_default_context()
        trust.check_hostname, trust.verify_mode = False, ssl.CERT_NONE
        return http.client.HTTPSConnection(parts.hostname or "", parts.port, timeout=10, context=trust)

    class Inside(http.client.HTTPConnection):
        def connect(self) -> None:
            address = site.pod("slurm-restapi-0")["status"]["podIP"]
            self.sock = site.kubelets.connect(site.live.cluster.id, address, 6820)
            self.sock.settimeout(20)

    settings = Settings(conditions=("ReadonlyFilesystem",), cred_expire=CRED_EXPIRE)
    return Actor(
        Kubernetes(api, lambda: account, "slurm"), Slurm(lambda: Inside("slurm"), lambda: token), settings, me="test"
    )


@pytest.fixture(scope="module")
def rights(site: Site) -> None:
    """The rights that the platform gives to the actor's service account, and no others."""
    nodes = [{"apiGroups": [""], "resources": ["nodes"], "verbs": ["get", "list", "watch", "patch"]}]
    own = [
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch"]},
        {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["get", "create", "update"]},
        {"apiGroups": [""], "resources": ["configmaps", "events"], "verbs": ["create"]},
        {
            "apiGroups": [""],
            "resources": ["configmaps"],
            "resourceNames": ["slurm-actor-notices"],
            "verbs": ["get", "update"],
        },
    ]
    events = [{"apiGroups": [""], "resources": ["events"], "verbs": ["create"]}]
    subject = [{"kind": "ServiceAccount", "name": "default", "namespace": "slurm"}]
    group = "rbac.authorization.k8s.io"
    for kind, namespace, rules in (("ClusterRole", None, nodes), ("Role", "slurm", own), ("Role", "default", events)):
        metadata = {"name": "slurm-actor", **({"namespace": namespace} if namespace else {})}
        site.create({"apiVersion": f"{group}/v1", "kind": kind, "metadata": metadata, "rules": rules})
        role = {"apiGroup": group, "kind": kind, "name": "slurm-actor"}
        binding = {"apiVersion": f"{group}/v1", "kind": f"{kind}Binding", "metadata": metadata}
        site.create({**binding, "roleRef": role, "subjects": subject})


@pytest.fixture
def stage(third: Site, rights: None) -> Generator[Stage]:  # noqa: ARG001 (has to be there)
    one = Stage(third, actor_of(third))
    one.heal()
    # The machines behind the names are known before anything fails.
    one.look()
    yield one
    one.heal()


def restarts(site: Site, pod: str) -> int:
    return site.pod(pod)["status"]["containerStatuses"][0]["restartCount"]


def test_one_member_of_an_array_moves_and_the_others_do_not(stage: Stage) -> None:
    array = stage.submit("--array=0-2", "-N1", "--gres=gpu:8")
    until(lambda: stage.site.slurm("squeue", "-h", "-t", "R", "-o", "%i").count(f"{array}_") == 3)
    where = {stage.job(f"{array}_{number}")["NodeList"]: number for number in range(3)}
    stage.fail("gpu-1")
    stage.look()
    moved = where["gpu-1"]
    stage.until_job(f"{array}_{moved}", "PENDING")
    assert {number: stage.job(f"{array}_{number}")["Restarts"] for number in range(3)} == {
        number: "1" if number == moved else "0" for number in range(3)
    }
    states, reason = stage.node("gpu-1")
    assert "DRAIN" in states
    assert "DOWN" not in states
    assert reason == "slurm-operator: crusoe.ai/remediation=XID_79"
    assert stage.site.live.get("node", HOSTS["gpu-1"])["spec"]["unschedulable"] is True
    assert stage.events("gpu-1") == ["NodeFault"]
    # The same event again, seen by this one and by another leader.
    stage.look(2)
    other = replace(stage.actor, me="other", clock=lambda: time.time() + 60)
    assert other.look()
    assert stage.job(f"{array}_{moved}")["Restarts"] == "1"
    assert stage.events("gpu-1") == ["NodeFault"]


def test_a_maintenance_cordon_moves_nothing(stage: Stage) -> None:
    job = stage.submit("-N3", "--gres=gpu:8")
    stage.until_job(job, "RUNNING")
    stage.site.live.kubectl("cordon", HOSTS["gpu-0"])
    stage.look(2)
    assert (stage.job(job)["JobState"], stage.job(job)["Restarts"]) == ("RUNNING", "0")
    assert "DRAIN" not in stage.node("gpu-0")[0]


def test_nothing_starts_on_a_failed_node_whatever_is_restarted(stage: Stage) -> None:
    # This site has ReturnToService=2: a node set down would be idle again at once.
    stage.fail("gpu-1")
    stage.look()
    waiting = stage.submit("-N1", "-w", "gpu-1", "--gres=gpu:8")
    stage.site.slurm("scontrol", "reconfigure")
    stage.site.run("slurm-controller-0", "slurmctld", "bash", "-c", "kill -TERM 1")
    time.sleep(2)
    stage.site.await_ready("slurm-controller-0")
    # A reboot: the machine loses its power, and its slurmd registers anew.
    process, lives = stage.site.process("gpu-1"), restarts(stage.site, "gpu-1")
    stage.site.live.kubectl("annotate", "node", HOSTS["gpu-1"], "local.crusoe.ai/power=off")
    until(lambda: not process.is_running())
    stage.site.live.kubectl("annotate", "node", HOSTS["gpu-1"], "local.crusoe.ai/power-")
    until(lambda: restarts(stage.site, "gpu-1") > lives, 60)
    stage.site.await_ready("gpu-1")
    until(stage.actor.look)
    until(lambda: "IDLE" in stage.node("gpu-1")[0], 60)
    # Long enough for a job to start, if anything let it.
    time.sleep(5)
    stage.look(2)
    states, reason = stage.node("gpu-1")
    assert {"IDLE", "DRAIN"} <= states
    assert reason.startswith("slurm-operator: ")
    assert stage.job(waiting)["JobState"] == "PENDING"


def test_a_drain_of_a_person_survives_the_fault_and_the_replacement(stage: Stage) -> None:
    stage.actor.slurm.update_node("gpu-1", state=["DRAIN"], reason="bad fan, ada")
    job = stage.submit("-N1", "-w", "gpu-0", "--gres=gpu:8")
    stage.until_job(job, "RUNNING")
    stage.fail("gpu-1")
    stage.look()
    assert stage.node("gpu-1")[1] == "bad fan, ada"
    # Another machine behind the same name.
    stage.site.live.kubectl("uncordon", HOSTS["gpu-1"])
    stage.site.live.kubectl("annotate", "node", HOSTS["gpu-1"], f"{MARK}-")
    stage.actor.slurm.update_node("gpu-1", extra=json.dumps({"instance": "the-one-before"}))
    stage.actor.clock = lambda: time.time() + 60
    stage.look(2)
    assert stage.node("gpu-1")[1] == "bad fan, ada"
    assert "DRAIN" in stage.node("gpu-1")[0]


def test_a_drain_of_a_machine_ends_with_it(stage: Stage) -> None:
    stage.actor.slurm.update_node("gpu-1", state=["DRAIN"], reason="health: ecc 3")
    # The pod is younger than the drain, as that of a replacement is.
    time.sleep(1.1)
    stage.site.live.kubectl("delete", "pod", "gpu-1", "-n", "slurm")
    stage.site.create(worker("gpu-1", HOSTS["gpu-1"]))
    stage.site.await_ready("gpu-1")
    stage.look()
    assert "DRAIN" in stage.node("gpu-1")[0], "the same machine: a new pod changes nothing"
    stage.actor.slurm.update_node("gpu-1", extra=json.dumps({"instance": "the-one-before"}))
    stage.look()
    assert "DRAIN" in stage.node("gpu-1")[0], "its own health checks come first"
    stage.actor.clock = lambda: time.time() + 60
    stage.look()
    assert "DRAIN" not in stage.node("gpu-1")[0]
    assert json.loads(stage.actor.slurm.nodes()["gpu-1"].extra) == {"instance": "vm-gpu-1"}


def test_a_big_job_keeps_its_place_in_a_full_queue(stage: Stage) -> None:
    bystander = stage.submit("-N1", "-w", "gpu-2", "--gres=gpu:8")
    stage.until_job(bystander, "RUNNING")
    big = stage.submit("-N2", "--gres=gpu:8")
    stage.until_job(big, "RUNNING")
    small = [stage.submit("-N1", "--gres=gpu:8") for _ in range(5)]
    stage.fail("gpu-1")
    stage.look()
    stage.until_job(big, "PENDING")
    time.sleep(3)
    stage.look()
    assert {stage.job(each)["JobState"] for each in small} == {"PENDING"}, "the survivor is kept"
    # The replacement comes under the same name.
    stage.site.live.kubectl("uncordon", HOSTS["gpu-1"])
    stage.actor.slurm.update_node("gpu-1", state=["UNDRAIN"])
    stage.until_job(big, "RUNNING")
    assert stage.job(big)["NodeList"] == "gpu-[0-1]"
    assert {stage.job(each)["JobState"] for each in small} == {"PENDING"}
    stage.look()
    assert stage.actor.slurm.reservations() == {}
    assert (stage.job(big)["JobState"], stage.job(big)["Restarts"]) == ("RUNNING", "1")
    assert (stage.job(bystander)["JobState"], stage.job(bystander)["Restarts"]) == ("RUNNING", "0")


def test_a_spare_is_used_when_there_is_one_and_the_machine_is_noted(stage: Stage) -> None:
    big = stage.submit("-N2", "--gres=gpu:8")
    stage.until_job(big, "RUNNING")
    lost, kept = sorted(stage.actor.slurm.jobs()[-1].nodes), set(HOSTS)
    stage.fail(lost[1])
    stage.look()
    stage.until_job(big, "PENDING")
    stage.until_job(big, "RUNNING")
    (spare,) = kept - set(lost)
    found = next(each for each in stage.actor.slurm.jobs() if str(each.id) == big)
    assert set(found.nodes) == {lost[0], spare}
    assert found.comment.startswith("actor[hosts=")


def test_a_job_that_left_by_itself_before_the_fault_was_seen_keeps_its_place_and_has_it_noted(stage: Stage) -> None:
    big = stage.submit("-N2", "--gres=gpu:8")
    stage.until_job(big, "RUNNING")
    stage.look()
    lost = sorted(stage.actor.slurm.jobs()[-1].nodes)
    stage.site.slurm("scontrol", "requeue", big)
    stage.until_job(big, "PENDING")
    stage.look()
    assert stage.actor.slurm.reservations() == {}
    stage.fail(lost[1])
    stage.look()
    (spare,) = set(HOSTS) - set(lost)
    (kept,) = stage.actor.slurm.reservations().values()
    assert set(kept.nodes) == {lost[0], spare}
    stage.until_job(big, "RUNNING")
    found = next(each for each in stage.actor.slurm.jobs() if str(each.id) == big)
    assert (set(found.nodes), found.restarts) == ({lost[0], spare}, 1)
    noted = notes.read(found.comment)
    assert (noted.hosts, noted.faults) == ((f"vm-{lost[1]}",), 1)
    assert noted.fault is not None
    assert noted.fault.restart == 1
    stage.look()
    assert stage.actor.slurm.reservations() == {}


def test_scancel_during_the_repair_stays_cancelled(stage: Stage) -> None:
    big = stage.submit("-N2", "--gres=gpu:8")
    stage.until_job(big, "RUNNING")
    stage.fail(stage.actor.slurm.jobs()[-1].nodes[1])
    stage.look()
    stage.site.slurm("scancel", big)
    stage.look(2)
    assert stage.job(big)["JobState"] == "CANCELLED"
    assert stage.actor.slurm.reservations() == {}


def test_a_job_that_can_not_be_requeued_gets_sigterm(stage: Stage) -> None:
    script = "trap 'echo saved > /tmp/saved; exit 0' TERM; sleep 600 & wait"
    job = stage.submit("--no-requeue", "-N1", "-w", "gpu-0", "--gres=gpu:8", script=script)
    stage.until_job(job, "RUNNING")
    time.sleep(1)
    stage.fail("gpu-0")
    stage.look()
    until(lambda: stage.site.run("gpu-0", "slurmd", "cat", "/tmp/saved", ok=False) == "saved\n")
    assert stage.job(job)["Restarts"] == "0"


def blocked(stage: Stage, node: str, first: int) -> None:
    """Every launch of a batch job fails on a node: what slurmd would make is there already, and no folder."""
    script = f"for i in $(seq {first} {first + 20}); do touch /var/spool/slurmd/job$(printf %05d $i); done"
    stage.site.run(node, "slurmd", "bash", "-c", script)


def test_a_job_that_is_held_after_a_failed_launch_is_released_and_its_node_blamed_in_the_end(stage: Stage) -> None:
    first = int(stage.submit("-N1", "-w", "gpu-0", "--gres=gpu:8")) + 1
    blocked(stage, "gpu-1", first)
    clock = {"ahead": 0.0}
    stage.actor.clock = lambda: time.time() + clock["ahead"]
    stage.look()
    failed: list[Any] = []
    for _ in range(2):
        job = stage.submit("-N1", "-w", "gpu-1", "--gres=gpu:8")
        until(lambda job=job: "held" in stage.job(job)["Reason"])
        stage.look()
        failed.append(job)
    states, reason = stage.node("gpu-1")
    assert "DRAIN" in states
    assert reason == f"actor: 2 launch failures in 10 min, last job {failed[-1]}"
    # Released after its back-off, and it starts where it can.
    clock["ahead"] = 20
    stage.look()
    assert "held" not in stage.job(failed[0])["Reason"]
    stage.site.run("gpu-1", "slurmd", "bash", "-c", "find /var/spool/slurmd -maxdepth 1 -type f -name 'job0*' -delete")
    stage.actor.slurm.update_node("gpu-1", state=["UNDRAIN"])
    until(lambda: stage.job(failed[0])["JobState"] == "RUNNING", 90)


def checked(stage: Stage, node: str, gpus: int) -> None:
    """The health check runs on a node that has so many GPUs of the eight that Slurm was told of."""
    copied = "; ".join(
        f"echo {base64.b64encode(each.read_bytes()).decode()} | base64 -d > /tmp/health/{each.name}"
        for each in HEALTH.glob("*.sh")
    )
    devices = "rm -rf /tmp/dev; mkdir -p /tmp/health /tmp/dev; " + "; ".join(
        f"touch /tmp/dev/nvidia{number}" for number in range(gpus)
    )
    stage.site.run(node, "slurmd", "bash", "-c", f"{devices}; {copied}")
    command = "HEALTH_DEV=/tmp/dev HEALTH_PATH= bash /tmp/health/health-check.sh"
    stage.site.run(node, "slurmd", "env", "-i", f"SLURMD_NODENAME={node}", "bash", "-c", command)


def test_a_node_with_seven_of_eight_gpus_stays_out_and_a_person_has_the_last_word(stage: Stage) -> None:
    checked(stage, "gpu-1", 8)
    assert "DRAIN" not in stage.node("gpu-1")[0]
    # A replacement: it comes drained because of the one before, and health checks have the first word.
    stage.actor.slurm.update_node("gpu-1", state=["DRAIN"], reason="slurm-operator: XID 79")
    checked(stage, "gpu-1", 7)
    assert stage.node("gpu-1")[1] == "health: gpu-count 7 of 8"
    stage.actor.slurm.update_node("gpu-1", extra=json.dumps({"instance": "the-one-before"}))
    stage.actor.clock = lambda: time.time() + 60
    stage.look(3)
    assert stage.node("gpu-1")[1] == "health: gpu-count 7 of 8"
    assert stage.events("gpu-1").count("ReplacementUnfit") == 1
    stage.actor.slurm.update_node("gpu-1", state=["DRAIN"], reason="bad fan, ada")
    checked(stage, "gpu-1", 6)
    assert stage.node("gpu-1")[1] == "bad fan, ada"


def test_ends_and_requeues_are_told_once_to_a_webhook(stage: Stage) -> None:
    receiver = Receiver()

    def anew(url: str) -> Notifier:
        """The notifier of an actor that has just started."""
        actor = stage.actor
        actor.notifier = Notifier(actor.kubernetes, lambda: url, STATES, "site")
        return actor.notifier

    def told() -> list[tuple[str, str, int, int]]:
        return [(each["job"], each["state"], each["exit"], each["restarts"]) for each in receiver.got]

    def tell(one: Notifier) -> None:
        stage.look()
        one.step()

    tell(anew(receiver.url))
    time.sleep(1.1)
    array = stage.submit("--mail-type=END", "--array=0-1", script="exit 3")
    moved = stage.submit("--mail-type=REQUEUE", "-N1", "-w", "gpu-2", "--gres=gpu:8")
    stage.submit(script="true")
    stage.until_job(f"{array}_0", "FAILED")
    stage.until_job(f"{array}_1", "FAILED")
    stage.until_job(moved, "RUNNING")
    # Nothing answers: what is new is kept, and told by the next actor.
    tell(anew(f"http://127.0.0.1:9/{SECRET}"))
    stage.site.slurm("scontrol", "requeue", moved)
    for _ in range(2):
        tell(anew(receiver.url))
    receiver.end()
    wanted = [(f"{array}_0", "FAILED", 3, 0), (f"{array}_1", "FAILED", 3, 0), (moved, "REQUEUED", 0, 1)]
    assert sorted(told()) == sorted(wanted)
    assert SECRET not in stage.site.live.kubectl("get", "configmap,events", "-n", "slurm", "-o", "yaml")
