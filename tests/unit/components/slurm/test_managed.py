"""Crusoe Managed Slurm: what is asked of the service, and what is set in the cluster behind it."""

from __future__ import annotations

from functools import cache

from tests.unit.components.support import KUBECONFIG, Deployment, Json, Recorded, deploy_platform, settings_document

PREFIX = "platform-slurm-managed"
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIExampleExample ada"


def document(**changes: object) -> Json:
    slurm: Json = {
        "mode": "managed",
        "login": {"rootKeys": [KEY], "cidrs": ["203.0.113.0/24"], "replicas": 1},
        "people": {
            "users": {"ada": {"keys": [KEY], "groups": ["vision"]}, "ops": {"keys": [KEY], "sudo": True}},
            "groups": {"vision": {}},
        },
        "managed": {"nodeSets": {"train": {"type": "h100-80gb-sxm-ib.8x", "count": 2}}},
        **changes,
    }
    return settings_document(slurm=slurm)


@cache
def whole() -> Deployment:
    return deploy_platform(document())


def managed(name: str) -> Recorded:
    return whole().one(f"{PREFIX}-{name}")


def test_the_slurm_cluster_is_in_the_platforms_network_and_protected() -> None:
    cluster = managed("cluster")
    assert (cluster.inputs["name"], cluster.inputs["subnetId"]) == ("test-slurm", "platform-network-subnet-id")
    assert cluster.inputs["rootSshPublicKeys"] == [KEY]
    assert cluster.protect
    # A network without rules denies everything, and nothing would ever start in it.
    assert "platform-network-egress" in whole().depends_on(cluster)


def test_login_is_closed_before_there_are_nodes_to_work_on() -> None:
    ranges = managed("login-ranges")
    assert ranges.type == "kubernetes:slurm.crusoe.ai/v1alpha1:SlurmClusterPatch"
    assert ranges.inputs["kind"] == "SlurmCluster"
    assert ranges.inputs["spec"] == {"loginSet": {"firewallRuleSourceRanges": ["203.0.113.0/24"]}}
    assert ranges.inputs["metadata"]["annotations"] == {"pulumi.com/patchForce": "true"}
    assert f"{PREFIX}-login-ranges" in whole().depends_on(managed("nodes-train"))


def test_without_networks_only_the_platforms_own_may_log_in() -> None:
    deployment = deploy_platform(document(login={"rootKeys": [KEY]}))
    ranges = deployment.one(f"{PREFIX}-login-ranges").inputs["spec"]["loginSet"]["firewallRuleSourceRanges"]
    assert ranges == ["10.0.0.0/16"]


def test_autoclusters_is_off_before_there_are_nodes() -> None:
    config = managed("autoclusters")
    assert config.inputs == {"clusterId": "cmk-behind", "remediationActions": {}}
    assert f"{PREFIX}-autoclusters" in whole().depends_on(managed("nodes-train"))


def test_a_node_set_joins_the_platforms_infiniband_partition() -> None:
    inputs = managed("nodes-train").inputs
    assert (inputs["type"], inputs["count"]) == ("h100-80gb-sxm-ib.8x", 2)
    assert inputs["transportPartitionId"] == "platform-network-infiniband-id"


def test_people_become_root_by_name_only() -> None:
    users = {each.inputs["metadata"]["name"]: each.inputs["spec"] for each in whole().of("SlurmUser")}
    assert {name: spec["disableSudo"] for name, spec in users.items()} == {"ada": True, "ops": False}
    (group,) = whole().of("SlurmUserGroup")
    assert group.inputs["spec"]["users"] == ["ada"]


def test_everything_inside_goes_with_the_slurm_cluster_and_through_its_own_provider() -> None:
    provider, cluster = managed("kubernetes"), managed("cluster")
    assert provider.inputs["kubeconfig"] == KUBECONFIG
    assert "kubeconfig" in provider.secrets
    inside = [each for each in whole().resources if each.provider == provider.urn]
    assert len(inside) == 4
    assert {each.deleted_with for each in inside} == {cluster.urn}


def test_where_to_log_in() -> None:
    assert whole().exports["loginHost"] == "192.0.2.7"
