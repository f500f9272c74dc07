"""Node pools: what is declared, what is derived, and which settings are refused."""

from __future__ import annotations

import pytest

from components.node_pools import gpu_totals, plan
from tests.unit.components.support import (
    Deployment,
    Json,
    deploy_platform,
    faults,
    settings_document,
    settings_of,
)

SYSTEM = {"type": "c1a.8x", "count": 2}
H100, L40S, MI355X = "h100-80gb-sxm-ib.8x", "l40s-48gb.10x", "mi355x-288gb-roce.8x"
PARTITION = "3f6c9f0e-22d5-4a0c-8d9b-7b1f6d0a9c55"
V1, V2 = "1.33.4-cmk.43", "1.35.5"


def document(cluster_version: str = V1, /, **train: object) -> Json:
    pools = {"system": dict(SYSTEM), "train": {"type": H100, "count": 2, **train}}
    return settings_document(cluster={"version": cluster_version}, nodePools=pools)


def deployed(cluster_version: str = V1, /, **train: object) -> Deployment:
    return deploy_platform(document(cluster_version, **train))


def train(cluster_version: str = V1, /, **changes: object) -> Json:
    return dict(deployed(cluster_version, **changes).one("platform-pools-train").inputs)


def test_a_gpu_pool() -> None:
    pool = deployed().one("platform-pools-train")
    assert pool.inputs == {
        "name": "test-train",
        "clusterId": "platform-cluster-cmk-id",
        "type": H100,
        "count": 2,
        "minCount": 2,
        "version": V1,
        "subnetId": "platform-network-subnet-id",
        "ibPartitionId": "platform-network-infiniband-id",
        "publicIpType": "none",
        "nodeLabels": {},
        "nodeTaints": [],
        "drained": False,
        "adoptExisting": True,
    }
    assert pool.protect


def test_a_cpu_pool_is_in_no_partition_and_may_go() -> None:
    pool = deployed().one("platform-pools-system")
    assert "ibPartitionId" not in pool.inputs
    assert not pool.protect


def test_everything_that_can_be_set_reaches_the_pool() -> None:
    taint = {"key": "example.com/dedicated", "value": "training", "effect": "NoSchedule"}
    given = {
        "minCount": 1,
        "version": "1.33.4-cmk.20",
        "nodeLabels": {"example.com/team": "vision"},
        "nodeTaints": [taint],
        "reservation": {"id": PARTITION},
        "sshPublicKey": "ssh-ed25519 AAAA me",
        "publicIpType": "static",
        "ephemeralStorageForContainerd": True,
        "nvlinkDomainId": PARTITION,
        "leaveVmsOnScaleDown": True,
    }
    inputs = train(**given)
    assert {key: inputs[key] for key in given} == given


def test_taints_without_value_have_an_empty_one() -> None:
    assert train(nodeTaints=[{"key": "a", "effect": "NoExecute"}])["nodeTaints"] == [
        {"key": "a", "value": "", "effect": "NoExecute"}
    ]


def test_placement_of_a_cpu_pool() -> None:
    pools = {"system": {**SYSTEM, "placementPolicy": "spread"}}
    deployment = deploy_platform(settings_document(nodePools=pools))
    assert deployment.one("platform-pools-system").inputs["placementPolicy"] == "spread"


def test_the_autoscaler_owns_the_number_of_nodes() -> None:
    pools = {"system": SYSTEM, "train": {"type": H100, "autoscaling": {"min": 2, "max": 8}, "reserve": 1}}
    document = settings_document(nodePools=pools, cluster={"version": V2})
    inputs = deploy_platform(document).one("platform-pools-train").inputs
    assert "count" not in inputs
    assert inputs["autoscaling"] == {"min": 2, "max": 8}
    assert inputs["minCount"] == 1


def test_spares_may_be_missing_and_nothing_else() -> None:
    assert train(count=5, reserve=2)["minCount"] == 3
    assert train(count=5, reserve=2, minCount=4)["minCount"] == 4


def test_v2_pools_never_consent_by_default() -> None:
    deployment = deployed(V2)
    assert {pool.name: pool.inputs["consentMode"] for pool in deployment.of("KubernetesNodePool")} == {
        "platform-pools-system": "off",
        "platform-pools-train": "off",
    }
    assert train(V2, consentMode="auto")["consentMode"] == "auto"
    assert train(V2, allowScaleDown=True)["allowScaleDown"] is True


def test_v1_pools_have_no_consent() -> None:
    assert all("consentMode" not in pool.inputs for pool in deployed().of("KubernetesNodePool"))


def test_a_partition_of_its_own_replaces_the_platforms() -> None:
    inputs = train(transportPartitionId=PARTITION)
    assert inputs["transportPartitionId"] == PARTITION
    assert "ibPartitionId" not in inputs


def test_a_name_given_by_hand_is_never_adopted() -> None:
    inputs = train(name="shared")
    assert (inputs["name"], inputs["adoptExisting"]) == ("shared", False)


def test_pools_wait_for_autoclusters_to_be_off() -> None:
    deployment = deployed()
    for pool in deployment.of("KubernetesNodePool"):
        assert "platform-autoclusters-config" in deployment.depends_on(pool)


def test_retiring_drains_and_takes_the_protection_away() -> None:
    retiring = deployed(retire=True)
    pool = retiring.one("platform-pools-train")
    assert pool.inputs["drained"] is True
    assert not pool.protect
    assert retiring.exports["gpuTotals"] == {}


def test_gpu_totals_by_type() -> None:
    pools = {
        "system": SYSTEM,
        "train": {"type": H100, "count": 3},
        "more": {"type": H100, "autoscaling": {"min": 1, "max": 4}},
        "serve": {"type": L40S, "count": 2},
    }
    document = settings_document(nodePools=pools, cluster={"version": V2})
    assert deploy_platform(document).exports["gpuTotals"] == {
        H100: {"min": 32, "max": 56},
        L40S: {"min": 20, "max": 20},
    }


@pytest.mark.parametrize(
    ("changes", "path", "problem"),
    [
        ({"type": "h100"}, "type", "not a VM type"),
        ({"count": None}, "count", "neither a count nor autoscaling"),
        ({"count": -1}, "count", "not between 0"),
        ({"minCount": 3}, "minCount", "more than the count"),
        ({"autoscaling": {"min": 1, "max": 2}}, "count", "the autoscaler owns"),
        ({"count": None, "autoscaling": {"min": 3, "max": 2}}, "autoscaling.min", "more than the maximum"),
        ({"count": None, "autoscaling": {"min": 1, "max": 2}, "minCount": 2}, "minCount", "may shrink to 1"),
        ({"reserve": 2}, "reserve", "leave none to work with"),
        ({"reserve": -1}, "reserve", "below zero"),
        ({"count": None, "autoscaling": {"min": 1, "max": 9}, "reserve": 1}, "reserve", "leave none"),
        ({"name": "Bad"}, "", "other characters"),
        ({"version": "1.34.0-cmk.1"}, "version", "newer than the cluster"),
        ({"nodeLabels": {"crusoe.ai/x": "y"}}, "nodeLabels.crusoe.ai/x", "reserved"),
        ({"nodeTaints": [{"key": "a b", "effect": "NoSchedule"}]}, "nodeTaints[0].key", "not a key"),
        ({"nodeTaints": [{"key": "a", "effect": "Never"}]}, "nodeTaints[0].effect", "not one of"),
        ({"placementPolicy": "spread"}, "placementPolicy", "ignores it for GPU types"),
        ({"publicIpType": "some"}, "publicIpType", "not one of"),
        ({"reservation": {"selectionStrategy": "cheap"}}, "reservation.selectionStrategy", "not one of"),
        ({"consentMode": "off"}, "consentMode", "a setting of CMK v2"),
        ({"allowScaleDown": True}, "allowScaleDown", "a setting of CMK v2"),
        ({"transportPartitionId": "mine"}, "transportPartitionId", "not the id"),
        ({"type": L40S, "transportPartitionId": PARTITION}, "transportPartitionId", "has no InfiniBand"),
        ({"type": MI355X}, "transportPartitionId", "needs a partition"),
    ],
)
def test_refused(changes: dict[str, object], path: str, problem: str) -> None:
    found = faults(document(**changes))
    assert problem in found[f"platform.nodePools.train{'.' if path else ''}{path}"], found


@pytest.mark.parametrize(
    ("changes", "path", "problem"),
    [
        ({"leaveVmsOnScaleDown": True}, "leaveVmsOnScaleDown", "a setting of CMK v1"),
        ({"type": "a100-80gb.1x", "consentMode": "auto"}, "consentMode", "slice"),
        ({"consentMode": "yes"}, "consentMode", "not one of"),
    ],
)
def test_refused_on_v2(changes: dict[str, object], path: str, problem: str) -> None:
    assert problem in faults(document(V2, **changes))[f"platform.nodePools.train.{path}"]


def test_infiniband_types_need_the_platforms_partition_or_their_own() -> None:
    without: Json = {**document(), "network": {}}
    assert "needs a partition" in faults(without)["platform.network.infiniband"]
    without["nodePools"]["train"]["transportPartitionId"] = PARTITION
    assert faults(without) == {}


def test_a_platform_needs_a_pool_for_the_clusters_own_pods() -> None:
    for pools in (
        {"train": {"type": H100, "count": 2}},
        {"system": {**SYSTEM, "retire": True}, "train": {"type": H100, "count": 2}},
        {"system": {**SYSTEM, "nodeTaints": [{"key": "a", "effect": "NoSchedule"}]}},
        {},
    ):
        assert "no pool is left for cluster add-ons" in faults(settings_document(nodePools=pools))["platform.nodePools"]


@pytest.mark.parametrize("key", ["login", "controller", "accounting", "all", "spare"])
def test_names_that_other_parts_need_are_reserved(key: str) -> None:
    pools = {"system": SYSTEM, key: {"type": H100, "count": 1}}
    assert "reserved" in faults(settings_document(nodePools=pools))[f"platform.nodePools.{key}"]


def test_no_two_pools_have_one_name() -> None:
    pools = {"system": SYSTEM, "a": {"type": H100, "count": 1, "name": "test-system"}}
    assert "already that of" in faults(settings_document(nodePools=pools))["platform.nodePools.a.name"]


def test_the_whole_name_has_to_fit() -> None:
    pools = {"system": SYSTEM, "a" * 60: {"type": H100, "count": 1}}
    assert "63 are allowed" in faults(settings_document(nodePools=pools))[f"platform.nodePools.{'a' * 60}"]


def with_pools(number: int) -> Json:
    pools = {"system": SYSTEM, **{f"pool-{index}": {"type": H100, "count": 2} for index in range(number)}}
    return settings_document(nodePools=pools)


def test_five_hundred_pools_are_accepted_and_counted() -> None:
    settings = settings_of(with_pools(500))
    pools = plan(settings.node_pools, stack="test", cluster_version=V1, protect=True)
    assert gpu_totals(pools) == {H100: {"min": 8000, "max": 8000}}


def test_each_of_many_pools_is_declared_and_exported() -> None:
    deployment = deploy_platform(with_pools(60))  # the benchmark previews 500 with the real engine
    assert len(deployment.of("KubernetesNodePool")) == 61
    assert len({pool.inputs["name"] for pool in deployment.of("KubernetesNodePool")}) == 61
    assert deployment.exports["gpuTotals"] == {H100: {"min": 960, "max": 960}}
    assert len(deployment.exports["poolIds"]) == 61
