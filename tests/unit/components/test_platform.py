"""The whole platform: frozen tokens and names, one provider, protection, order, and the outputs that are a contract."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.unit.components.support import (
    KUBECONFIG,
    STACK,
    Deployment,
    Json,
    deploy_platform,
    faults,
    settings_document,
)

OUTPUTS = Path(__file__).parents[3] / "docs" / "outputs.md"


def everything(**changes: object) -> Json:
    """Settings with each part in use."""
    document = settings_document(
        network={
            "infiniband": {"networkId": "00000000-0000-4000-8000-000000000101"},
            "ingress": [{"name": "ssh", "cidrs": ["203.0.113.0/24"], "ports": ["22"]}],
        },
        cluster={
            "version": "1.33.4-cmk.43",
            "oidc": {"issuerUrl": "https://login.example.com", "clientId": "gpu"},
            "viewers": ["team"],
            "operators": ["platform"],
        },
        storage={"disks": {"home": {"size": "1TiB"}}},
    )
    return {**document, **changes}


@pytest.fixture(scope="module")
def deployment() -> Deployment:
    return deploy_platform(everything())


# A change here replaces what users have: a new name or parent needs an alias in the component.
RELEASED = {
    "platform": ("gpuplatform:platform:Platform", ""),
    "platform-crusoe": ("pulumi:providers:crusoe", "platform"),
    "platform-storage": ("gpuplatform:storage:Storage", "platform"),
    "platform-storage-home": ("crusoe:index:StorageDisk", "platform-storage"),
    "platform-network": ("gpuplatform:network:Network", "platform"),
    "platform-network-vpc": ("crusoe:index:VpcNetwork", "platform-network"),
    "platform-network-subnet": ("crusoe:index:VpcSubnet", "platform-network"),
    "platform-network-intra-vpc": ("crusoe:index:VpcFirewallRule", "platform-network"),
    "platform-network-intra-vpc-icmp": ("crusoe:index:VpcFirewallRule", "platform-network"),
    "platform-network-egress": ("crusoe:index:VpcFirewallRule", "platform-network"),
    "platform-network-ingress-ssh": ("crusoe:index:VpcFirewallRule", "platform-network"),
    "platform-network-infiniband": ("crusoe:index:IbPartition", "platform-network"),
    "platform-cluster": ("gpuplatform:cluster:Cluster", "platform"),
    "platform-cluster-cmk": ("crusoe:index:KubernetesCluster", "platform-cluster"),
    "platform-cluster-kubernetes": ("pulumi:providers:kubernetes", "platform-cluster"),
    "platform-cluster-role-viewer": ("kubernetes:rbac.authorization.k8s.io/v1:ClusterRole", "platform-cluster"),
    "platform-cluster-role-operator": ("kubernetes:rbac.authorization.k8s.io/v1:ClusterRole", "platform-cluster"),
    "platform-cluster-grant-view": ("kubernetes:rbac.authorization.k8s.io/v1:ClusterRoleBinding", "platform-cluster"),
    "platform-cluster-grant-viewer": ("kubernetes:rbac.authorization.k8s.io/v1:ClusterRoleBinding", "platform-cluster"),
    "platform-cluster-grant-operator": (
        "kubernetes:rbac.authorization.k8s.io/v1:ClusterRoleBinding",
        "platform-cluster",
    ),
    "platform-autoclusters": ("gpuplatform:autoclusters:AutoClusters", "platform"),
    "platform-autoclusters-config": ("crusoe:index:AutoClustersConfig", "platform-autoclusters"),
    "platform-pools": ("gpuplatform:node_pools:NodePools", "platform"),
    "platform-pools-system": ("crusoe:index:KubernetesNodePool", "platform-pools"),
    "platform-pools-train": ("crusoe:index:KubernetesNodePool", "platform-pools"),
}


def test_tokens_names_and_parents_are_the_released_ones(deployment: Deployment) -> None:
    names = {each.urn: each.name for each in deployment.resources}
    found = {each.name: (each.type, names.get(each.parent, "")) for each in deployment.resources}
    assert found == RELEASED


def test_every_cloud_resource_uses_the_one_explicit_provider(deployment: Deployment) -> None:
    provider = deployment.one("platform-crusoe")
    assert provider.inputs == {"endpoint": "http://127.0.0.1:8787/v1", "project": "local"}
    assert {each.provider for each in deployment.cloud_resources()} == {provider.urn}


def test_named_resources_are_deleted_before_they_are_replaced(deployment: Deployment) -> None:
    kept = {each.name for each in deployment.cloud_resources() if not each.delete_before_replace}
    assert kept == set()


def test_protected_are_network_cluster_gpu_pools_and_disks(deployment: Deployment) -> None:
    assert {each.name for each in deployment.resources if each.protect} == {
        "platform-network-vpc",
        "platform-network-subnet",
        "platform-cluster-cmk",
        "platform-pools-train",
        "platform-storage-home",
    }


def test_nothing_is_protected_in_a_throw_away_environment() -> None:
    assert [each for each in deploy_platform(everything(protect=False)).resources if each.protect] == []


def test_nothing_a_person_may_change_is_ignored(deployment: Deployment) -> None:
    assert {each.ignore_changes for each in deployment.resources} == {()}


def test_every_component_registers_its_outputs_last(deployment: Deployment) -> None:
    components = {each.urn for each in deployment.resources if not each.custom}
    assert components <= deployment.registered_outputs.keys()
    assert all(deployment.registered_outputs[urn] for urn in components)


def test_the_order_of_the_parts(deployment: Deployment) -> None:
    before = deployment.depends_on(deployment.one("platform-pools-train"))
    assert before >= {
        "platform-network-vpc",
        "platform-network-subnet",
        "platform-network-intra-vpc",
        "platform-network-egress",
        "platform-network-infiniband",
        "platform-cluster-cmk",
        "platform-autoclusters-config",
    }
    assert not {name for name in before if name.startswith("platform-storage")}


def test_physical_names_hold_the_stack() -> None:
    one, two = deploy_platform(everything(), "one"), deploy_platform(everything(), "two")
    named = [each for each in one.cloud_resources() if "name" in each.inputs]
    assert named
    for each in named:
        assert each.inputs["name"].startswith("one-")
        assert two.one(each.name).inputs["name"] == each.inputs["name"].replace("one-", "two-", 1)


def test_a_stack_name_that_makes_no_physical_name_is_refused() -> None:
    assert "other characters" in faults(everything(), "My_Stack")["platform.cluster.name"]


def test_outputs(deployment: Deployment) -> None:
    assert deployment.exports == {
        "clusterId": "platform-cluster-cmk-id",
        "kubeconfig": KUBECONFIG,
        "networkId": "platform-network-vpc-id",
        "subnetId": "platform-network-subnet-id",
        "poolIds": {"system": "platform-pools-system-id", "train": "platform-pools-train-id"},
        "gpuTotals": {"h100-80gb-sxm-ib.8x": {"min": 16, "max": 16}},
        "autoClusters": {"setOn": "cluster", "actions": {"XID_79": "OFF"}, "consentModes": {}},
        "diskIds": {"home": "platform-storage-home-id"},
        "loginHost": "",
        "slurm": {"mode": "none", "clusterName": "", "nodeSets": {}, "partitions": []},
        "slurmKubeconfig": "",
        "gpuSharing": {},
        "observability": {"stack": "none", "routes": {}},
    }
    assert deployment.secret_exports == {"kubeconfig"}


def test_the_documented_outputs_are_those_of_the_program(deployment: Deployment) -> None:
    documented = re.findall(r"^\| `(\w+)` \|", OUTPUTS.read_text(encoding="utf-8"), re.MULTILINE)
    assert documented == list(deployment.exports)


def test_the_same_settings_give_the_same_declarations(deployment: Deployment) -> None:
    again = deploy_platform(everything())
    assert {each.urn: each for each in again.resources} == {each.urn: each for each in deployment.resources}


@pytest.mark.parametrize(
    ("changes", "path", "problem"),
    [
        ({"location": "us-east"}, "location", "does not look like a location"),
        ({"cloud": {"project": ""}}, "cloud.project", "too short"),
        (
            {"cloud": {"project": "p", "endpoint": "http://api.example.com/v1"}},
            "cloud.endpoint",
            "not an https address",
        ),
        ({"cloud": {"project": "p", "endpoint": "https://u:p@api.example.com"}}, "cloud.endpoint", "not an https"),
        ({"protect": "false"}, "protect", "neither true nor false"),
        ({"nodepools": {}}, "nodepools", "no such setting"),
    ],
)
def test_refused(changes: dict[str, object], path: str, problem: str) -> None:
    found = faults(everything(**changes))
    assert problem in found[f"platform.{path}"], found


def test_faults_of_every_part_are_told_at_once() -> None:
    found = faults(
        everything(
            location="nowhere",
            network={"cidr": "10.0.0.0/33"},
            cluster={"version": "1"},
            storage={"disks": {"home": {"size": "1"}}},
            autoClusters={"actions": {"x y": "OFF"}},
            protect=1,
        )
    )
    assert {path.split(".")[1] for path in found} == {
        "location",
        "network",
        "cluster",
        "storage",
        "autoClusters",
        "protect",
    }
    assert STACK not in found
