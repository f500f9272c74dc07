"""Notes, settings, the lease, topology, and one whole look."""

from __future__ import annotations

from dataclasses import replace

import pytest

from actor import facts, lease, notes, settings, topology
from actor.actions import Annotate, Report
from actor.look import Memory, look
from actor.notes import Fault, Notes
from actor.settings import Settings
from actor.state import KubeNode, Reservation
from tests.unit.actor.support import SETTINGS, XID, cluster, job, kube, names


@pytest.mark.parametrize("comment", ["", "ask ada first", "ask ada actor[hosts=a]", "actor[] x"])
@pytest.mark.parametrize(
    "noted",
    [
        Notes(),
        Notes(("a", "b")),
        Notes(releases=3, told=("held",)),
        Notes(("a",), faults=2, fault=Fault(2, 0, 1_800_000_000, 1_800_000_001, "vm-1", "prod-train")),
    ],
)
def test_notes_are_read_as_written_and_what_others_wrote_stays(comment: str, noted: Notes) -> None:
    text = notes.write(comment, noted)
    assert notes.read(text) == noted
    assert ("ask ada" in text) is ("ask ada" in comment)
    assert notes.write(text, noted) == text


@pytest.mark.parametrize("fault", ["1/2/3", "a/b/c/d/vm/pool", "1/2/3/4/5/vm/pool", ""])
def test_a_fault_that_nobody_wrote_like_that_is_none(fault: str) -> None:
    assert notes.read(f"actor[hosts=a fault={fault} releases=1]") == Notes(("a",), 1)


def test_settings() -> None:
    assert settings.load('{"conditions": ["A"], "cred_expire": 9}') == Settings(conditions=("A",), cred_expire=9)
    with pytest.raises(ValueError, match="credExpire"):
        settings.load('{"credExpire": 9}')
    with pytest.raises(ValueError, match="object"):
        settings.load("[]")


NOW = 1_800_000_000.5


def test_a_free_lease_is_taken_kept_and_lost_only_when_its_time_is_over() -> None:
    first = lease.claim(None, "a", NOW)
    assert first is not None
    assert first.taken
    held = {**first.lease, "metadata": {"name": "slurm-actor", "resourceVersion": "1"}}
    assert lease.claim(held, "b", NOW + lease.SECONDS - 1) is None
    mine = lease.claim(held, "a", NOW + 2)
    assert mine is not None
    assert not mine.taken
    assert mine.lease["spec"]["acquireTime"] == first.lease["spec"]["acquireTime"]
    other = lease.claim(held, "b", NOW + lease.SECONDS + 2)
    assert other is not None
    assert other.taken
    assert other.lease["spec"]["leaseTransitions"] == 1
    # What the API server refuses when somebody else was quicker.
    assert other.lease["metadata"]["resourceVersion"] == "1"


TREE = replace(SETTINGS, topology_kind="tree", leaves=("leaf-a", "leaf-b"))
BLOCK = replace(SETTINGS, topology_kind="block", leaves=("domain.1",))


@pytest.mark.parametrize(
    ("labels", "chosen", "place"),
    [
        ({"crusoe.ai/pod.id": "leaf-a", "crusoe.ai/ib.partition.id": "p"}, TREE, "fabric:leaf-a"),
        ({"crusoe.ai/ib.partition.id": "leaf-b"}, TREE, "fabric:leaf-b"),
        ({"nvidia.com/gpu.clique": "domain.1", "crusoe.ai/pod.id": "leaf-a"}, BLOCK, "fabric:domain.1"),
        ({"crusoe.ai/pod.id": "leaf-z"}, TREE, "fabric:unknown"),
        ({}, TREE, "fabric:unknown"),
    ],
)
def test_every_node_of_slurms_pools_has_a_place_that_slurm_knows(
    labels: dict[str, str], chosen: Settings, place: str
) -> None:
    actions = topology.plan(cluster(0, nodes=[kube(1, labels=labels)]), chosen)
    assert actions[0] == Annotate("host-1", facts.TOPOLOGY, place)
    assert [each.kind for each in actions if isinstance(each, Report)] == (
        ["topology"] if "leaf-z" in labels.values() else []
    )


@pytest.mark.parametrize(
    ("node", "chosen"),
    [
        (kube(1), SETTINGS),
        (kube(1, pool="test-system"), TREE),
        (kube(1, annotations={facts.TOPOLOGY: "fabric:unknown"}), TREE),
    ],
    ids=["no topology", "not Slurm's pool", "there already"],
)
def test_nothing_to_annotate(node: KubeNode, chosen: Settings) -> None:
    assert topology.plan(cluster(0, nodes=[node]), chosen) == []


def test_a_node_without_a_worker_has_its_place_before_it_gets_one() -> None:
    seen = cluster(0, nodes=[kube(1, labels={"crusoe.ai/pod.id": "leaf-a"})])
    assert seen.workers == []
    assert names(topology.plan(seen, TREE)) == ["Annotate"]


def test_a_healthy_cluster_is_left_alone() -> None:
    lists, memory = look(cluster(jobs=[job(7, 0, 1)]), Memory(), SETTINGS)
    assert lists == []
    assert look(cluster(jobs=[job(7, 0, 1)]), memory, SETTINGS)[0] == []


def test_a_place_made_in_this_look_is_not_given_up_in_it() -> None:
    kept = Reservation("actor-7", ("train-0", "train-2"))
    seen = cluster(nodes=[kube(1, remediation=XID)], jobs=[job(7, 0, 1)], reservations=[kept])
    (actions,), _ = look(seen, Memory(), SETTINGS)
    assert "Requeue" in names(actions)
    assert "Unreserve" not in names(actions)
