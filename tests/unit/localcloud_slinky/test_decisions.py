"""Which workers are made, cordoned and deleted, and what the status says."""

from __future__ import annotations

from typing import Any

import pytest

from localcloud.slinky.decisions import (
    CAUSE,
    CORDON,
    COST,
    Plan,
    Worker,
    cordon_reason,
    max_unavailable,
    plan,
    revision,
    status,
    worker_pod,
)
from localcloud.slinky.values import Object
from tests.unit.localcloud_slinky.support import controller, node_set, worker


def decided(item: Object, *workers: Worker, nodes: list[Object] | None = None, has_client: bool = True) -> Plan:
    return plan(item, workers, nodes or [], has_client=has_client, suffix="now")


def created(found: Plan) -> list[str]:
    return [slot.name for slot in found.create]


def deleted(found: Plan) -> list[str]:
    return [each.name for each in found.delete]


def causes(found: Plan) -> dict[str, str]:
    return {name: cause for name, (cause, _) in found.cordon.items()}


def node(name: str, *, cordoned: bool = False, labels: dict[str, str] | None = None, **metadata: Any) -> Object:
    return {
        "metadata": {"name": name, "labels": labels or {}, **metadata},
        "spec": {"unschedulable": True} if cordoned else {},
    }


def test_the_first_workers_and_the_lowest_free_numbers() -> None:
    item = node_set(replicas=3)
    assert created(decided(item)) == ["train-0", "train-1", "train-2"]
    assert created(decided(item, worker(item, 1, "IDLE"))) == ["train-0", "train-2"]


def test_a_number_whose_pod_still_ends_waits_for_it() -> None:
    item = node_set()
    assert created(decided(item, worker(item, 0, "IDLE", terminating=True), worker(item, 1, "IDLE"))) == []


def test_padded_numbers() -> None:
    slots = decided(node_set(ordinalPadding=3, template={"spec": {"hostname": "gpu-"}}, replicas=1)).create
    assert [(slot.name, slot.hostname) for slot in slots] == [("train-000", "gpu-000")]


def test_a_busy_worker_is_drained_first_and_an_idle_one_goes() -> None:
    item = node_set(replicas=1)
    kept = worker(item, 0, "IDLE")
    busy = decided(item, kept, worker(item, 1, "ALLOCATED"))
    assert (causes(busy), deleted(busy)) == ({"train-1": "scale-in"}, [])
    assert busy.cordon["train-1"][1].startswith("slurm-operator: ")
    draining = decided(item, kept, worker(item, 1, "MIXED", "DRAIN", reason="slurm-operator: x"))
    assert deleted(draining) == []
    idle = decided(item, kept, worker(item, 1, "IDLE", "DRAIN", reason="slurm-operator: x"))
    assert deleted(idle) == ["train-1"]
    # Drained by somebody else counts as well; what matters is that nothing runs or starts there.
    assert deleted(decided(item, kept, worker(item, 1, "IDLE", "DRAIN", reason="bad disk"))) == ["train-1"]
    assert deleted(decided(item, kept, worker(item, 1, "IDLE", "DRAIN", "UNDRAIN"))) == []


def test_without_a_client_or_a_record_a_worker_goes_at_once() -> None:
    item = node_set(replicas=0)
    assert deleted(decided(item, worker(item, 0, "ALLOCATED"), has_client=False)) == ["train-0"]
    assert deleted(decided(item, worker(item, 0))) == ["train-0"]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({"ready": False}, {}),
        ({"phase": "Pending"}, {"phase": "Running"}),
        ({"annotations": {COST: "-5"}}, {}),
        ({}, {"annotations": {COST: "5"}}),
        ({"annotations": {CORDON: "true"}}, {}),
    ],
)
def test_who_goes_first(first: dict[str, Any], second: dict[str, Any]) -> None:
    """The first stands before the second although its number is lower."""
    item = node_set(replicas=1)
    found = decided(item, worker(item, 0, "ALLOCATED", **first), worker(item, 1, "ALLOCATED", **second))
    assert "scale-in" in causes(found)["train-0"]
    assert causes(found).get("train-1") != "scale-in"


def test_of_equals_the_highest_number_goes() -> None:
    item = node_set(replicas=1)
    assert causes(decided(item, worker(item, 0, "IDLE"), worker(item, 1, "IDLE"))) == {"train-1": "scale-in"}


def test_an_ended_pod_is_made_again() -> None:
    item = node_set(replicas=1)
    assert deleted(decided(item, worker(item, 0, "IDLE", phase="Failed"))) == ["train-0"]


def test_a_cordoned_node_drains_its_worker_with_the_nodes_reason_and_keeps_it() -> None:
    item = node_set(replicas=1)
    cordoned = node("np-0", cordoned=True, annotations={"nodeset.slinky.slurm.net/node-cordon-reason": "xid 79"})
    found = decided(item, worker(item, 0, "IDLE", "DRAIN", node=cordoned))
    assert found.cordon == {"train-0": ("node", "slurm-operator: xid 79")}
    assert (deleted(found), created(found)) == ([], [])
    assert decided(item, worker(item, 0, "IDLE", node=node("np-0"))).cordon == {}


def test_a_users_cordon_of_a_pod_stays_and_our_own_ends_with_its_cause() -> None:
    item = node_set(replicas=1)
    assert causes(decided(item, worker(item, 0, "IDLE", annotations={CORDON: "true"}))) == {"train-0": "user"}
    assert causes(decided(item, worker(item, 0, "IDLE", annotations={CORDON: "true", CAUSE: "node"}))) == {}


@pytest.mark.parametrize(
    ("item", "reason"),
    [
        (node("a"), "Node a was cordoned"),
        (
            {**node("a"), "status": {"conditions": [{"type": "Xid", "status": "True", "message": "79"}]}},
            "Xid: 79",
        ),
        (
            {**node("a"), "status": {"conditions": [{"type": "Other", "status": "True", "message": "x"}]}},
            "Node a was cordoned",
        ),
        (node("a", annotations={"nodeset.slinky.slurm.net/node-cordon-reason": " a\n\tb\x07 "}), "a b"),
    ],
)
def test_cordon_reasons(item: Object, reason: str) -> None:
    assert cordon_reason(item, ["Xid"]) == f"slurm-operator: {reason}"


def test_a_long_reason_is_cut() -> None:
    annotations = {"nodeset.slinky.slurm.net/node-cordon-reason": "x" * 300}
    assert len(cordon_reason(node("a", annotations=annotations), [])) == 256


def test_a_rolling_update_takes_the_unhealthy_first_and_only_so_many_of_the_others() -> None:
    item = node_set(replicas=4, updateStrategy={"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1}})
    four = [worker(item, number, "IDLE", old=True) for number in range(4)]
    assert causes(decided(item, *four)) == {"train-3": "update"}
    unhealthy = [*four[:3], worker(item, 3, "DOWN", old=True, ready=False)]
    assert causes(decided(item, *unhealthy)) == {"train-3": "update"}
    ending = [*four[:3], worker(item, 3, "IDLE", old=True, terminating=True)]
    assert causes(decided(item, *ending)) == {}
    begun = [worker(item, 0, "ALLOCATED", "DRAIN", old=True, annotations={CORDON: "true", CAUSE: "update"}), *four[1:]]
    assert causes(decided(item, *begun)) == {"train-0": "update"}
    drained = [worker(item, 0, "IDLE", "DRAIN", old=True, annotations={CORDON: "true", CAUSE: "update"}), *four[1:]]
    assert deleted(decided(item, *drained)) == ["train-0"]


@pytest.mark.parametrize("kind", ["OnDelete", "ScheduledUpdate"])
def test_other_strategies_leave_old_workers_alone(kind: str) -> None:
    item = node_set(replicas=1, updateStrategy={"type": kind})
    assert decided(item, worker(item, 0, "IDLE", old=True)).cordon == {}


@pytest.mark.parametrize(
    ("value", "count"), [(None, 2), ("25%", 2), ("50%", 4), (3, 3), ("1%", 1), ("abc", 1), ("150%", 12)]
)
def test_how_many_may_be_away(value: object, count: int) -> None:
    strategy = {} if value is None else {"rollingUpdate": {"maxUnavailable": value}}
    assert max_unavailable(node_set(updateStrategy=strategy), 8) == count


@pytest.mark.parametrize(
    ("change", "new"),
    [
        ({"slurmd": {"image": "b"}}, True),
        ({"extraConf": "A=1"}, True),
        ({"template": {"spec": {"hostNetwork": True}}}, True),
        ({"oversubscribeNode": True}, True),
        ({"replicas": 5}, False),
        ({"partition": {"enabled": True}}, False),
    ],
)
def test_what_makes_a_revision(change: dict[str, Any], new: bool) -> None:
    assert (revision(node_set(**change)) != revision(node_set())) is new


def test_the_other_modes_workers_go() -> None:
    item = node_set(scalingMode="DaemonSet")
    assert causes(decided(item, worker(item, 0, "ALLOCATED"), nodes=[])) == {"train-0": "scale-in"}


def test_daemon_mode_has_a_worker_on_each_fitting_node() -> None:
    item = node_set(scalingMode="DaemonSet", template={"spec": {"nodeSelector": {"owner": "slurm"}}})
    nodes = [
        node("np-0.example.test", labels={"owner": "slurm"}),
        node("np-1", labels={"owner": "inference"}),
        node("np-2", labels={"owner": "slurm"}, cordoned=True),
        node("np-3", labels={"owner": "slurm"}, annotations={"nodeset.slinky.slurm.net/hostname-override": "gpu-a"}),
    ]
    found = decided(item, nodes=nodes)
    assert [(slot.node, slot.hostname) for slot in found.create] == [("np-0.example.test", "np-0"), ("np-3", "gpu-a")]
    assert found.desired == 3
    assert all(len(slot.name) == len("train-") + 5 for slot in found.create)
    pod = worker_pod(item, controller(), found.create[0])
    terms = pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert terms["nodeSelectorTerms"][0]["matchFields"][0]["values"] == ["np-0.example.test"]
    assert pod["metadata"]["labels"]["nodeset.slinky.slurm.net/pod-hostname"] == "np-0"


def test_a_node_that_stops_fitting_drains_its_worker_and_one_that_is_cordoned_keeps_it() -> None:
    item = node_set(scalingMode="DaemonSet", template={"spec": {"nodeSelector": {"owner": "slurm"}}})
    fits = node("np-0", labels={"owner": "slurm"})
    slot = decided(item, nodes=[fits]).create[0]
    pod = {**worker_pod(item, controller(), slot), "status": {"phase": "Running"}}
    running = Worker(pod, worker(item, 0, "ALLOCATED").slurm, fits)
    assert decided(item, running, nodes=[fits]) == Plan(desired=1, create=[], delete=[])
    gone = node("np-0", labels={"owner": "inference"})
    assert causes(decided(item, running, nodes=[gone])) == {slot.name: "scale-in"}
    cordoned = node("np-0", labels={"owner": "slurm"}, cordoned=True)
    cordoned["spec"]["taints"] = [{"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}]
    held = decided(item, Worker(pod, running.slurm, cordoned), nodes=[cordoned])
    assert (causes(held), held.desired) == ({slot.name: "node"}, 1)


@pytest.mark.parametrize(
    ("tolerations", "count"),
    [
        ([], 0),
        ([{"key": "gpu", "operator": "Exists"}], 1),
        ([{"key": "gpu", "value": "yes", "effect": "NoSchedule"}], 1),
        ([{"key": "gpu", "value": "no"}], 0),
        ([{"operator": "Exists"}], 1),
        ([{"key": "gpu", "operator": "Exists", "effect": "NoExecute"}], 0),
    ],
)
def test_taints(tolerations: list[Object], count: int) -> None:
    tainted = node("np-0")
    tainted["spec"]["taints"] = [{"key": "gpu", "value": "yes", "effect": "NoSchedule"}]
    item = node_set(scalingMode="DaemonSet", template={"spec": {"tolerations": tolerations}})
    assert len(decided(item, nodes=[tainted]).create) == count


@pytest.mark.parametrize(
    ("expression", "fits"),
    [
        ({"operator": "In", "values": ["a", "b"]}, True),
        ({"operator": "NotIn", "values": ["a"]}, False),
        ({"operator": "Exists"}, True),
        ({"operator": "DoesNotExist"}, False),
        ({"operator": "Gt", "values": ["1"]}, False),
    ],
)
def test_affinity(expression: Object, fits: bool) -> None:
    terms = [{"matchExpressions": [{"key": "zone", **expression}]}]
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}
    item = node_set(scalingMode="DaemonSet", template={"spec": {"affinity": affinity}})
    assert bool(decided(item, nodes=[node("np-0", labels={"zone": "a"})]).create) is fits


def test_status() -> None:
    item = node_set(replicas=3)
    workers = [
        worker(item, 0, "IDLE"),
        worker(item, 1, "MIXED", old=True),
        worker(item, 2, "IDLE", "DRAIN", ready=False),
        worker(item, 3, terminating=True),
    ]
    found = status(item, workers, 3)
    assert {key: value for key, value in found.items() if value is not None} == {
        "desired": 3,
        "replicas": 3,
        "updatedReplicas": 2,
        "readyReplicas": 2,
        "availableReplicas": 2,
        "unavailableReplicas": 1,
        "slurmIdle": 2,
        "slurmAllocated": 1,
        "slurmDrain": 1,
        "observedGeneration": 1,
        "nodeSetHash": revision(item),
        "collisionCount": 0,
        "selector": "app.kubernetes.io/instance=train,app.kubernetes.io/name=slurmd",
    }
