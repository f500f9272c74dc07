"""Node pools."""

from __future__ import annotations

import pytest

from crusoe import catalog
from crusoe.rules import node_pools
from crusoe.rules.finding import Finding

V1, V2 = "1.33.4-cmk.43", "1.35.5"


def only(found: list[Finding]) -> Finding:
    assert len(found) == 1, found
    return found[0]


@pytest.mark.parametrize("name", [*catalog.vm_types(), "c1a.32x"])
def test_known_types(name: str) -> None:
    assert node_pools.vm_type("t", name) == []


def test_an_unknown_type_comes_with_the_one_that_was_meant() -> None:
    assert only(node_pools.vm_type("t", "b200-180gb-sxm-ib-8x")).fix == "Write 'b200-180gb-sxm-ib.8x'"
    assert only(node_pools.vm_type("t", "gb200")).fix == "Write 'gb200-186gb-nvl.4x' or 'gb200-186gb-nvl-ib.4x'"
    assert "such as" in only(node_pools.vm_type("t", "quantum")).fix


@pytest.mark.parametrize("name", list(catalog.vm_types()))
def test_exactly_the_types_with_a_fabric_need_a_partition(name: str) -> None:
    needs = "-ib." in name or "-roce." in name
    without = node_pools.fabric("t", name, has_partition=False, partition_path="n")
    having = node_pools.fabric("t", name, has_partition=True, partition_path="n")
    assert (len(without), len(having)) == ((1, 0) if needs else (0, 1))
    finding = only(without + having)
    assert finding.path == "n"
    assert name in finding.problem
    if not needs:
        example = catalog.vm_type(finding.fix.split("'")[1])
        assert example is not None
        assert example.fabric


def test_counts() -> None:
    def check(**numbers: object) -> list[Finding]:
        return node_pools.counts("p", **numbers)

    assert check(count=2, min_count=2) == check(count=0) == check(count=4.0, min_count=0) == []
    assert only(check(count=2, min_count=3)) == Finding("p.minCount", "3 is more than the count, 2", "Write 2")
    assert only(check(count=-1)).path == "p.count"
    assert only(check(count=10**9)).path == "p.count"
    assert only(check(min_count=-1, count=1)).path == "p.minCount"


def test_autoscaling_owns_the_count() -> None:
    def check(**numbers: object) -> list[Finding]:
        return node_pools.counts("p", **numbers)

    assert check(autoscaling={"min": 2, "max": 8}) == check(autoscaling={"min": 0, "max": 1}, min_count=0) == []
    assert only(check(autoscaling={"min": 2, "max": 8}, count=4)).path == "p.count"
    assert only(check(autoscaling={"min": 8, "max": 2})) == Finding(
        "p.autoscaling.min", "8 is more than the maximum, 2", "Write 2"
    )
    assert only(check(autoscaling={"min": -1, "max": 2})).fix == "Write 0"
    assert only(check(autoscaling={"min": 0, "max": 0})).fix == "Write 1"
    assert only(check(autoscaling={"min": 1, "max": 8}, min_count=2)) == Finding(
        "p.minCount", "the pool may shrink to 1 nodes (p.autoscaling.min), but 2 are asked for at least", "Write 1"
    )
    assert only(check(autoscaling={"min": 1, "max": 10**6})).path == "p.autoscaling.max"


@pytest.mark.parametrize(
    "key",
    [
        "crusoe.ai/x",
        "slurm.crusoe.ai/x",
        "kubernetes.io/role",
        "node.kubernetes.io/instance-type",
        "node-role.kubernetes.io/w",
        "k8s.io/x",
    ],
)
def test_reserved_prefixes(key: str) -> None:
    assert "example.com/" in only(node_pools.labels("l", {key: "v"})).fix
    assert only(node_pools.taints("t", [{"key": key, "effect": "NoSchedule"}])).path == "t[0].key"


@pytest.mark.parametrize("key", ["team", "example.com/team", "notcrusoe.ai/x", "nvidia.com/gpu", "A.b_c-9", "a" * 63])
def test_keys_of_ones_own(key: str) -> None:
    assert node_pools.labels("l", {key: "v"}) == []


@pytest.mark.parametrize(
    "key",
    ["a b", "-a", "a-", "a" * 64, "/a", "a/", "a/b/c", "Example.com/x", "ü", "a.com/" + "x" * 64, "a" * 254 + "/x"],
)
def test_keys_that_kubernetes_refuses(key: str) -> None:
    found = only(node_pools.labels("l", {key: "v"}))
    right = found.fix.split("'")[1]
    assert node_pools.labels("l", {right: "v"}) == [], f"the fix {right!r} must be right"


def test_label_values() -> None:
    assert node_pools.labels("l", {"a": "", "b": "x" * 63, "c": "A_b.c-9"}) == []
    assert only(node_pools.labels("l", {"a": "two words"})).fix == "Write 'two-words'"
    assert only(node_pools.labels("l", {"a": "x" * 64})).fix == f"Write '{'x' * 63}'"
    assert "Leave it empty" in only(node_pools.labels("l", {"a": "---"})).fix


def test_taints() -> None:
    good = [
        {"key": "a", "effect": "NoSchedule"},
        {"key": "a", "value": "x", "effect": "NoExecute"},
        {"key": "b", "value": "", "effect": "PreferNoSchedule"},
    ]
    assert node_pools.taints("t", good) == []
    twice = only(
        node_pools.taints(
            "t",
            [{"key": "a", "value": "x", "effect": "NoSchedule"}, {"key": "a", "value": "y", "effect": "NoSchedule"}],
        )
    )
    assert (twice.path, "t[0]" in twice.problem) == ("t[1]", True)
    assert only(node_pools.taints("t", [{"key": "a", "effect": "no_schedule"}])).fix == "Write 'NoSchedule'"
    assert only(node_pools.taints("t", [{"key": "a", "effect": "noexecute"}])).fix == "Write 'NoExecute'"
    assert only(node_pools.taints("t", [{"effect": "NoSchedule"}])).path == "t[0].key"
    assert only(node_pools.taints("t", [{"key": "a", "value": "x y", "effect": "NoSchedule"}])).path == "t[0].value"


def test_at_most_fifty_taints() -> None:
    def many(count: int) -> list[dict[str, str]]:
        return [{"key": f"k{number}", "effect": "NoSchedule"} for number in range(count)]

    assert node_pools.taints("t", many(50)) == []
    assert only(node_pools.taints("t", many(51))).fix == "Leave 1 out"


TAINT = [{"key": "a", "effect": "NoSchedule"}]


@pytest.mark.parametrize(
    ("pools", "fine"),
    [
        ({"system": {"type": "c1a.8x", "count": 2}, "train": {"type": "h100-80gb-sxm-ib.8x", "count": 2}}, True),
        ({"system": {"type": "c1a.8x", "autoscaling": {"min": 1, "max": 3}}}, True),
        ({"system": {"type": "c1a.8x", "nodeTaints": [{"key": "a", "effect": "PreferNoSchedule"}]}}, True),
        ({"odd": {"type": "c1a-8x", "count": 1}}, True),
        ({"system": {"type": "c1a.8x", "count": -1}}, True),
        ({"system": {"type": "c1a.8x", "autoscaling": {"min": -1, "max": 3}}}, True),
        ({}, False),
        ({"train": {"type": "h100-80gb-sxm-ib.8x", "count": 2}}, False),
        ({"system": {"type": "c1a.8x", "count": 0}}, False),
        ({"system": {"type": "c1a.8x", "autoscaling": {"min": 0, "max": 3}}}, False),
        ({"system": {"type": "c1a.8x", "count": 2, "nodeTaints": TAINT}}, False),
    ],
)
def test_cluster_add_ons_need_a_pool(pools: dict[str, object], fine: bool) -> None:
    found = node_pools.system_pool("platform.nodePools", pools)
    assert (found == []) is fine
    if not fine:
        assert "c1a.8x" in only(found).fix


def test_placement_is_for_cpu_types() -> None:
    assert (
        node_pools.placement("p", "c1a.8x", "spread")
        == node_pools.placement("p", "h100-80gb-sxm-ib.8x", "unspecified")
        == []
    )
    assert "ignores" in only(node_pools.placement("p", "h100-80gb-sxm-ib.8x", "spread")).problem
    assert only(node_pools.placement("p", "c1a.8x", "cluster")).fix.startswith("Write 'spread'")


@pytest.mark.parametrize(
    ("version", "pool", "refused"),
    [
        (V1, {"consentMode": "off"}, ["consentMode"]),
        (V1, {"allowScaleDown": True, "consentMode": "auto"}, ["allowScaleDown", "consentMode"]),
        (V1, {"leaveVmsOnScaleDown": True}, []),
        (V2, {"leaveVmsOnScaleDown": True}, ["leaveVmsOnScaleDown"]),
        (V2, {"consentMode": "off", "allowScaleDown": True}, []),
        (V1, {"allowScaleDown": False, "consentMode": None}, []),
        ("nonsense", {"consentMode": "off", "leaveVmsOnScaleDown": True}, []),
        (None, {"consentMode": "off"}, []),
    ],
)
def test_settings_of_the_other_generation_are_refused_by_name(
    version: str | None, pool: dict[str, object], refused: list[str]
) -> None:
    found = node_pools.generation("p", version, pool)
    assert sorted(each.path for each in found) == [f"p.{name}" for name in refused]
    for each in found:
        assert each.path.split(".")[1] in each.problem


def test_a_lower_count_needs_a_declaration() -> None:
    def check(
        version: object, running: object, wanted: object, leave: object = None, allow: object = None
    ) -> list[Finding]:
        return node_pools.scale_down(
            "p.count", cluster_version=version, running=running, wanted=wanted, leave_vms=leave, allow=allow
        )

    assert check(V1, 4, 4) == check(V1, 4, 5) == check(V1, 4, 2, leave=True) == check(V2, 4, 2, allow=True) == []
    v1 = only(check(V1, 4, 2))
    assert "2 of 4 VMs running and billed" in v1.problem
    assert "leaveVmsOnScaleDown: true" in v1.fix
    assert "allowScaleDown: true" in only(check(V2, 4, 2)).fix
    assert only(check(V1, 4, 2, allow=True))
    assert only(check(V2, 4, 2, leave=True))
    assert check(None, 4, 2) == check(V1, None, 2) == []


def test_reservation_is_one_thing() -> None:
    assert (
        node_pools.reservation("r", {"id": "x"})
        == node_pools.reservation("r", {"selectionStrategy": "on_demand"})
        == []
    )
    assert "both" in only(node_pools.reservation("r", {"id": "x", "selectionStrategy": "on_demand"})).problem
    assert only(node_pools.reservation("r", {"selectionStrategy": "On-Demand"})).fix == "Write 'on_demand'"


def test_all_rules_of_one_pool_at_once() -> None:
    found = node_pools.pool(
        "p",
        {
            "type": "h100",
            "count": 2,
            "minCount": 3,
            "nodeLabels": {"crusoe.ai/x": "y"},
            "nodeTaints": [{"key": "a", "effect": "x"}],
            "publicIpType": "public",
            "consentMode": "always",
            "placementPolicy": "x",
            "reservation": {"selectionStrategy": "x"},
            "leaveVmsOnScaleDown": True,
        },
        cluster_version=V2,
        has_partition=True,
    )
    assert sorted(each.path for each in found) == [
        "p.consentMode",
        "p.leaveVmsOnScaleDown",
        "p.minCount",
        "p.nodeLabels.crusoe.ai/x",
        "p.nodeTaints[0].effect",
        "p.placementPolicy",
        "p.publicIpType",
        "p.reservation.selectionStrategy",
        "p.type",
    ]
    assert (
        node_pools.pool("p", {"type": "h100-80gb-sxm-ib.8x", "count": 2}, cluster_version=V1, has_partition=True) == []
    )
    assert only(node_pools.pool("p", {"type": "h100-80gb-sxm-ib.8x"}, has_partition=False)).path == "p.ibPartitionId"
