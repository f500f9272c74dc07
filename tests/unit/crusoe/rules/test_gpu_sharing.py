"""Sharing a pool: what is refused, in which words, and that what is proposed instead is accepted."""

from __future__ import annotations

import re
from typing import Any

import pytest

from crusoe.rules import gpu_sharing as rules
from crusoe.rules import gpu_units, slurm_timing

Json = dict[str, Any]
H100, L40S, GB200 = "h100-80gb-sxm-ib.8x", "l40s-48gb.10x", "gb200-186gb-nvl.4x"


def pool(count: int = 16, reserve: int = 1, kind: str = H100, **more: object) -> Json:
    return {"type": kind, "count": count, "reserve": reserve, **more}


def sharing(floor: int = 8, *, shares: Json | None = None, **more: object) -> Json:
    return {"engine": "priority", "training": {"floor": floor}, "inference": shares or {}, **more}


def share(gpus: int, floor: int, **more: object) -> Json:
    return {"gpusPerReplica": gpus, "floor": floor, **more}


def told(value: Json, of: Json) -> dict[str, str]:
    return {each.path: f"{each.problem}. {each.fix}" for each in rules.pool("s", value, of, "p")}


@pytest.mark.parametrize(
    ("replicas", "gpus", "node", "nodes"),
    [(5, 4, 8, 3), (5, 4, 10, 3), (0, 4, 8, 0), (1, 1, 8, 1), (8, 1, 8, 1), (9, 1, 8, 2), (2, 8, 8, 2)],
)
def test_replicas_become_whole_nodes(replicas: int, gpus: int, node: int, nodes: int) -> None:
    assert gpu_units.nodes_of(replicas, gpus, node) == nodes


def test_a_replica_larger_than_a_node_has_no_nodes() -> None:
    with pytest.raises(ValueError, match="16 GPUs does not fit on a node of 8"):
        gpu_units.nodes_of(1, 16, 8)


def test_the_worked_example_fits() -> None:
    assert told(sharing(8, shares={"chat": share(4, 5, ceiling=30)}), pool()) == {}


@pytest.mark.parametrize(
    ("value", "of", "words"),
    [
        (
            sharing(8, shares={"chat": share(4, 5)}),
            pool(12, 2),
            "8 floor nodes + 3 home nodes for chat = 11, but 10 of 12 nodes are left after a reserve of 2. "
            "Write training.floor: 7, or inference.chat.floor: 4, or p.count: 13",
        ),
        (
            sharing(12, shares={"a": share(4, 2), "b": share(4, 1), "c": share(4, 3)}),
            pool(),
            "12 floor nodes + 1 home node for a + 1 home node for b + 2 home nodes for c = 16, but 15 of 16 nodes are",
        ),
        (sharing(3), pool(2, 0), "3 floor nodes = 3, but only 2 nodes are there. Write training.floor: 2, or p.count"),
        (
            sharing(1, shares={"chat": share(8, 2, surge=1)}),
            pool(3, 0),
            "1 floor node + 3 home nodes for chat = 4, but only 3 nodes are there. Write training.floor: 0, or "
            "inference.chat.floor: 1",
        ),
        (
            sharing(5),
            {"type": H100, "autoscaling": {"min": 4, "max": 9}},
            "only 4 nodes are sure (autoscaling.min). Write training.floor: 4, or p.autoscaling.min: 5",
        ),
    ],
)
def test_floors_that_do_not_fit(value: Json, of: Json, words: str) -> None:
    assert words in told(value, of)["s"]


def test_odd_replicas_need_more_nodes_than_their_gpus_say() -> None:
    found = told(sharing(2, shares={"chat": share(4, 5)}), pool(4, 0, L40S))
    assert "2 floor nodes + 3 home nodes for chat = 5, but only 4 nodes are there" in found["s"]
    assert "2 replicas of 4 GPUs = 8 of a node's 10, so 2 would never be used. Write 2 or 5" in str(found)


@pytest.mark.parametrize(
    ("value", "of", "path", "words"),
    [
        (sharing(shares={"a": share(3, 1)}), pool(), "s.inference.a.gpusPerReplica", "Write 2 or 4"),
        (sharing(shares={"a": share(16, 1)}), pool(), "s.inference.a.gpusPerReplica", "larger than a node of 8"),
        (sharing(training={"floor": 4, "ceiling": 3}), pool(), "s.training.ceiling", "3 is below the floor, 4"),
        (sharing(shares={"a": share(4, 4, ceiling=2)}), pool(), "s.inference.a.ceiling", "2 is below the floor, 4"),
        (
            sharing(training={"floor": 4, "ceiling": 16}),
            pool(),
            "s.training.ceiling",
            "16 nodes - 1 in reserve = 15. Write 15",
        ),
        (
            sharing(shares={"a": share(4, 0, ceiling=31)}),
            pool(),
            "s.inference.a.ceiling",
            "31 replicas of 4 GPUs = 124 GPUs can never be had: (16 nodes - 1 in reserve = 15) x 2 a node = 30",
        ),
        (
            sharing(engine="static", training={"floor": 4, "ceiling": 5}),
            pool(),
            "s.training.ceiling",
            "static lends nothing",
        ),
        (sharing(4, engine="static", surplus="training-first"), pool(), "s.surplus", "nobody comes first"),
        (
            sharing(engine="static", shares={"a": share(4, 1, ceiling=2)}),
            pool(),
            "s.inference.a.ceiling",
            "static lends nothing",
        ),
        (
            sharing(engine="static", training={"floor": 4, "demand": {}}),
            pool(),
            "s.training.demand",
            "static lends nothing",
        ),
        (
            sharing(engine="kueue", shares={"a": share(4, 1)}),
            pool(),
            "s.inference.a.gpusPerReplica",
            "training's floor would not come back. Write 8, or engine: priority",
        ),
        (sharing(engine="kueue", shares={"a": share(8, 1, surge=1)}), pool(), "s.inference.a.surge", "Write 0"),
        (sharing(engine="kueue", surplus="training-first"), pool(), "s.surplus", "Leave it out"),
        (
            sharing(1, engine="kueue"),
            {"type": H100, "autoscaling": {"min": 2, "max": 4}},
            "s.engine",
            "don't follow the autoscaler",
        ),
        (
            sharing(1, surplus="training-first"),
            {"type": H100, "autoscaling": {"min": 2, "max": 4}},
            "s.surplus",
            "would make the autoscaler buy nodes",
        ),
        (sharing(4), pool(36, 0, GB200), "s.training.floor", "(4 = 0 x 18 + 4). Write 0 or 18"),
        (sharing(shares={"a": share(4, 3)}), pool(36, 0, GB200), "s.inference", "Make it 0 or 18 nodes"),
        (sharing(nvlinkDomainNodes=3), pool(), "s.training.floor", "Write 6 or 9"),
        (
            sharing(),
            pool(nodeLabels={"nvidia.com/mig.config": "all-1g.10gb"}),
            "p.nodeLabels.nvidia.com/mig.config",
            "divides GPUs by MIG",
        ),
        (
            sharing(),
            pool(nodeLabels={"nvidia.com/device-plugin.config": "shared-4"}),
            "p.nodeLabels.nvidia.com/device-plugin.config",
            "time-slicing",
        ),
        (sharing(), pool(kind="c1a.8x"), "s", "c1a.8x has no GPUs to share"),
        (sharing(), pool(kind="a100-80gb.4x"), "s", "is a slice of a host"),
        (sharing(), pool(retire=True), "s", "is being retired"),
    ],
)
def test_refused(value: Json, of: Json, path: str, words: str) -> None:
    assert words in told(value, of).get(path, ""), told(value, of)


@pytest.mark.parametrize(
    ("value", "of"),
    [
        (sharing(18, shares={"a": share(4, 18)}), pool(36, 0, GB200)),
        (sharing(7, nvlinkDomainNodes=1), pool(36, 0, GB200)),
        (sharing(), pool(nodeLabels={"nvidia.com/mig.config": "all-disabled"})),
        (sharing(engine="kueue", shares={"a": share(8, 2, ceiling=9)}), pool()),
        (sharing(engine="static", training={"floor": 4, "ceiling": 4}), pool()),
        (sharing(2), {"type": H100, "autoscaling": {"min": 2, "max": 4}}),
        (sharing(0, shares={"a": share(8, 0, surge=3)}), pool(1, 0)),
    ],
)
def test_accepted(value: Json, of: Json) -> None:
    assert told(value, of) == {}


def test_each_proposed_floor_and_count_fits() -> None:
    value, of = sharing(9, shares={"a": share(4, 5), "b": share(8, 3, surge=1)}), pool(15, 2)
    (finding,) = rules.floors("s", value, of, "p")
    ways = re.findall(r"([\w.]+): (\d+)", finding.fix)
    assert [name for name, _ in ways] == ["training.floor", "inference.a.floor", "inference.b.floor", "p.count"]
    for name, number in ways:
        match name.split("."):
            case ["training", "floor"]:
                better, there = {**value, "training": {"floor": int(number)}}, of
            case ["inference", key, "floor"]:
                changed = {**value["inference"][key], "floor": int(number)}
                better, there = {**value, "inference": {**value["inference"], key: changed}}, of
            case _:
                better, there = value, {**of, "count": int(number)}
        assert rules.floors("s", better, there, "p") == [], name


@pytest.mark.parametrize(
    ("value", "refused"), [("UNLIMITED", True), ("INFINITE", True), ("1-0", False), ("nonsense", False), (None, False)]
)
def test_jobs_on_lent_nodes_end(value: object, *, refused: bool) -> None:
    assert bool(rules.finite_time("s", value)) is refused


@pytest.mark.parametrize(
    ("value", "refused"),
    [(0, True), ("0", True), (False, True), ("NO", True), (1, False), (None, False), (True, False)],
)
def test_jobs_on_lent_nodes_are_requeued(value: object, *, refused: bool) -> None:
    assert bool(rules.job_requeue("s", value)) is refused


def test_a_workers_grace_holds_its_drain() -> None:
    (finding,) = slurm_timing.pod_grace("s", 100, 60, 90)
    assert "drainBudget 60 + killWait 90 + 30 = 180 s" in finding.problem
    assert slurm_timing.pod_grace("s", 180, 60, 90) == []


def test_cores_and_memory_of_all_replicas_of_a_node() -> None:
    found = rules.host_needs("s", 50, 100_000, 4, 172, 860_000)
    assert [str(each) for each in found] == [
        "s.cpus: 4 replicas x 50 = 200, but a node has 172 for pods. Write 43 or less."
    ]
    assert "Write 215000Mi or less" in str(rules.host_needs("s", 1, 220_000, 4, 172, 860_000)[0])
    assert rules.host_needs("s", 50, None, 4, None, None) == []


def test_windows() -> None:
    (finding,) = rules.windows("s", [{"count": 8}, {"count": 9}], 8)
    assert str(finding) == "s[1].count: 9 nodes are above the 8 that there may be. Write 8."


@pytest.mark.parametrize(
    ("template", "path"),
    [
        ({"resourceClaims": [{"name": "gpu"}]}, "t.resourceClaims"),
        ({"priorityClassName": "x"}, "t.priorityClassName"),
        ({"affinity": {"podAntiAffinity": {}}}, "t.affinity.podAntiAffinity"),
    ],
)
def test_templates_of_workers(template: Json, path: str) -> None:
    assert [each.path for each in rules.claims("t", template)] == [path]


@pytest.mark.parametrize(
    ("value", "path", "words"),
    [
        ({"namespaces": ["slurm"]}, "s.namespaces[0]", "'slurm' is the namespace of Slurm"),
        ({"namespaces": ["a"], "existingNamespaces": ["a"]}, "s.existingNamespaces[0]", "so it would be made"),
        (
            {"namespaces": ["a"], "pools": {"p": {"inference": {"chat": {"namespace": "b"}}}}},
            "s.pools.p.inference.chat.namespace",
            "namespace 'b' is neither made here nor declared as existing. Add it to s.namespaces or "
            "s.existingNamespaces, or write one of a",
        ),
    ],
)
def test_namespaces(value: Json, path: str, words: str) -> None:
    (finding,) = rules.namespaces("s", value, {"slurm": "Slurm"})
    assert finding.path == path
    assert words in str(finding)


def test_names_of_shares() -> None:
    shares = {"p": {"inference": {"chat": {"namespace": "a"}}}, "q": {"inference": {"chat": {"namespace": "a"}}}}
    (finding,) = rules.share_names("s", shares)
    assert str(finding) == (
        "s.q.inference.chat: its objects would be called as those of s.p.inference.chat. Call it 'chat-q'."
    )
    shares["q"]["inference"]["chat"]["namespace"] = "b"
    assert rules.share_names("s", shares) == []
    (burst,) = rules.share_names("s", {"p": {"inference": {"chat": {}, "chat-burst": {}}}})
    assert burst.path == "s.p.inference.chat-burst"
    (long,) = rules.share_names("s", {"p": {"inference": {"c" * 41: {}}}})
    assert "40 are allowed" in str(long)
