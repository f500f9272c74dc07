"""Managed Slurm in its Kubernetes cluster: what the custom resources take, and what the operator makes of them."""

from __future__ import annotations

import base64
import json
from collections.abc import Generator
from dataclasses import replace
from pathlib import Path

import pytest

from localcloud.kubernetes import KwokControlPlane
from localcloud.managed_slurm.records import NodeSetSpec, SlurmSpec, SlurmStatus
from tests.integration.localcloud_kubernetes.conftest import ACCESS
from tests.integration.localcloud_kubernetes.support import Json, Live, processes_below, until
from tests.unit.localcloud_kubernetes.support import CLUSTER, h100
from tools.toolchain import binary

pytestmark = pytest.mark.integration

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAA someone@example"
CHARTS = Path(__file__).parents[3] / "localcloud/charts"
LOGIN_POOL, GPU_POOL = "pool-of-login", "pool-of-gpus"
GPUS = NodeSetSpec("gpu", GPU_POOL, 2, gpus=8, gpu_resource="nvidia.com/gpu")
SPEC = SlurmSpec(
    id="s",
    name="train",
    version="25.11.2-cmk.19",
    login_type="c1a.8x",
    login_replicas=1,
    login_pool=LOGIN_POOL,
    root_ssh_keys=(KEY,),
    home_size="10Ti",
    home_disk="disk-of-home",
    node_sets=(GPUS,),
)


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Generator[Live]:
    """A control plane with two login nodes and two GPU nodes, looked at once."""
    root = tmp_path_factory.mktemp("slurm") / "kubernetes"
    plane = KwokControlPlane(root, binary=binary, access=ACCESS, drain_seconds=5)
    plane.create(CLUSTER)
    pools = ((LOGIN_POOL, 1), (LOGIN_POOL, 2), (GPU_POOL, 3), (GPU_POOL, 4))
    plane.apply_nodes(
        CLUSTER.id,
        [h100(number, labels={"crusoe.ai/nodepool.id": pool}) for pool, number in pools],
    )
    plane.slurm(CLUSTER.id, SPEC)
    yield Live(plane, CLUSTER, root)
    plane.delete_all()
    assert processes_below(root) == []


def look(live: Live, spec: SlurmSpec = SPEC) -> SlurmStatus:
    return live.plane.slurm(CLUSTER.id, spec)


def made(kind: str, name: str, spec: Json) -> str:
    """An object of Crusoe's group as kubectl takes it."""
    metadata = {"name": name, "namespace": "slurm"}
    return json.dumps({"apiVersion": "slurm.crusoe.ai/v1alpha1", "kind": kind, "metadata": metadata, "spec": spec})


def user(name: str, **more: object) -> str:
    return made("SlurmUser", name, {"clusterReference": "train", "sshPublicKeys": [KEY], **more})


def apply(live: Live, item: str) -> None:
    live.kubectl("apply", "--server-side", "-f", "-", stdin=item)


def refused(live: Live, item: str) -> str:
    """kubectl's words about an object that both ways to write it refuse."""
    said = live.kubectl("create", "-f", "-", stdin=item, ok=False)
    live.kubectl("apply", "--server-side", "-f", "-", stdin=item, ok=False)
    assert "NotFound" in live.kubectl("get", "-f", "-", stdin=item, ok=False)
    return said


def test_pods_come_up_and_are_counted(live: Live) -> None:
    until(lambda: look(live).ready == {"gpu": 2})
    until(lambda: look(live).controller_ready)
    until(lambda: look(live).login_ready == 1)
    names = {item["metadata"]["name"] for item in live.get("pods", "-n", "slurm")["items"]}
    assert {"train-gpu-0", "train-gpu-1", "slurm-train-controller-0"} <= names
    workers = live.get("pods", "-n", "slurm", "-l", "slurm.crusoe.ai/nodeset=gpu")["items"]
    assert {pod["spec"]["nodeName"] for pod in workers} == {"np-3b1f0000-3", "np-3b1f0000-4"}
    assert workers[0]["spec"]["containers"][0]["resources"]["limits"] == {"nvidia.com/gpu": "8"}
    login = live.get("pods", "-n", "slurm", "-l", "slurm.crusoe.ai/component=login")["items"]
    assert {pod["spec"]["nodeName"] for pod in login} <= {"np-3b1f0000-1", "np-3b1f0000-2"}


def test_the_cluster_object_says_what_the_call_said_and_what_runs(live: Live) -> None:
    found = live.get("slurmcluster", "train", "-n", "slurm")
    assert found["spec"] == {
        "clusterVersion": "25.11.2-cmk.19",
        "loginSet": {"replicas": 1, "instanceType": "c1a.8x", "firewallRuleSourceRanges": ["0.0.0.0/0"]},
        "rootSSHPubKeys": [KEY],
        "homeVolumeSize": "10Ti",
    }
    until(lambda: look(live).ready == {"gpu": 2})
    status = live.get("slurmcluster", "train", "-n", "slurm")["status"]
    assert status["nodeSets"] == [{"name": "gpu", "readyNodes": 2}]
    assert [(item["type"], item["status"]) for item in status["conditions"]] == [("Ready", "True")]


def test_login_follows_the_ranges_and_the_address_is_reported(live: Live) -> None:
    service = live.get("service", "train-login", "-n", "slurm")
    assert service["spec"]["type"] == "LoadBalancer"
    assert service["spec"]["loadBalancerSourceRanges"] == ["0.0.0.0/0"]
    assert service["metadata"]["annotations"]["crusoe.ai/manage-firewall-rule"] == "true"
    assert look(live).login_endpoint == ""
    # As the load balancer controller does.
    address = json.dumps({"status": {"loadBalancer": {"ingress": [{"ip": "127.9.9.9"}]}}})
    live.kubectl(
        "patch", "service", "train-login", "-n", "slurm", "--subresource=status", "--type=merge", "-p", address
    )
    assert look(live).login_endpoint == "127.9.9.9"

    ranges = json.dumps({"spec": {"loginSet": {"firewallRuleSourceRanges": ["10.0.0.0/8", "192.0.2.7/32"]}}})
    live.kubectl("patch", "slurmcluster", "train", "-n", "slurm", "--type=merge", "-p", ranges)
    look(live)
    assert live.get("service", "train-login", "-n", "slurm")["spec"]["loadBalancerSourceRanges"] == [
        "10.0.0.0/8",
        "192.0.2.7/32",
    ]
    assert live.get("slurmcluster", "train", "-n", "slurm")["status"]["loginEndpoint"] == "127.9.9.9"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"loginSet": {"firewallRuleSourceRanges": []}}, "should have at least 1 items"),
        ({"loginSet": {"firewallRuleSourceRanges": ["everywhere"]}}, "should match"),
        ({"loginSet": {"firewallRuleSourceRanges": ["10.0.0.0/33"]}}, "should match"),
        ({"loginSet": {"replicas": 0}}, "greater than or equal to 1"),
        ({"loginSet": {"instanceType": "c1a.4x"}}, "instanceType cannot be changed"),
        ({"clusterVersion": "25.11.3-cmk.1"}, "clusterVersion cannot be changed"),
        ({"homeVolumeSize": "20Ti"}, "homeVolumeSize cannot be changed"),
        ({"rootSSHPubKeys": []}, "should have at least 1 items"),
    ],
)
def test_changes_that_the_cluster_object_refuses(live: Live, change: Json, words: str) -> None:
    patch = json.dumps({"spec": change})
    said = live.kubectl("patch", "slurmcluster", "train", "-n", "slurm", "--type=merge", "-p", patch, ok=False)
    assert words in said


@pytest.mark.parametrize(
    ("item", "words"),
    [
        (user("alice", shell="/bin/sh"), 'unknown field "spec.shell"'),
        (user("alice", disableSudo="yes"), "disableSudo"),
        (user("alice", sshPublicKeys=[]), "should have at least 1 items"),
        (user("alice", sshPublicKeys=["secret"]), "should match"),
        (user("alice", fullName="a:b"), "should match"),
        (made("SlurmUser", "alice", {"sshPublicKeys": [KEY]}), "spec.clusterReference"),
        (user("1alice"), "the name must begin with a lower-case letter"),
        (user("al.ice"), "the name must begin with a lower-case letter"),
        (user("a" * 33), "at most 32 characters"),
        (made("SlurmUserGroup", "team", {"clusterReference": "train", "members": []}), 'unknown field "spec.members"'),
        (made("SlurmUserGroup", "team", {"users": []}), "spec.clusterReference"),
        (made("SlurmCluster", "x", {"clusterVersion": "25.11.2-cmk.19", "partitions": []}), "unknown field"),
        (made("SlurmClusterHealthCheck", "mine", {"scripts": []}), "the name must be <cluster>-custom"),
        (made("SlurmClusterHealthCheck", "a-custom", {"scripts": [{"name": "gpu", "source": "x"}]}), "should match"),
        (
            made("SlurmClusterHealthCheck", "a-custom", {"scripts": [{"name": "10-gpu", "source": "x" * 16385}]}),
            "may not be more than 16384",
        ),
        (
            made(
                "SlurmClusterHealthCheck",
                "a-custom",
                {"scripts": [{"name": "10-a", "source": f"exit {number}"} for number in range(51)]},
            ),
            "must have at most 50 items",
        ),
    ],
)
def test_objects_that_are_refused(live: Live, item: str, words: str) -> None:
    assert words in refused(live, item)


def test_users_and_groups_get_ids(live: Live) -> None:
    for name in ("bob", "carol"):
        apply(live, user(name, fullName=name.title()))
    apply(live, made("SlurmUserGroup", "team", {"clusterReference": "train", "users": ["bob", "carol"]}))
    apply(live, made("SlurmUserGroup", "odd", {"clusterReference": "train", "users": ["nobody-known"]}))
    apply(live, user("stray", clusterReference="elsewhere"))
    look(live)

    def status(kind: str, name: str) -> Json:
        return live.get(kind, name, "-n", "slurm")["status"]

    def ready(kind: str, name: str) -> tuple[str, str]:
        [condition] = status(kind, name)["conditions"]
        return condition["status"], condition["reason"]

    numbers = [status("slurmuser", name)["uid"] for name in ("bob", "carol")]
    assert len(set(numbers)) == 2
    assert all(10_000 <= number <= 29_999 for number in numbers)
    assert 50_000 <= status("slurmusergroup", "team")["gid"] <= 65_533
    assert live.get("slurmuser", "bob", "-n", "slurm")["spec"]["disableSudo"] is False
    assert ready("slurmuser", "bob") == ready("slurmusergroup", "team") == ("True", "Ready")
    assert ready("slurmusergroup", "odd") == ("False", "UserNotFound")
    assert ready("slurmuser", "stray") == ("False", "ClusterNotFound")
    # A later user leaves the others' ids alone, and a pass without news writes nothing.
    apply(live, user("aaron"))
    look(live)
    assert [status("slurmuser", name)["uid"] for name in ("bob", "carol")] == numbers
    before = live.get("slurmuser", "bob", "-n", "slurm")["metadata"]["resourceVersion"]
    look(live)
    assert live.get("slurmuser", "bob", "-n", "slurm")["metadata"]["resourceVersion"] == before


def test_own_health_checks_stay_and_crusoes_are_put_back(live: Live) -> None:
    own = {"scripts": [{"name": "10-disk", "source": "exit 0"}]}
    apply(live, made("SlurmClusterHealthCheck", "train-custom", own))
    changed = json.dumps({"spec": {"scripts": []}})
    live.kubectl("patch", "slurmclusterhealthcheck", "train-defaults", "-n", "slurm", "--type=merge", "-p", changed)
    look(live)
    assert live.get("slurmclusterhealthcheck", "train-custom", "-n", "slurm")["spec"] == own
    assert live.get("slurmclusterhealthcheck", "train-defaults", "-n", "slurm")["spec"]["scripts"]


def test_keys_are_made_once(live: Live) -> None:
    def keys() -> tuple[str, str]:
        slurm = live.get("secret", "train-auth-slurm", "-n", "slurm")["data"]["slurm.key"]
        return slurm, live.get("secret", "train-auth-jwths256", "-n", "slurm")["data"]["jwt_hs256.key"]

    before = keys()
    assert all(len(base64.b64decode(key)) == 1024 for key in before)
    look(live)
    assert keys() == before


def test_home_is_bound_to_its_disk(live: Live) -> None:
    until(lambda: live.get("pvc", "train-home", "-n", "slurm")["status"].get("phase") == "Bound")
    volume = live.get("pv", "train-home")["spec"]
    assert volume["csi"] == {"driver": "fs.csi.crusoe.ai", "volumeHandle": "disk-of-home"}
    assert volume["persistentVolumeReclaimPolicy"] == "Retain"


def test_node_sets_shrink_grow_and_go(live: Live) -> None:
    until(lambda: look(live).ready == {"gpu": 2})
    smaller = replace(SPEC, node_sets=(replace(GPUS, replicas=1),))
    until(lambda: look(live, smaller).ready == {"gpu": 1})
    # More workers than nodes: the nodes that run them are what counts.
    until(lambda: look(live, replace(SPEC, node_sets=(replace(GPUS, replicas=3),))).ready == {"gpu": 2})
    assert look(live, replace(SPEC, node_sets=())).ready == {}
    until(lambda: live.get("pods", "-n", "slurm", "-l", "slurm.crusoe.ai/nodeset=gpu")["items"] == [])
    until(lambda: look(live).ready == {"gpu": 2})


def test_a_lost_node_is_not_counted(live: Live) -> None:
    until(lambda: look(live).ready == {"gpu": 2})
    live.plane.remove_nodes(CLUSTER.id, ["np-3b1f0000-4"], drain=False)
    until(lambda: look(live).ready == {"gpu": 1})
    live.plane.apply_nodes(CLUSTER.id, [h100(4, labels={"crusoe.ai/nodepool.id": GPU_POOL})])
    until(lambda: look(live).ready == {"gpu": 2})


def test_a_removed_cluster_object_comes_back(live: Live) -> None:
    live.kubectl("delete", "slurmcluster", "train", "-n", "slurm")
    look(live)
    live.kubectl("get", "slurmcluster", "train", "-n", "slurm")


def test_with_slinkys_kinds_its_objects_are_made_instead(live: Live) -> None:
    for definition in (CHARTS / "slurm-operator-crds/templates").glob("*.yaml"):
        live.kubectl("apply", "--server-side", "-f", str(definition))
    live.kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=20s")
    look(live)
    for kind, name in (
        ("controller", "slurm-train"),
        ("restapi", "slurm-train"),
        ("loginset", "slurm-train-login"),
        ("nodeset", "train-gpu"),
    ):
        live.kubectl("get", f"{kind}.slinky.slurm.net", name, "-n", "slurm")
    assert live.get("nodeset.slinky.slurm.net", "train-gpu", "-n", "slurm")["spec"]["replicas"] == 2
    assert live.get("statefulsets", "-n", "slurm")["items"] == []
    assert live.get("deployments", "-n", "slurm")["items"] == []
    look(live, replace(SPEC, node_sets=()))
    assert live.get("nodesets.slinky.slurm.net", "-n", "slurm")["items"] == []
