"""AutoClusters' repairs: what is decided, what is written down, what is told. Kubernetes is not needed for that."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from localcloud.autoclusters import incidents, nodes
from localcloud.autoclusters.decisions import WAIT, Decision, View, decide
from localcloud.autoclusters.incidents import Delays, Incident
from localcloud.autoclusters.nodes import Pod
from localcloud.autoclusters.notices import deliver
from localcloud.kubernetes.gpu_faults import GPU_FAULTS, GpuFault, faults_of, kernel_lines, lost
from localcloud.pools import POOL, VM
from tests.unit.actor.receiver import Receiver
from tests.unit.localcloud.conftest import H100, Api

DELAYS = Delays(detect=2, cordon=4, grace=120)
ONE = Incident("11112222-3333", "project", "cluster", "pool", "vm", "np-1-0", 79, 3, "injected", 100.0)
BUSY = Pod("slurm", "train-0")


def at(phase: Any, **more: Any) -> Incident:
    return replace(ONE, phase=phase, **more)


@pytest.mark.parametrize(
    ("incident", "seen", "now", "expected"),
    [
        (ONE, View(), 100, Decision("break", "failed")),
        (at("failed"), View(), 101.9, WAIT),
        (at("failed"), View(), 102, Decision("show", "detected", "issue_detected")),
        (at("failed"), View(action=None), 102, Decision("show", "uncovered")),
        (at("detected"), View(action="OFF"), 102, Decision(phase="off")),
        (at("detected"), View(), 102, Decision("isolate", "isolated", "remediation_started")),
        (at("isolated"), View(pods=[BUSY]), 103.9, WAIT),
        (at("isolated"), View(), 103.9, WAIT),
        (at("isolated"), View(pods=[BUSY]), 104, Decision("evict")),
        (at("isolated"), View(pods=[BUSY]), 219.9, Decision("evict")),
        (at("isolated"), View(pods=[BUSY]), 220, Decision("replace")),
        (at("isolated"), View(), 104, Decision("replace")),
        (at("replacing"), View(state="IN_PROGRESS"), 900, WAIT),
        (at("replacing"), View(state="SUCCEEDED"), 100, Decision(phase="replaced", tell="remediation_succeeded")),
        (at("stalled"), View(room=False), 9999, WAIT),
        (at("stalled"), View(room=True), 101, Decision("replace")),
        *((at(phase), View(node=False), 101, Decision(phase="gone")) for phase in ("failed", "detected", "isolated")),
        *((at(phase), View(), 9999, WAIT) for phase in incidents.ENDS),
    ],
)
def test_the_next_step(incident: Incident, seen: View, now: float, expected: Decision) -> None:
    assert decide(incident, seen, DELAYS, now) == expected


def test_one_pod_with_the_label_stops_the_repair_before_any_pod_is_moved() -> None:
    found = decide(at("isolated"), View(pods=[BUSY, Pod("slurm", "train-1", opted_out=True)]), DELAYS, 101)
    assert (found.deed, found.phase, found.tell) == ("nothing", "opted-out", "remediation_skipped")
    assert "train-1" in found.message


def test_a_replacement_that_failed_stalls_and_says_why() -> None:
    found = decide(at("replacing"), View(state="FAILED", message="insufficient capacity"), DELAYS, 101)
    assert (found.phase, found.tell) == ("stalled", "remediation_failed")
    assert "insufficient capacity" in found.message


def test_what_a_drain_moves() -> None:
    def pod(name: str, owner: str = "NodeSet", phase: str = "Running", **metadata: Any) -> dict[str, Any]:
        owners = [{"kind": owner}]
        return {
            "metadata": {"namespace": "n", "name": name, "ownerReferences": owners, **metadata},
            "status": {"phase": phase},
        }

    found = nodes.movable(
        [
            pod("a"),
            pod("b", "DaemonSet"),
            pod("c", phase="Succeeded"),
            pod("d", labels={nodes.OPT_OUT: "true"}),
            pod("e", deletionTimestamp="now"),
        ]
    )
    assert found == [Pod("n", "a"), Pod("n", "d", opted_out=True), Pod("n", "e", ending=True)]


def test_a_node_shows_its_faults_its_condition_and_its_repair() -> None:
    node: dict[str, Any] = {"metadata": {}}
    node = nodes.broken(node, ONE)
    assert faults_of(node["metadata"]["annotations"][GPU_FAULTS]) == [GpuFault(79, 3)]
    assert nodes.broken(node, ONE) == node, "the same fault twice is one"
    both = nodes.broken(node, replace(ONE, xid=48, gpu=0))
    assert json.loads(both["metadata"]["annotations"][GPU_FAULTS]) == [[79, 3], [48, 0]]
    [condition] = nodes.unhealthy(ONE)["status"]["conditions"]
    assert (condition["status"], condition["reason"]) == ("True", "XID_79")
    assert condition["message"].startswith("NVRM: Xid (PCI:0000:04:00): 79,")
    first, second = nodes.isolated(ONE), nodes.isolated(replace(ONE, id="99998888-7777"))
    assert first["spec"] == {"unschedulable": True}
    assert first != second, "another incident is another mark"


def test_only_some_errors_take_the_gpu_away() -> None:
    faults = [GpuFault(79, 1), GpuFault(48, 2), GpuFault(999, 3)]
    assert lost(faults) == {1}
    assert len(kernel_lines(faults)) == 3


@pytest.mark.parametrize("text", [None, "", "x", "{}", "[[1]]", "[1]", "null", "3"])
def test_an_annotation_that_says_nothing_is_no_fault(text: str | None) -> None:
    assert faults_of(text) == []


def test_a_notice_arrives_or_says_that_it_did_not() -> None:
    receiver = Receiver()
    assert deliver(receiver.url, {"type": "x"})
    receiver.end()
    assert not deliver("http://127.0.0.1:9/", {"type": "x"})


# Through the cloud's own surface -------------------------------------------------------------------------------------


async def gpu_pool(api: Api, count: int = 2) -> tuple[str, dict[str, Any]]:
    cluster = await api.cluster()
    return cluster, await api.pool(cluster, product_name=H100, count=count, ib_partition_id=await api.partition())


async def fault(api: Api, pool: dict[str, Any], xid: int = 79, **more: Any) -> Incident:
    body = {"vm_id": pool["instance_ids"][0], "xid": xid, "gpu": 3, **more}
    found = await api.admin("POST", "gpu-faults", body)
    return next(each for each in incidents.every(api.cloud) if each.id == found["id"])


async def refused(api: Api, body: dict[str, Any], path: str = "gpu-faults", method: str = "POST") -> str:
    token = api.cloud.keys.admin_token
    answer = await api.client.request(method, f"/_local/{path}", json=body, headers={"X-Local-Token": token})
    assert answer.status_code == 400, answer.text
    return answer.json()["message"]


async def test_a_fault_is_one_incident_however_often_it_is_reported(api: Api) -> None:
    _, pool = await gpu_pool(api)
    first, again = await fault(api, pool), await fault(api, pool, xid=48)
    assert first.id == again.id
    incidents.advance(api.cloud, first, "off")
    assert (await fault(api, pool)).id != first.id
    listed = (await api.admin("GET", "incidents"))["items"]
    assert [each["phase"] for each in listed] == ["off", "injected"]


async def test_what_can_not_break(api: Api) -> None:
    cluster, pool = await gpu_pool(api)
    slices = await api.pool(cluster, name="cpu")
    vm = pool["instance_ids"][0]
    assert "there is no VM 'nope'" in await refused(api, {"node": "nope", "xid": 79})
    assert "has 8 GPUs" in await refused(api, {"vm_id": vm, "xid": 79, "gpu": 8})
    assert "has 0 GPUs" in await refused(api, {"vm_id": slices["instance_ids"][0], "xid": 79})
    assert "xid" in await refused(api, {"vm_id": vm, "xid": 0})


async def test_the_configuration_decides_at_the_moment_of_the_look(api: Api) -> None:
    cluster, pool = await gpu_pool(api)
    found = await fault(api, pool)
    config = f"{{p}}/kubernetes/clusters/{cluster}/autoclusters/config"
    for action in ("OFF", "REPLACE_NODE"):
        await api.patch(config, {"set_remediation_overrides": [{"issue_name": "XID_79", "action": action}]})
        assert incidents.action(api.cloud, found) == action
    assert incidents.action(api.cloud, replace(found, xid=7)) is None, "not in the catalogue"


async def test_hosts_that_several_vms_share_are_not_covered(api: Api) -> None:
    cluster = await api.cluster()
    pool = await api.pool(cluster, product_name="l40s-48gb.1x", count=1)
    found = await fault(api, pool, gpu=0)
    assert incidents.action(api.cloud, found) is None


async def test_a_replacement_takes_the_broken_host_out_of_stock(api: Api) -> None:
    cluster, pool = await gpu_pool(api)
    found = await fault(api, pool)
    capacity = {"vm_type": H100, "quantity": 1, "location": "us-east1-a"}
    await api.admin("PUT", "capacities", capacity)
    started = await api.cloud.operations.launch(incidents.replace_vm(api.cloud, found))
    assert started["operation"]["state"] == "SUCCEEDED"
    metadata = started["operation"]["metadata"]
    assert (metadata["issue_name"], metadata["operation_type"]) == ("XID_79", "replace_node")
    assert api.plane.drained == set(), "the engine has drained it before"
    members = (await api.read_pool(pool["id"]))["instance_ids"]
    assert len(members) == 2
    assert found.vm_id not in members
    vm_type = api.cloud.facts.vm_types[H100]
    assert api.cloud.inventory.free_vms(vm_type, "us-east1-a") == 0
    assert cluster == found.cluster_id


async def test_without_spares_it_stalls_until_there_is_stock(api: Api) -> None:
    _, pool = await gpu_pool(api)
    await api.admin("PUT", "capacities", {"vm_type": H100, "quantity": 0, "location": "us-east1-a"})
    found = await fault(api, pool)
    started = await api.cloud.operations.launch(incidents.replace_vm(api.cloud, found))
    assert started["operation"]["state"] == "FAILED"
    assert "insufficient capacity" in started["operation"]["result"]["message"]
    assert api.cloud.store.get(VM, found.vm_id) is None
    assert not incidents.room(api.cloud, found)
    await api.admin("PUT", "capacities", {"vm_type": H100, "quantity": 1, "location": "us-east1-a"})
    assert incidents.room(api.cloud, found)
    again = await api.cloud.operations.launch(incidents.replace_vm(api.cloud, found))
    assert again["operation"]["state"] == "SUCCEEDED"
    assert len((await api.read_pool(pool["id"]))["instance_ids"]) == 2
    assert incidents.room(api.cloud, found), "a whole pool needs none"
    item = api.cloud.store.get(POOL, pool["id"])
    assert item is not None


async def test_notices_wait_in_the_state_file_in_order(api: Api) -> None:
    _, pool = await gpu_pool(api)
    found = incidents.advance(api.cloud, await fault(api, pool), "detected", "issue_detected")
    found = incidents.advance(api.cloud, found, "isolated", "remediation_started")
    assert [each["body"]["type"] for each in found.outbox] == [
        "autoclusters.issue_detected",
        "autoclusters.remediation_started",
    ]
    incidents.delivered(api.cloud, found.id, tried=True)
    incidents.delivered(api.cloud, found.id, tried=False)
    [left] = incidents.every(api.cloud)
    assert [each["body"]["type"] for each in left.outbox] == ["autoclusters.remediation_started"]
    assert [phase for phase, _ in left.history] == ["injected", "detected", "isolated"]


async def test_settings(api: Api) -> None:
    said = await api.admin("PUT", "autoclusters/settings", {"detect": 0.5, "webhook": "http://127.0.0.1:9000/x"})
    assert said == {"detect": 0.5, "cordon": 8.0, "grace": 120.0, "webhook": "http://127.0.0.1:9000/x"}
    assert incidents.delays(api.cloud) == Delays(0.5, 8.0, 120.0)
    for url in ("https://example.com/", "http://10.0.0.1/", "file:///etc/passwd", "127.0.0.1:9000"):
        assert "no http address of this machine" in await refused(api, {"webhook": url}, "autoclusters/settings", "PUT")
    assert (await api.admin("PUT", "autoclusters/settings", {"webhook": ""}))["webhook"] == ""
