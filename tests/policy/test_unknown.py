"""What is not known in a preview is an outcome of its own: advice that it can't be checked yet, never a silent pass."""

from __future__ import annotations

from typing import Any

import pytest

from crusoe.rules.values import table
from policies import examples
from policies.pack import BY_NAME, POLICIES
from tests.policy.analyzer import UNKNOWN, Json, Pack, urn

RULE = "crusoe:index:VpcFirewallRule"

# For each policy that reads a value: a program in which that value is not known, and its path.
CASES: dict[str, tuple[list[Json], str]] = {
    "gpu-pool-whole-host": ([examples.pool(type=UNKNOWN)], "type"),
    "gpu-pool-repairable": ([examples.pool(type=UNKNOWN)], "type"),
    "vm-type-known": ([examples.pool(type=UNKNOWN)], "type"),
    "autoclusters-actions": ([examples.repairs({"XID_79": UNKNOWN})], "remediationActions.XID_79"),
    "autoclusters-way-back": ([examples.repairs({"XID_79": UNKNOWN})], "remediationActions.XID_79"),
    "autoclusters-application-error": ([examples.repairs({"XID_31": UNKNOWN})], "remediationActions.XID_31"),
    "autoclusters-consent-type": ([examples.pool(consentMode=UNKNOWN)], "consentMode"),
    "autoclusters-version": (
        [examples.cluster(version=UNKNOWN), examples.repairs({"XID_79": "REPLACE_NODE"})],
        "version",
    ),
    "autoclusters-pool-types": (
        [examples.cluster(), examples.pool(type=UNKNOWN), examples.repairs({"XID_79": "REPLACE_NODE"})],
        "type",
    ),
    "autoclusters-spare": (
        [examples.pool(count=UNKNOWN), examples.repairs({"XID_79": "REPLACE_NODE"}, fallback=False)],
        "count",
    ),
    "autoclusters-requeue": (
        [examples.pool(), examples.repairs({"XID_79": "REPLACE_NODE"}), examples.controller(UNKNOWN)],
        "spec.extraConf",
    ),
    "autoclusters-checkpoint-window": (
        [
            examples.pool(),
            examples.repairs({"XID_79": "REPLACE_NODE"}),
            examples.workers(template={"spec": {"terminationGracePeriodSeconds": UNKNOWN}}),
        ],
        "spec.template.spec.terminationGracePeriodSeconds",
    ),
    "network-ingress-open": (
        [{"type": RULE, "properties": {"action": "allow", "direction": "ingress", "sources": [UNKNOWN]}}],
        "sources[0]",
    ),
    "gpu-node-public-ip": ([examples.pool(publicIpType=UNKNOWN)], "publicIpType"),
    "load-balancer-open": (
        [
            examples.object_of(
                "core/v1:Service", "s", spec={"type": "LoadBalancer", "loadBalancerSourceRanges": UNKNOWN}
            )
        ],
        "spec.loadBalancerSourceRanges",
    ),
    "slurm-login-open": (
        [
            examples.object_of(
                "slurm.crusoe.ai/v1alpha1:SlurmCluster",
                "s",
                spec={"loginSet": {"firewallRuleSourceRanges": [UNKNOWN]}},
            )
        ],
        "spec.loginSet.firewallRuleSourceRanges[0]",
    ),
    "cluster-api-anonymous": (
        [examples.cluster(apiserverExtraArgs={"anonymous-auth": UNKNOWN})],
        "apiserverExtraArgs.anonymous-auth",
    ),
    "cluster-api-public": ([examples.cluster(private=UNKNOWN)], "private"),
    "slurm-requeue": ([examples.controller(UNKNOWN)], "spec.extraConf"),
    "slurm-kill-wait": ([examples.controller(UNKNOWN)], "spec.extraConf"),
    "slurm-user-sudo": (
        [examples.object_of("slurm.crusoe.ai/v1alpha1:SlurmUser", "ada", spec={"disableSudo": UNKNOWN})],
        "spec.disableSudo",
    ),
    "slurm-login-root": (
        [examples.slurm("LoginSet", "login", {"extraSshdConfig": UNKNOWN})],
        "spec.extraSshdConfig",
    ),
    "image-pinned": (
        [examples.object_of("core/v1:Pod", "p", spec={"containers": [{"name": "a", "image": UNKNOWN}]})],
        "spec.containers[0].image",
    ),
    "chart-pinned": (
        [examples.object_of("helm.sh/v3:Release", "r", chart="oci://example.com/charts/x", version=UNKNOWN)],
        "version",
    ),
    "slurm-disruption-budget": (
        [examples.workers(workloadDisruptionProtection=UNKNOWN)],
        "spec.workloadDisruptionProtection",
    ),
    "gpu-serving-disruption-budget": (
        [
            examples.object_of(
                "apps/v1:Deployment",
                "d",
                metadata={"name": "d", "namespace": "d"},
                spec={"replicas": UNKNOWN, "template": {"spec": {"containers": [examples.gpu_container()]}}},
            )
        ],
        "spec.replicas",
    ),
    "gpu-quota-capacity": (
        [
            examples.pool(count=UNKNOWN),
            examples.object_of("core/v1:ResourceQuota", "q", spec={"hard": {"requests.nvidia.com/gpu": "8"}}),
        ],
        "count",
    ),
    "gpu-pod-outside-share": (
        [
            examples.object_of(
                "core/v1:ResourceQuota",
                "q",
                metadata={"namespace": "a"},
                spec={"hard": {"requests.nvidia.com/gpu": "8"}},
            ),
            examples.object_of(
                "core/v1:Pod", "p", metadata={"namespace": UNKNOWN}, spec={"containers": [examples.gpu_container()]}
            ),
        ],
        "metadata.namespace",
    ),
    "gpu-priority-above-floor": (
        [examples.object_of("scheduling.k8s.io/v1:PriorityClass", "c", metadata={"name": "c"}, value=UNKNOWN)],
        "value",
    ),
    "production-protected": ([examples.pool(type=UNKNOWN)], "type"),
    "production-protected-slurm": ([examples.workers(replicas=UNKNOWN)], "spec.replicas"),
    "gpu-limit-pool": ([examples.pool(count=UNKNOWN)], "count"),
    "gpu-limit-stack": ([examples.pool(count=UNKNOWN)], "count"),
    "fabric-partition": ([examples.pool(type="h100-80gb-sxm-ib.8x", count=UNKNOWN)], "count"),
}

# They judge what is always known: options of the program, texts as they are, the configuration.
ALWAYS_KNOWN = {
    "named-delete-before-replace",
    "secret-in-clear",
    "exemption-live",
    "exemption-dead",
}


def test_every_policy_has_a_case() -> None:
    assert CASES.keys() | ALWAYS_KNOWN == {policy.name for policy in POLICIES}


@pytest.mark.parametrize("name", CASES)
def test_an_unknown_value_is_said_and_refuses_nothing(pack: Pack, name: str) -> None:
    resources, path = CASES[name]
    said = [each for each in pack.judge(*resources) if each.policy == name]
    assert [each.level for each in said] == ["advisory"]
    assert said[0].is_unknown
    assert f"{path} is not known in a preview" in said[0].text


@pytest.mark.parametrize("name", CASES)
def test_a_disabled_policy_says_nothing(process: Pack, name: str) -> None:
    process.configure({name: "disabled"})
    resources, _ = CASES[name]
    assert [each for each in process.judge(*resources) if each.policy == name] == []


def test_a_fault_that_is_known_counts_although_another_value_is_not(pack: Pack) -> None:
    properties = {"action": "allow", "direction": "ingress", "sources": [UNKNOWN, "0.0.0.0/0"]}
    said = pack.judge({"type": RULE, "name": "ssh", "properties": properties})
    assert [(each.policy, each.level) for each in said] == [("network-ingress-open", "mandatory")]


@pytest.mark.parametrize(
    ("spec", "path"),
    [
        (UNKNOWN, "spec"),
        ({"containers": UNKNOWN}, "spec.containers"),
        ({"containers": [{"name": "a", "image": "a:1.0"}], "initContainers": UNKNOWN}, "spec.initContainers"),
    ],
)
def test_containers_that_are_not_known_are_no_pass(pack: Pack, spec: Any, path: str) -> None:
    [said] = pack.judge(examples.object_of("core/v1:Pod", "p", spec=spec), stack="dev")
    assert said.policy == "image-pinned"
    assert f"{path}" in said.text
    assert said.is_unknown


def test_a_number_of_gpus_that_is_not_known_is_no_pass(pack: Pack) -> None:
    quota = examples.object_of(
        "core/v1:ResourceQuota", "q", metadata={"namespace": "a"}, spec={"hard": {"requests.nvidia.com/gpu": "8"}}
    )
    container = {"name": "m", "image": "m:1.0", "resources": {"limits": {"nvidia.com/gpu": UNKNOWN}}}
    pod = examples.object_of("core/v1:Pod", "p", metadata={"namespace": "b"}, spec={"containers": [container]})
    [said] = pack.judge(quota, pod, stack="dev")
    assert said.policy == "gpu-pod-outside-share"
    assert "spec.containers[0].resources.limits.nvidia.com/gpu is not known in a preview" in said.text


def test_a_partition_that_is_made_in_the_same_up_is_one(pack: Pack) -> None:
    pool = examples.pool(type="h100-80gb-sxm-ib.8x", count=4, ibPartitionId=UNKNOWN)
    assert pack.judge(pool, stack="dev") == []


@pytest.mark.parametrize("value", [None, True, 7, "", "x", [], {}, [None], {"x": None}, -1.5])
def test_nothing_that_a_program_may_hold_stops_the_pack(pack: Pack, value: Any) -> None:
    for policy in POLICIES:
        for each in (*policy.good.resources, *policy.bad.resources):
            properties = table(each["properties"])
            for key in properties:
                pack.judge({**each, "properties": {**properties, key: value}})
        pack.judge({"type": "kubernetes:core/v1:PodList", "properties": {"items": value}})


def test_the_urn_names_the_resource(pack: Pack) -> None:
    pool = examples.pool(type="a100-80gb.2x")
    assert {each.resource for each in pack.judge(pool) if each.policy == "gpu-pool-whole-host"} == {"train"}
    assert urn(pool).endswith("::train")
    assert BY_NAME["gpu-pool-whole-host"].url == "docs/policies.md#gpu-pool-whole-host"
