"""GPU sharing by priorities through the real CLI: who gets which nodes, how fast, and what is refused.

Scheduler, quotas and admission are Kubernetes' own, Slurm's daemons are real, the nodes and the server of the model are
not: a replica runs as soon as it is placed.
"""

from __future__ import annotations

import copy
import json
import subprocess
import sys
import time
from collections.abc import Generator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from components.gpu_sharing import inference, objects
from tests.harness import ROOT, Cloud, Project, changes, leftovers, until
from tests.integration.slurm.conftest import KEY, Site
from tests.reporting import content, drift, outcome
from tests.unit.components.gpu_sharing.support import document, plan_of
from tools import places

pytestmark = pytest.mark.integration

Json = dict[str, Any]
H100 = "h100-80gb-sxm-ib.8x"
DRAIN_BUDGET = 30
AT_ONCE = 10.0
"""Seconds in which a replica or a worker is placed that waits for nobody's jobs."""

# Four nodes: one for training's floor, one home, two to lend. Two replicas fill a node, and a full burst three nodes.
SHARING: Json = {
    "pools": {
        "train": {
            "training": {"floor": 1, "lentMaxTime": "1:00:00"},
            "inference": {
                "chat": {
                    "gpusPerReplica": 4,
                    "floor": 2,
                    "ceiling": 8,
                    "model": {
                        "image": "registry.example.com/server:1",
                        "graceSeconds": 5,
                        "scaling": {"metric": "requests_running", "perReplica": 32},
                    },
                }
            },
        }
    }
}
NODES, BURST = 4, 6


@pytest.fixture(scope="module")
def site(cloud: Cloud, folder: Path) -> Site:
    """A small Slurm whose GPU pool is shared, up."""
    project = Project(folder / "sharing", cloud, "sharing")
    project.init()
    settings: Json = {
        "nodePools": {"train": {"type": H100, "count": NODES}},
        "slurm": {
            "people": {"users": {"ada": {"uid": 10001, "keys": [KEY]}}},
            "timing": {"drainBudget": DRAIN_BUDGET},
        },
        "gpuSharing": SHARING,
    }
    project.use_settings("dev", settings, slurm=True)
    project.up()
    return Site(project)


@pytest.fixture
def burst(site: Site) -> Generator[Burst]:
    """The burst, with no replica before and after."""
    found = Burst(site)
    found.scale(0)
    found.settled(borrowed=2)
    yield found
    found.scale(0)
    site.kubectl("-n", "slurm", "scale", "nodeset/train", "--replicas=1")
    found.settled(borrowed=2)


class Burst:
    """The burst replicas, and who is where."""

    def __init__(self, site: Site) -> None:
        self.site = site

    def scale(self, replicas: int) -> None:
        """Ask for so many replicas, as an autoscaler would."""
        self.site.kubectl("-n", "inference", "scale", "deployment/chat-burst", f"--replicas={replicas}")

    def settled(self, *, borrowed: int) -> None:
        """Wait until the floor and so many borrowed workers take jobs."""

        def so() -> bool:
            states = self.site.states(check=False)
            idle = [name for name, state in states.items() if state.startswith(("IDLE", "ALLOC", "MIXED"))]
            ready = [name for name in idle if "DRAIN" not in states[name] and "NOT_RESP" not in states[name]]
            lent = [name for name in ready if name.startswith("train-borrow")]
            return len(lent) == borrowed and len(ready) == borrowed + 1

        until(so, 120, f"the floor and {borrowed} borrowed workers in service")

    def running(self, replicas: int, seconds: float) -> float:
        """Seconds until so many replicas run."""
        return took(lambda: len(placed(pods(self.site, "inference", "burst"))) == replicas, seconds, f"{replicas} run")


def took(condition: Any, seconds: float, what: str) -> float:
    """Seconds until a condition holds."""
    started = time.monotonic()
    until(condition, seconds, what)
    return time.monotonic() - started


def pods(site: Site, namespace: str, part: str) -> dict[str, Json]:
    """The pods of a part that are not about to go, by their names."""
    out = site.kubectl("-n", namespace, "get", "pods", "-l", f"gpuplatform/part={part}", "-o", "json").out
    found: list[Json] = json.loads(out)["items"]
    return {each["metadata"]["name"]: each for each in found if "deletionTimestamp" not in each["metadata"]}


def placed(found: Mapping[str, Json]) -> dict[str, str]:
    """The node of each pod that runs."""
    return {name: each["spec"]["nodeName"] for name, each in found.items() if each["status"]["phase"] == "Running"}


def uids(found: Mapping[str, Json]) -> set[str]:
    return {each["metadata"]["uid"] for each in found.values()}


def pod(name: str, namespace: str, gpus: int = 0, priority: str = "", **spec: object) -> Json:
    """A pod of somebody's own on the shared pool."""
    limits = {"limits": {"nvidia.com/gpu": gpus}} if gpus else {}
    container = {"name": "main", "image": "registry.example.com/any:1", "resources": limits}
    classed = {"priorityClassName": priority} if priority else {}
    metadata: Json = {"name": name, "namespace": namespace}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {"containers": [container], **classed, **spec},
    }


def apply(site: Site, *manifests: Json, options: tuple[str, ...] = ()) -> str:
    """What the API server says to objects; empty when it takes them."""
    path = site.project.folder / "manifest.yaml"
    path.write_text(yaml.safe_dump_all(manifests))
    result = site.kubectl("apply", "-f", str(path), *options, check=False)
    return "" if result.code == 0 else result.err


def refusal(site: Site, manifest: Json) -> str:
    said = apply(site, manifest, options=("--dry-run=server",))
    assert said, "it was let in"
    return said


def check(site: Site) -> Json:
    """What `make check` reports."""
    command = [
        sys.executable,
        "-m",
        "components.slurm.check_command",
        f"--kubectl={places.BIN / 'kubectl'}",
        "--json",
    ]
    given = json.dumps(site.project.outputs("--show-secrets"))
    done = subprocess.run(command, cwd=ROOT, input=given, capture_output=True, text=True, timeout=120, check=False)
    report: Json = json.loads(done.stdout)
    return report


def test_up_places_both_floors_and_lends_the_rest(site: Site) -> None:
    homes, floor = placed(pods(site, "gpu-sharing", "home")), placed(pods(site, "inference", "floor"))
    trained = placed(pods(site, "slurm", "floor"))
    assert (len(homes), len(floor), len(trained)) == (1, 2, 1)
    assert set(floor.values()) == set(homes.values())
    assert not set(trained.values()) & set(homes.values())
    # Without a load an autoscaler leaves the one replica that a Deployment begins with, so one lent node is taken.
    borrowed = pods(site, "slurm", "borrow")
    assert len(borrowed) == NODES - 1
    until(lambda: len(placed(pods(site, "slurm", "borrow"))) == 1, 60, "one borrowed worker")
    assert changes(site.project.preview()) == {}


@pytest.mark.usefixtures("burst")
def test_the_check_finds_no_fault_and_names_what_a_dead_node_costs(site: Site) -> None:
    assert check(site)["findings"] == []
    node = next(iter(placed(pods(site, "gpu-sharing", "home")).values()))
    others = [each for each in placed(pods(site, "slurm", "borrow")).values() if each != node]
    for each in others:
        site.kubectl("cordon", each)
    site.kubectl("cordon", node)
    try:
        found = check(site)["findings"]
    finally:
        for each in (node, *others):
            site.kubectl("uncordon", each)
    assert any("train: 1 floor nodes + 1 home nodes = 2 are promised, 16 GPUs, but 1 ready" in each for each in found)


@pytest.mark.parametrize(
    ("manifest", "said"),
    [
        # Row 1: each class has its ceiling, and who names none of them has nothing.
        (pod("more", "slurm", 8, "gpu-train-floor"), "exceeded quota: gpu-train-floor"),
        (pod("none", "slurm", 1), "exceeded quota: gpu-sharing"),
        (pod("more", "inference", 4, "gpu-infer-floor"), "exceeded quota: gpu-infer-floor"),
        # Row 20: GPUs where there is no share, classes of the other side, and more than a node has.
        (pod("any", "default", 1), "This namespace has no share of the GPUs"),
        (pod("none", "inference", 1), "Pods with GPUs need priorityClassName"),
        (pod("other", "inference", 8, "gpu-train-floor"), "Training's priority classes are for the namespace slurm"),
        (pod("other", "slurm", 8, "gpu-infer-burst"), "gpu-infer-burst is for namespaces with a share of inference"),
        (pod("any", "default", 0, "gpu-infer-floor"), "gpu-infer-floor is for namespaces with a share of inference"),
        (pod("huge", "inference", 16, "gpu-infer-burst"), "maximum nvidia.com/gpu usage per Pod is 8"),
    ],
)
def test_what_is_nobodys_part_is_refused(site: Site, manifest: Json, said: str) -> None:
    assert said in refusal(site, manifest)


def test_a_sidecar_without_gpus_is_welcome(site: Site) -> None:
    assert apply(site, pod("plain", "inference"), options=("--dry-run=server",)) == ""


@pytest.mark.usefixtures("burst")
def test_pods_that_wait_and_pods_that_end_count(site: Site) -> None:
    """Rows 1 and 2."""
    gate = {"schedulingGates": [{"name": "example.com/later"}]}
    gated = [pod(f"gated-{number}", "inference", 8, "gpu-infer-burst", **gate) for number in range(2)]
    everywhere = {"tolerations": [{"operator": "Exists"}], "terminationGracePeriodSeconds": 120}
    ending = pod("ending", "inference", 8, "gpu-infer-burst", **everywhere)
    ending["metadata"]["finalizers"] = ["example.com/hold"]
    one_more = pod("one-more", "inference", 4, "gpu-infer-burst")
    phase = ("-n", "inference", "get", "pod", "ending", "-o", "jsonpath={.status.phase}")
    assert apply(site, *gated, ending) == ""
    try:
        assert "exceeded quota: gpu-infer-burst" in refusal(site, one_more)
        until(lambda: site.kubectl(*phase).out == "Running", 60, "the pod runs")
        site.kubectl("-n", "inference", "delete", "pod", "ending", "--wait=false")
        assert "exceeded quota: gpu-infer-burst" in refusal(site, one_more), "it is still ending"
    finally:
        patch = '{"metadata":{"finalizers":null}}'
        site.kubectl("-n", "inference", "patch", "pod", "ending", "--type=merge", "-p", patch)
        site.kubectl("-n", "inference", "delete", "pod", "--ignore-not-found", "ending", "gated-0", "gated-1")
    assert apply(site, one_more, options=("--dry-run=server",)) == ""


def test_a_rollout_at_full_quota_ends_and_one_that_surges_does_not(site: Site) -> None:
    """Row 3: the floor takes one replica away at a time; Kubernetes' own way of few replicas waits for ever."""
    before = uids(pods(site, "inference", "floor"))
    site.kubectl("-n", "inference", "patch", "deployment", "chat", "--type=json", "-p", _surging(1, 0))
    try:
        site.kubectl("-n", "inference", "rollout", "restart", "deployment/chat")
        time.sleep(5)
        assert uids(pods(site, "inference", "floor")) == before
    finally:
        site.kubectl("-n", "inference", "patch", "deployment", "chat", "--type=json", "-p", _surging(0, 1))
    site.kubectl("-n", "inference", "rollout", "status", "deployment/chat", "--timeout=60s")
    assert not uids(pods(site, "inference", "floor")) & before
    assert set(placed(pods(site, "inference", "floor")).values()) == set(
        placed(pods(site, "gpu-sharing", "home")).values()
    )


def _surging(surge: int, unavailable: int) -> str:
    value = {"maxSurge": surge, "maxUnavailable": unavailable}
    return json.dumps([{"op": "replace", "path": "/spec/strategy/rollingUpdate", "value": value}])


@pytest.mark.parametrize(
    ("chat", "floor"),
    [({}, 2), ({"gpusPerReplica": 8, "floor": 1, "ceiling": 3}, 1)],
    ids=["replicas that share a node", "one of a whole node"],
)
def test_a_new_image_reaches_a_floor_on_a_full_pool(site: Site, chat: Json, floor: int) -> None:
    """C07: there is no GPU for a second replica beside the first, so one goes before the other comes."""

    def change(settings: Json) -> None:
        site.project.change_settings({"gpuSharing": {"pools": {"train": {"inference": {"chat": settings}}}}})
        site.project.up()

    def image() -> str:
        return site.kubectl(*deployment, "-o", "jsonpath={.spec.template.spec.containers[0].image}").out

    deployment = ("-n", "inference", "get", "deployment", "chat")
    change(chat)
    site.kubectl("-n", "inference", "scale", "deployment/chat-burst", f"--replicas={BURST}")
    try:
        site.kubectl("-n", "inference", "rollout", "status", "deployment/chat", "--timeout=60s")
        until(lambda: not free(site), 120, "every GPU is taken")
        before = uids(pods(site, "inference", "floor"))
        seen = site.kubectl_started(*deployment, "-w", "-o", 'jsonpath={.status.availableReplicas}{"\\n"}')
        try:
            change({"model": {"image": "registry.example.com/server:2"}})
            site.kubectl("-n", "inference", "rollout", "status", "deployment/chat", "--timeout=120s")
        finally:
            seen.terminate()
            available = [int(line or "0") for line in seen.communicate(timeout=30)[0].splitlines()]
        assert image() == "registry.example.com/server:2"
        assert not uids(pods(site, "inference", "floor")) & before
        assert available
        assert min(available) >= floor - 1
    finally:
        site.kubectl("-n", "inference", "scale", "deployment/chat-burst", "--replicas=0")
        change(SHARING["pools"]["train"]["inference"]["chat"])


def free(site: Site) -> int:
    """GPUs of the pool that no pod has."""
    out = site.kubectl("get", "pods", "-A", "-o", "json", "--field-selector=spec.nodeName!=").out
    asked = [
        int(each["resources"].get("limits", {}).get("nvidia.com/gpu", 0))
        for item in json.loads(out)["items"]
        for each in item["spec"]["containers"]
        if item["status"].get("phase") in ("Pending", "Running")
    ]
    return 8 * NODES - sum(asked)


def test_a_burst_takes_idle_borrowers_before_busy_ones(site: Site, burst: Burst) -> None:
    """Rows 4 to 7."""
    job = site.submit(
        "sleep 900", "--partition=train-borrow", "--nodes=1", "--gpus-per-node=8", "--time=30", "--requeue"
    )
    busy = site.wait_for(job, "RUNNING")["NodeList"]
    floor = uids(pods(site, "slurm", "floor"))
    # The protection of busy workers is a label that the operator writes.
    protected = "nodeset.slinky.slurm.net/pod-protect=true"
    until(
        lambda: busy in site.kubectl("-n", "slurm", "get", "pods", "-l", protected, "-o", "name").out,
        60,
        "the busy worker is protected",
    )

    burst.scale(1)
    assert burst.running(1, 60) <= AT_ONCE, "an idle borrower goes at once"
    assert site.job(job)["JobState"] == "RUNNING"
    burst.scale(2)
    assert burst.running(2, 60) <= AT_ONCE, "the second finds room beside the first"
    assert len(set(placed(pods(site, "inference", "burst")).values())) == 1
    assert site.job(job)["JobState"] == "RUNNING"
    assert site.job(job)["Restarts"] == "0"

    burst.scale(3)
    assert burst.running(3, DRAIN_BUDGET + 60) <= DRAIN_BUDGET + AT_ONCE, "a busy one has its budget"
    until(lambda: site.job(job).get("Restarts") == "1", 30, "the job is back in the queue")
    assert uids(pods(site, "slurm", "floor")) == floor

    burst.scale(1)
    waiting = took(lambda: len(placed(pods(site, "slurm", "borrow"))) == 1, 60, "a waiting worker starts")
    assert waiting <= AT_ONCE, "nothing but the free node has to happen"
    site.wait_for(job, "RUNNING", 180)
    site.slurm("scancel", job)


def test_trainings_floor_comes_back_from_one_node_of_burst_replicas(site: Site, burst: Burst) -> None:
    """Row 8."""
    floor, homes = uids(pods(site, "inference", "floor")), uids(pods(site, "gpu-sharing", "home"))
    site.kubectl("-n", "slurm", "scale", "nodeset/train", "--replicas=0")
    burst.scale(BURST)
    burst.running(BURST, 120)
    before = pods(site, "inference", "burst")
    assert len(set(placed(before).values())) == NODES - 1, "all nodes but the home"

    site.kubectl("-n", "slurm", "scale", "nodeset/train", "--replicas=1")
    back = took(lambda: len(placed(pods(site, "slurm", "floor"))) == 1, 120, "the floor is back")
    assert back <= DRAIN_BUDGET + AT_ONCE
    stayed = {name: node for name, node in placed(before).items() if name in pods(site, "inference", "burst")}
    assert len(stayed) == BURST - 2, "the replicas of one node went, and no other"
    assert set(placed(pods(site, "slurm", "floor")).values()) == set(placed(before).values()) - set(stayed.values())
    assert uids(pods(site, "inference", "floor")) == floor
    assert uids(pods(site, "gpu-sharing", "home")) == homes


@pytest.mark.parametrize("engine", ["priority", "static"])
def test_the_server_takes_every_object(site: Site, engine: str) -> None:
    given = document()
    pool = given["gpuSharing"]["pools"]["train"]
    pool["engine"] = engine
    pool["surplus"] = "training-first" if engine == "priority" else "inference-first"
    chat = pool["inference"]["chat"]
    chat["model"] = {"image": "registry.example.com/server:1", "cpus": 8, "memory": "64Gi"}
    if engine == "static":
        chat.pop("ceiling")
    else:
        chat["model"]["scaling"] = {"metric": "requests_running", "perReplica": 32}
    plan = plan_of(copy.deepcopy(given))
    manifests = [*objects.manifests(plan), *inference.manifests(plan)]
    assert apply(site, *manifests, options=("--dry-run=server", "--server-side", "--force-conflicts")) == ""


def test_a_day_of_normal_life_is_no_drift_and_one_label_by_hand_is_one_item(site: Site, burst: Burst) -> None:
    project, cloud = site.project, site.project.cloud
    cluster = project.outputs()["clusterId"]
    # Two nodes are replaced, one after the other.
    for vm in [one for one in cloud.items("/compute/vms/instances") if one["type"] == H100][:2]:
        started = cloud.api("POST", f"/kubernetes/clusters/{cluster}/autoclusters/vms/{vm['id']}/remediate")
        operation = f"/kubernetes/autocluster-operations/{started['operation']['operation_id']}"
        until(lambda path=operation: cloud.api("GET", path)["state"] == "SUCCEEDED", 120, "the VM is replaced")
    # An autoscaler scales, a workload and the operator are rolled out, a token is renewed.
    burst.scale(2)
    burst.running(2, 120)
    site.kubectl("-n", "inference", "rollout", "restart", "deployment/chat-burst")
    site.kubectl("-n", "slinky", "rollout", "restart", "deployment/slurm-operator")
    site.kubectl("-n", "slurm", "delete", "secret", "slurm-token-actor")
    renewed = ("-n", "slurm", "get", "secret", "slurm-token-actor")
    until(lambda: site.kubectl(*renewed, check=False).code == 0, 60, "the operator has renewed the token")

    before = project.exported()
    told = drift(project)
    assert (told.code, outcome(project)) == (0, "safe"), told.text
    site.kubectl("label", "namespace", "inference", f"{objects.HOLDS}=nothing", "--overwrite")
    told = drift(project)
    assert (told.code, outcome(project)) == (12, "drift"), told.text
    [change] = content(project)["changes"]
    assert change["name"] == "platform-sharing-namespace-inference"
    assert [objects.HOLDS in each["path"] for each in change["properties"]] == [True]
    assert project.exported() == before
    site.kubectl("label", "namespace", "inference", f"{objects.HOLDS}=inference", "--overwrite")
    assert drift(project).code == 0


def test_what_was_done_by_hand_is_put_back(site: Site) -> None:
    quota = '{"spec":{"hard":{"requests.nvidia.com/gpu":"80"}}}'
    site.kubectl("-n", "slurm", "patch", "resourcequota", "gpu-train-borrow", "--type=merge", "-p", quota)
    site.kubectl("-n", "inference", "scale", "deployment/chat", "--replicas=1")
    put_back = ["platform-sharing-deployment-inference-chat", "platform-sharing-resourcequota-slurm-gpu-train-borrow"]
    assert changes(site.project.preview("--refresh")) == {"update": put_back}
    site.project.up("--refresh")
    assert site.kubectl("-n", "inference", "get", "deployment", "chat", "-o", "jsonpath={.spec.replicas}").out == "2"
    hard = ("get", "resourcequota", "gpu-train-borrow", "-o", "jsonpath={.spec.hard}")
    assert json.loads(site.kubectl("-n", "slurm", *hard).out)["requests.nvidia.com/gpu"] == str(8 * (NODES - 1))
    assert changes(site.project.preview("--refresh")) == {}


def test_a_pool_is_given_back_to_training(site: Site) -> None:
    def give(training: Json) -> None:
        pool = {"engine": "static", "training": training, "inference": {"chat": None}}
        site.project.change_settings({"gpuSharing": {"pools": {"train": pool}}})
        site.project.up()

    give({"floor": 2, "lentMaxTime": None})
    until(lambda: not pods(site, "gpu-sharing", "home"), 60, "no home is left")
    give({"floor": NODES})
    assert len(placed(pods(site, "slurm", "floor"))) == NODES
    assert not pods(site, "slurm", "borrow")


def test_down_leaves_nothing(site: Site) -> None:
    assert changes(site.project.preview()) == {}
    site.project.destroy()
    assert leftovers(site.project.cloud) == {}
