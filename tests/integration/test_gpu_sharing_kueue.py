"""GPU sharing by Kueue through the real CLI: the real manager decides by its quotas who waits and who goes.

Kueue comes from its Go module and runs in the pods of its own chart; scheduler, quotas and admission are Kubernetes'
own and Slurm's daemons are real. The nodes are not, so a replica runs as soon as it is placed.

Two pools. `train` is shared as the settings say, with Slurm's workers. `lab` is nobody's: there the shapes that the
plan refuses are built by hand, which is how the reasons for refusing them stay true.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
from collections.abc import Generator, Mapping, Sequence
from pathlib import Path
from typing import Any

import psutil
import pytest
import yaml

from components.gpu_sharing import kueue, objects
from tests import processes
from tests.harness import Cloud, Project, changes, leftovers, until
from tests.integration.slurm.conftest import KEY, Site
from tests.integration.test_gpu_sharing import apply, check, placed, pods
from tests.unit.components.gpu_sharing.support import document, faults, plan_of
from tools import places
from tools.toolchain import ensure

pytestmark = pytest.mark.integration

Json = dict[str, Any]
H100, GPUS, NODES = "h100-80gb-sxm-ib.8x", 8, 4
POOL_LABEL = "crusoe.ai/nodepool.name"
MANAGERS = "deployment/kueue-controller-manager"
TAINTS = [
    {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"},
    {"key": "example.com/dedicated", "value": "gpus", "effect": "NoSchedule"},
]
"""The one by which GPU nodes keep other pods away, and one of the team's own."""

# Four nodes: one for training's floor, one for chat's, two for who asks first.
SHARING: Json = {
    "namespaces": ["inference", "lab"],
    "pools": {
        "train": {
            "engine": "kueue",
            "training": {"floor": 1},
            "inference": {
                "chat": {
                    "gpusPerReplica": 8,
                    "floor": 1,
                    "ceiling": 3,
                    "model": {
                        "image": "registry.example.com/server:1",
                        "graceSeconds": 5,
                        "scaling": {"metric": "requests_running", "perReplica": 32},
                    },
                }
            },
        }
    },
}

SETTINGS: Json = {
    "nodePools": {
        "train": {"type": H100, "count": NODES, "nodeTaints": TAINTS},
        "lab": {"type": H100, "count": NODES},
    },
    "slurm": {
        "people": {"users": {"ada": {"uid": 10001, "keys": [KEY]}}},
        "timing": {"drainBudget": 20},
        "pools": {"train": {"partition": {"maxTime": "1:00:00"}}, "lab": {"include": False}},
        "partitions": {"all": {"pools": ["train"], "maxTime": "1:00:00"}},
    },
    "gpuSharing": SHARING,
}


@pytest.fixture(scope="module")
def site(cloud: Cloud, folder: Path) -> Generator[Site]:
    """A small Slurm whose GPU pool Kueue shares, up, and a pool beside it; nothing of it runs on afterwards."""
    if shutil.which("go") is None and not (places.CHARTS / "kueue").exists():
        pytest.skip("Kueue is built with Go, and there is no `go` on PATH")
    ensure("kueue")
    project = Project(folder / "queued", cloud, "queued")
    project.init()
    project.use_settings("dev", SETTINGS, slurm=True)
    project.up()
    found = Site(project)
    # An autoscaler without a metric leaves the one replica that a Deployment begins with.
    found.kubectl("-n", "inference", "scale", "deployment/chat-burst", "--replicas=0")
    # Nobody has a part of the other pool, so quota and limits keep its namespace from any GPU.
    found.kubectl("-n", "lab", "delete", f"resourcequota/{objects.OTHERS}", f"limitrange/{objects.POLICY}")
    yield found
    cloud.down()
    assert managers(folder) == []


def managers(folder: Path) -> list[psutil.Process]:
    """Processes of Kueue's managers in the pods of a cloud."""
    keepers = {process.pid for process in processes.mentioning(folder)}
    found = [process for process in psutil.process_iter() if processes.command_line(process)[:1] == ["/manager"]]
    return [each for each in found if keepers & {parent.pid for parent in processes.parents(each)}]


# What is there -------------------------------------------------------------------------------------------------------


def workers(site: Site) -> dict[str, str]:
    """The node of each of Slurm's workers that runs."""
    return placed(pods(site, "slurm", "floor"))


def gated(found: Mapping[str, Json]) -> list[str]:
    """Pods that Kueue holds back."""
    return [name for name, each in found.items() if each["spec"].get("schedulingGates")]


def lab_pods(site: Site, app: str) -> dict[str, Json]:
    """Pods in the lab that are not about to go, by their names."""
    out = site.kubectl("-n", "lab", "get", "pods", "-l", f"app={app}", "-o", "json").out
    found: list[Json] = json.loads(out)["items"]
    return {each["metadata"]["name"]: each for each in found if "deletionTimestamp" not in each["metadata"]}


def running(site: Site, app: str, count: int) -> None:
    """Wait until so many pods of the lab run."""
    until(lambda: len(placed(lab_pods(site, app))) == count, 60, f"{count} of {app} run")


def workload(site: Site, namespace: str, pod: str) -> Json:
    """What Kueue has of a pod."""
    found: list[Json] = json.loads(site.kubectl("-n", namespace, "get", "workloads", "-o", "json").out)["items"]
    return next(each for each in found if pod in [owner["name"] for owner in each["metadata"]["ownerReferences"]])


# What is made by hand ------------------------------------------------------------------------------------------------


def queue_object(kind: str, name: str, spec: Json, namespace: str | None = None) -> Json:
    place = {"namespace": namespace} if namespace else {}
    return {"apiVersion": kueue.API, "kind": kind, "metadata": {"name": name, **place}, "spec": spec}


def lab_queue(name: str, flavors: Sequence[tuple[str, Json]], **more: object) -> list[Json]:
    """A queue of the lab over flavors with their quotas, as an administrator would write it."""
    resources = [{"name": flavor, "resources": [{"name": "nvidia.com/gpu", **quota}]} for flavor, quota in flavors]
    spec: Json = {
        "cohortName": "lab",
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "lab"}},
        "resourceGroups": [{"coveredResources": ["nvidia.com/gpu"], "flavors": resources}],
        "preemption": {"reclaimWithinCohort": "Any", "withinClusterQueue": "LowerPriority"},
        **more,
    }
    return [queue_object("ClusterQueue", name, spec), queue_object("LocalQueue", name, {"clusterQueue": name}, "lab")]


def deployment(name: str, gpus: int, namespace: str = "lab", queue: str = "", **spec: object) -> Json:
    """Pods of somebody's own in a queue, none at first; in the lab the queue is called as they are."""
    labels = {"app": name, kueue.QUEUE_LABEL: queue or name}
    container = {
        "name": "main",
        "image": "registry.example.com/any:1",
        "resources": {"limits": {"nvidia.com/gpu": gpus}},
    }
    pod: Json = {"priorityClassName": objects.SHARED, "terminationGracePeriodSeconds": 1, "containers": [container]}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": namespace, "labels": labels},
        "spec": {
            "replicas": 0,
            "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": labels}, "spec": {**pod, **spec}},
        },
    }


@pytest.fixture
def lab(site: Site) -> Generator[Lab]:
    """The lab, empty before and after."""
    found = Lab(site)
    yield found
    found.clear()


class Lab:
    """Four nodes that training and inference of the lab share by quotas, half and half."""

    def __init__(self, site: Site) -> None:
        self.site = site

    def share_by_number(self) -> None:
        """One flavor for all nodes: a quota is a number."""
        flavor = queue_object("ResourceFlavor", "lab", {"nodeLabels": {POOL_LABEL: self._pool}})
        half = {"nominalQuota": 2 * GPUS}
        self._apply(flavor, *lab_queue("workers", [("lab", half)]), *lab_queue("replicas", [("lab", half)]))

    def share_by_node(self) -> None:
        """One flavor for each node, so that a quota is a node."""
        names = self._nodes()
        for number, name in enumerate(names):
            self.site.kubectl("label", "node", name, f"example.com/slot=s{number}", "--overwrite")
        flavors = [
            queue_object("ResourceFlavor", f"s{number}", {"nodeLabels": {"example.com/slot": f"s{number}"}})
            for number in range(len(names))
        ]
        own: Json = {"nominalQuota": GPUS}
        lent: Json = {"nominalQuota": 0, "borrowingLimit": GPUS}
        first = [("s0", own), ("s1", own), ("s2", lent), ("s3", lent)]
        other = [("s2", own), ("s3", own), ("s0", lent), ("s1", lent)]
        how = {"flavorFungibility": {"whenCanBorrow": "TryNextFlavor", "whenCanPreempt": "TryNextFlavor"}}
        self._apply(*flavors, *lab_queue("workers", first, **how), *lab_queue("replicas", other, **how))

    def scale(self, name: str, replicas: int) -> None:
        self.site.kubectl("-n", "lab", "scale", f"deployment/{name}", f"--replicas={replicas}")

    def clear(self) -> None:
        """Take everything away; queues go when nothing in them runs."""
        self.site.kubectl("-n", "lab", "delete", "deployment", "workers", "replicas", "--ignore-not-found")
        until(lambda: not lab_pods(self.site, "workers") | lab_pods(self.site, "replicas"), 60, "the lab is empty")
        self.site.kubectl("-n", "lab", "delete", "localqueues", "--all")
        self.site.kubectl("delete", "clusterqueue", "workers", "replicas", "--ignore-not-found")
        self.site.kubectl("delete", "resourceflavor", "lab", "s0", "s1", "s2", "s3", "--ignore-not-found")

    def free(self, used: Mapping[str, Json]) -> dict[str, int]:
        """Free GPUs of each node of the lab, given the pods on them."""
        found = dict.fromkeys(self._nodes(), GPUS)
        for each in used.values():
            node = each["spec"].get("nodeName")
            if node in found:
                found[node] -= int(each["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"])
        return found

    def _apply(self, *manifests: Json) -> None:
        given = [*manifests, deployment("workers", GPUS), deployment("replicas", 1)]
        assert apply(self.site, *given) == ""

    @property
    def _pool(self) -> str:
        return f"{self.site.project.stack}-lab"

    def _nodes(self) -> list[str]:
        out = self.site.kubectl("get", "nodes", "-l", f"{POOL_LABEL}={self._pool}", "-o", "json").out
        return sorted(each["metadata"]["name"] for each in json.loads(out)["items"])


# The stack ------------------------------------------------------------------------------------------------------------


def test_up_brings_kueue_that_works_as_its_chart_says(site: Site, folder: Path) -> None:
    assert len(managers(folder)) == 2
    out = json.loads(site.kubectl("-n", "kueue-system", "get", "pods", "-o", "json").out)["items"]
    nodes = {each["spec"]["nodeName"] for each in out}
    labels = {
        json.loads(site.kubectl("get", "node", node, "-o", "json").out)["metadata"]["labels"][POOL_LABEL]
        for node in nodes
    }
    assert labels == {f"{site.project.stack}-system"}
    assert "kueue-manager-pdb" in site.kubectl("-n", "kueue-system", "get", "pdb", "-o", "name").out
    # The aggregated API answers too: one that did not would keep namespaces from going.
    served = site.kubectl("get", "apiservice", "v1beta2.visibility.kueue.x-k8s.io", "-o", "json").out
    (available,) = [each for each in json.loads(served)["status"]["conditions"] if each["type"] == "Available"]
    assert available["status"] == "True", available
    assert changes(site.project.preview()) == {}


@pytest.mark.usefixtures("site")
def test_the_chart_knows_every_value_that_it_is_given() -> None:
    """It has no schema, and drops what it does not know without a word."""
    known: Json = yaml.safe_load((places.CHARTS / "kueue" / "values.yaml").read_text())
    assert str(yaml.safe_load((places.CHARTS / "kueue" / "Chart.yaml").read_text())["version"]) == kueue.VERSION

    def unknown(given: Json, known: Json) -> list[str]:
        found = [key for key in given if key not in known]
        inner = [(given[key], known[key]) for key in given if isinstance(known.get(key), dict) and known[key]]
        return [*found, *(each for pair in inner for each in unknown(*pair))]

    plan = plan_of(document({"floor": 2}, {"gpusPerReplica": 8, "floor": 2, "ceiling": 4}))
    assert unknown(kueue.values(plan), known) == []


def test_training_borrows_what_nobody_is_guaranteed(site: Site) -> None:
    """Row 9: one NodeSet of as many workers as training may have, and the quotas hold back what has no node."""
    until(lambda: len(workers(site)) == NODES - 1, 60, "the floor and two borrowed workers run")
    assert len(gated(pods(site, "slurm", "floor"))) == 1
    floor = placed(pods(site, "inference", "floor"))
    assert len(floor) == 1
    assert not set(floor.values()) & set(workers(site).values())
    site.wait_for_idle({each["spec"]["hostname"] for each in ready_workers(site)})
    # Nothing is taken from who was there first, since no floor needs it.
    before = workers(site)
    site.kubectl("-n", "inference", "scale", "deployment/chat-burst", "--replicas=1")
    until(lambda: len(gated(pods(site, "inference", "burst"))) == 1, 60, "the burst waits")
    assert workers(site) == before
    assert check(site)["findings"] == []
    site.kubectl("-n", "inference", "scale", "deployment/chat-burst", "--replicas=0")


def ready_workers(site: Site) -> list[Json]:
    return [each for name, each in pods(site, "slurm", "floor").items() if name in workers(site)]


def test_a_template_without_tolerations_is_placed_and_who_waits_shows_why(site: Site) -> None:
    """C27: the flavor gives what it admits the tolerations of the pool's taints."""
    queue = "inference-train-chat"
    own = deployment("own", GPUS, namespace="inference", queue=queue)
    site.kubectl("-n", "inference", "scale", "deployment/chat", "--replicas=0")
    assert apply(site, own) == ""

    def found() -> dict[str, Json]:
        out = site.kubectl("-n", "inference", "get", "pods", "-l", "app=own", "-o", "json").out
        return {each["metadata"]["name"]: each for each in json.loads(out)["items"]}

    try:
        site.kubectl("-n", "inference", "scale", "deployment/own", "--replicas=2")
        until(lambda: len(placed(found())) == 1, 60, "the one within the quota is placed")
        (node,) = placed(found()).values()
        taints = json.loads(site.kubectl("get", "node", node, "-o", "json").out)["spec"]["taints"]
        assert {each["key"] for each in taints} >= {each["key"] for each in TAINTS}
        (waiting,) = gated(found())

        def told() -> str:
            conditions = workload(site, "inference", waiting).get("status", {}).get("conditions", [])
            return " ".join(each["message"] for each in conditions if each["type"] == "QuotaReserved")

        until(lambda: "insufficient" in told(), 60, "the waiting one shows why")
        assert "nvidia.com/gpu in flavor train" in told()
    finally:
        site.kubectl("-n", "inference", "delete", "deployment", "own")
        site.kubectl("-n", "inference", "scale", "deployment/chat", "--replicas=1")
    until(lambda: len(placed(pods(site, "inference", "floor"))) == 1, 60, "the floor is back")


# Rows of the reference that need other shapes -------------------------------------------------------------------------


def test_a_floor_that_was_lent_comes_back_to_its_number(lab: Lab) -> None:
    """Row 11: who reclaims gets exactly the nominal quota, and what is free again is borrowed again."""
    lab.share_by_number()
    lab.scale("workers", NODES)
    running(lab.site, "workers", NODES)
    lab.scale("replicas", 2 * GPUS)
    running(lab.site, "replicas", 2 * GPUS)
    running(lab.site, "workers", 2)
    lab.scale("replicas", 0)
    running(lab.site, "workers", NODES)


def test_quotas_of_parts_of_nodes_give_no_node_back(lab: Lab) -> None:
    """Row 12, the reason why replicas of less than a node are refused: eight go, and the worker has no node."""
    lab.share_by_number()
    lab.scale("workers", 1)
    running(lab.site, "workers", 1)
    lab.scale("replicas", 2 * GPUS)
    running(lab.site, "replicas", 2 * GPUS)
    lab.scale("replicas", 3 * GPUS)
    running(lab.site, "replicas", 3 * GPUS)
    lab.scale("workers", 2)
    running(lab.site, "replicas", 2 * GPUS)

    def unschedulable() -> bool:
        waiting = [each for each in lab_pods(lab.site, "workers").values() if each["status"]["phase"] == "Pending"]
        conditions = [each for pod in waiting for each in pod["status"].get("conditions", [])]
        return any(each.get("reason") == "Unschedulable" for each in conditions)

    until(unschedulable, 60, "the worker was let in and has no node")
    free = lab.free(lab_pods(lab.site, "workers") | lab_pods(lab.site, "replicas"))
    assert sum(free.values()) == GPUS
    assert max(free.values()) < GPUS, "the GPUs are there, and no node has them all"
    given = document({"floor": 2}, {"gpusPerReplica": 1, "floor": 2, "ceiling": 4})
    given["gpuSharing"]["pools"]["train"]["engine"] = "kueue"
    refused = " ".join(faults(given).values())
    assert "Kueue lends GPUs, not nodes" in refused


def test_a_flavor_for_each_node_gives_a_node_back(lab: Lab) -> None:
    """Row 15: the same situation, and exactly the replicas of one node go."""
    lab.share_by_node()
    lab.scale("workers", 1)
    running(lab.site, "workers", 1)
    (first,) = placed(lab_pods(lab.site, "workers")).items()
    lab.scale("replicas", 3 * GPUS)
    running(lab.site, "replicas", 3 * GPUS)
    before = placed(lab_pods(lab.site, "replicas"))
    lab.scale("workers", 2)
    running(lab.site, "workers", 2)
    after = placed(lab_pods(lab.site, "replicas"))
    gone = {name: node for name, node in before.items() if name not in after}
    assert len(gone) == GPUS
    assert len(set(gone.values())) == 1
    now = placed(lab_pods(lab.site, "workers"))
    assert first in now.items()
    assert set(now.values()) - {first[1]} == set(gone.values())


class Floor:
    """Chat's floor lent to training for once, as the plan never does, so that somebody has to go when it comes back."""

    def __init__(self, site: Site) -> None:
        self.site = site

    def lend(self, gpus: int) -> None:
        patch = [
            {
                "op": "replace",
                "path": "/spec/resourceGroups/0/flavors/0/resources/0/lendingLimit",
                "value": str(gpus),
            }
        ]
        name = "inference-train-chat"
        self.site.kubectl("patch", "clusterqueue", name, "--type=json", "-p", json.dumps(patch))

    def leave(self) -> None:
        """Chat goes, and training has all nodes, the last of them for the shortest time."""
        self.site.kubectl("-n", "inference", "scale", "deployment/chat", "--replicas=0")
        until(lambda: len(workers(self.site)) == NODES, 60, "training has every node")
        self.site.wait_for_idle({each["spec"]["hostname"] for each in ready_workers(self.site)})

    def come_back(self) -> str:
        """Chat's floor comes back; the worker that had to go."""
        before = {each["metadata"]["uid"]: name for name, each in pods(self.site, "slurm", "floor").items()}
        self.site.kubectl("-n", "inference", "scale", "deployment/chat", "--replicas=1")
        until(lambda: len(placed(pods(self.site, "inference", "floor"))) == 1, 120, "the floor is back")
        left = {each["metadata"]["uid"] for each in pods(self.site, "slurm", "floor").values()}
        (gone,) = [name for uid, name in before.items() if uid not in left]
        return gone

    def newest(self) -> str:
        """The worker that Kueue let in last."""

        def since(name: str) -> str:
            conditions: list[Json] = workload(self.site, "slurm", name)["status"]["conditions"]
            return next(each["lastTransitionTime"] for each in conditions if each["type"] == "QuotaReserved")

        return max(workers(self.site), key=since)


@pytest.fixture
def floor(site: Site) -> Generator[Floor]:
    found = Floor(site)
    found.lend(GPUS)
    yield found
    site.kubectl("-n", "inference", "scale", "deployment/chat", "--replicas=1")
    found.lend(0)
    until(lambda: len(placed(pods(site, "inference", "floor"))) == 1, 120, "the floor is back")


def busy(site: Site, worker: str) -> str:
    """A job on one worker, whose pod the operator then protects; the job's number."""
    job = site.submit(
        "sleep 900", "--partition=train", f"--nodelist={worker}", "--gpus-per-node=8", "--time=30", "--requeue"
    )
    site.wait_for(job, "RUNNING")
    protected = "nodeset.slinky.slurm.net/pod-protect=true"
    until(
        lambda: worker in site.kubectl("-n", "slurm", "get", "pods", "-l", protected, "-o", "name").out,
        60,
        "the busy worker is protected",
    )
    return job


def test_a_busy_worker_goes_before_idle_ones(site: Site, floor: Floor) -> None:
    """Row 10: the last that came is the first that goes, whatever runs there and whatever budget guards it."""
    floor.leave()
    worker = floor.newest()
    job = busy(site, worker)
    assert floor.come_back() == worker
    until(lambda: site.job(job).get("Restarts") == "1", 60, "the job is back in the queue")
    site.slurm("scancel", job)


def test_a_marked_worker_goes_before_a_busy_one(site: Site, floor: Floor) -> None:
    """Row 17: with the gate PriorityBoost, which the platform leaves off, a mark on an idle worker makes it go."""
    gate = [
        {"op": "add", "path": "/spec/template/spec/containers/0/args/-", "value": "--feature-gates=PriorityBoost=true"}
    ]
    site.kubectl("-n", "kueue-system", "patch", MANAGERS, "--type=json", "-p", json.dumps(gate))
    site.kubectl("-n", "kueue-system", "rollout", "status", MANAGERS, "--timeout=120s")
    try:
        floor.leave()
        worker = floor.newest()
        job = busy(site, worker)
        idle = next(name for name in workers(site) if name != worker)
        name = workload(site, "slurm", idle)["metadata"]["name"]
        site.kubectl("-n", "slurm", "annotate", "workload", name, "kueue.x-k8s.io/priority-boost=-100")
        assert floor.come_back() == idle
        assert site.job(job)["JobState"] == "RUNNING"
        site.slurm("scancel", job)
    finally:
        site.kubectl("-n", "kueue-system", "rollout", "undo", MANAGERS)
        site.kubectl("-n", "kueue-system", "rollout", "status", MANAGERS, "--timeout=120s")


def test_without_its_managers_nothing_starts_where_there_is_a_share_and_all_heals(site: Site, folder: Path) -> None:
    """Row 18."""
    until(lambda: len(workers(site)) == NODES - 1, 120, "training has its three nodes")
    worker = next(iter(workers(site)))
    uid = pods(site, "slurm", "floor")[worker]["metadata"]["uid"]
    site.kubectl("-n", "kueue-system", "scale", MANAGERS, "--replicas=0")
    try:
        until(lambda: managers(folder) == [], 60, "no manager runs")
        plain: Json = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "plain", "namespace": "inference"}}
        plain["spec"] = {"containers": [{"name": "main", "image": "registry.example.com/any:1"}]}
        elsewhere = {**plain, "metadata": {"name": "plain", "namespace": "default"}}
        until(
            lambda: "failed calling webhook" in apply(site, plain, options=("--dry-run=server",)), 30, "it is refused"
        )
        assert apply(site, elsewhere, options=("--dry-run=server",)) == ""
        site.kubectl("-n", "slurm", "delete", "pod", worker, "--wait=false")
        inside = ("-n", "slurm", "exec", worker, "-c", "slurmd", "--", "true")
        until(lambda: site.kubectl(*inside, check=False).code != 0, 60, "its slurmd has ended")
        held = json.loads(site.kubectl("-n", "slurm", "get", "pod", worker, "-o", "json").out)["metadata"]
        assert (held["uid"], held["finalizers"]) == (uid, ["kueue.x-k8s.io/managed"])
        assert "deletionTimestamp" in held
    finally:
        site.kubectl("-n", "kueue-system", "scale", MANAGERS, "--replicas=2")

    def healed() -> bool:
        now = pods(site, "slurm", "floor")
        return uid not in {each["metadata"]["uid"] for each in now.values()} and len(placed(now)) == NODES - 1

    until(healed, 180, "the worker is gone and another runs")
    assert apply(site, plain, options=("--dry-run=server",)) == ""


def test_managers_go_on_when_the_cloud_is_killed(site: Site, folder: Path) -> None:
    cloud = site.project.cloud
    before = {each.pid for each in managers(folder)}
    os.kill(cloud.status()["pid"], signal.SIGKILL)
    cloud.up()
    assert {each.pid for each in managers(folder)} == before
    own = deployment("later", GPUS, namespace="inference", queue="inference-train-chat")
    until(lambda: apply(site, own) == "", 60, "its webhooks answer again")
    site.kubectl("-n", "inference", "delete", "deployment", "later")


def test_kueue_goes_in_time_where_no_pool_needs_it_any_more(site: Site) -> None:
    """Its queues go once nothing is in them, then the manager, which takes its finalizers off until then."""
    pool = {"engine": "static", "inference": {"chat": None}}
    site.project.change_settings({"gpuSharing": {"pools": {"train": pool}}})
    site.project.up()
    assert len(workers(site)) == 1
    left = site.kubectl("get", "crd,apiservice,mutatingwebhookconfiguration,namespace", "-o", "name").out
    assert [each for each in left.splitlines() if "kueue" in each] == []
    held = json.loads(site.kubectl("get", "pods", "-A", "-o", "json").out)["items"]
    assert [each for each in held if "kueue.x-k8s.io/managed" in each["metadata"].get("finalizers", [])] == []
    assert changes(site.project.preview()) == {}


def test_down_leaves_nothing(site: Site) -> None:
    assert changes(site.project.preview()) == {}
    site.project.destroy()
    assert leftovers(site.project.cloud) == {}
