"""What a Slurm cluster becomes in Kubernetes, and the ids of its people: pure functions."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import pytest

from localcloud.managed_slurm import objects, slinky
from localcloud.managed_slurm.definitions import definitions
from localcloud.managed_slurm.identities import (
    GROUP_IDS,
    USER_IDS,
    assigned,
    group_problem,
    user_problem,
)
from localcloud.managed_slurm.records import NodeSetSpec, SlurmSpec
from tests.unit.localcloud.conftest import FACTS

Object = dict[str, Any]

GPU = NodeSetSpec("gpu", "gpu-pool", 4, gpus=8, gpu_resource="nvidia.com/gpu")
CPU = NodeSetSpec("cpu", "cpu-pool", 2, gpus=0, gpu_resource=None)
SPEC = SlurmSpec(
    id="s",
    name="hpc",
    version="25.11.2-cmk.19",
    login_type="c1a.8x",
    login_replicas=2,
    login_pool="login-pool",
    root_ssh_keys=("ssh-ed25519 AAAA",),
    home_size="10Ti",
    home_disk="disk",
    node_sets=(GPU, CPU),
)
CLUSTER = objects.slurm_cluster(SPEC)


def person(name: str, created: str = "2026-01-01T00:00:00Z", *, uid: int | None = None, **spec: Any) -> Object:
    status = {} if uid is None else {"status": {"uid": uid}}
    metadata = {"name": name, "creationTimestamp": created}
    return {"metadata": metadata, "spec": {"clusterReference": "hpc", **spec}, **status}


def test_the_cluster_behind_has_an_autoclusters_configuration_and_user_management() -> None:
    version = FACTS.cluster_versions[FACTS.slurm.cluster_version]
    assert version.generation == "v1"
    assert "autoclusters" in version.features
    assert version.order >= FACTS.cluster_versions["1.33.4-cmk.43"].order
    assert set(FACTS.slurm.cluster_add_ons) <= set(FACTS.add_ons)


def test_ids_are_in_crusoes_ranges() -> None:
    assert (USER_IDS[0], USER_IDS[-1]) == (10000, 29999)
    assert (GROUP_IDS[0], GROUP_IDS[-1]) == (50000, 65533)


def test_ids_go_by_age_to_the_lowest_free() -> None:
    people = [person("young", "2026-03-01T00:00:00Z"), person("old"), person("held", uid=7), person("also-old")]
    assert assigned(people, "uid", range(6, 10)) == {"held": 7, "also-old": 6, "old": 8, "young": 9}


def test_without_a_free_id_there_is_none() -> None:
    people = [person("a"), person("b"), person("held", uid=1)]
    assert assigned(people, "uid", range(1, 3)) == {"held": 1, "a": 2, "b": None}


def test_problems_of_people() -> None:
    users = [person("alice")]
    assert user_problem(users[0], "hpc") is None
    assert user_problem(users[0], "other") == ("ClusterNotFound", "there is no SlurmCluster hpc here")
    assert group_problem(person("team", users=["alice"]), "hpc", users) is None
    assert group_problem(person("team"), "hpc", users) is None
    assert group_problem(person("team", users=["alice", "bob"]), "hpc", users) == (
        "UserNotFound",
        "there is no SlurmUser bob",
    )
    assert group_problem(person("team"), "other", users) == ("ClusterNotFound", "there is no SlurmCluster hpc here")


def test_login_is_open_until_the_cluster_object_says_otherwise() -> None:
    assert objects.login_service(SPEC, CLUSTER)["spec"]["loadBalancerSourceRanges"] == ["0.0.0.0/0"]
    ranges = {"spec": {"loginSet": {"firewallRuleSourceRanges": ["10.0.0.0/8"]}}}
    service = objects.login_service(SPEC, ranges)
    assert service["spec"]["loadBalancerSourceRanges"] == ["10.0.0.0/8"]
    assert (service["metadata"]["namespace"], service["metadata"]["name"]) == ("slurm", "hpc-login")
    assert service["metadata"]["annotations"] == {"crusoe.ai/manage-firewall-rule": "true"}


def test_a_cluster_without_a_home_has_no_claim() -> None:
    assert [item["kind"] for item in objects.home(SPEC)] == ["PersistentVolume", "PersistentVolumeClaim"]
    assert objects.home(replace(SPEC, home_size="", home_disk="")) == []


def test_images_follow_the_version() -> None:
    assert objects.image(SPEC, "slurmd") == "ghcr.io/crusoecloud/cmk/slurm-containers/slurmd:25.11.2-ubuntu24.04-cmk.19"


def pods_of(items: list[Object]) -> Mapping[str, Object]:
    return {item["metadata"]["name"]: item["spec"]["template"] for item in items if "template" in item["spec"]}


def test_plain_pods_are_named_placed_and_sized() -> None:
    items = objects.workloads(SPEC, CLUSTER)
    assert [(item["kind"], item["metadata"]["name"], item["spec"]["replicas"]) for item in items] == [
        ("StatefulSet", "slurm-hpc-controller", 1),
        ("Deployment", "slurm-hpc-login", 2),
        ("StatefulSet", "hpc-gpu", 4),
        ("StatefulSet", "hpc-cpu", 2),
    ]
    pods = pods_of(items)
    assert pods["hpc-gpu"]["spec"]["containers"][0]["resources"]["limits"] == {"nvidia.com/gpu": "8"}
    assert "resources" not in pods["hpc-cpu"]["spec"]["containers"][0]
    assert pods["hpc-gpu"]["spec"]["nodeSelector"] == {"crusoe.ai/nodepool.id": "gpu-pool"}
    assert pods["slurm-hpc-login"]["spec"]["nodeSelector"] == {"crusoe.ai/nodepool.id": "login-pool"}
    # Those who run real daemons know their pods by this label.
    assert all("app.kubernetes.io/name" not in pod["metadata"]["labels"] for pod in pods.values())


def test_slinkys_objects_have_the_documented_names() -> None:
    items = {(item["kind"], item["metadata"]["name"]): item["spec"] for item in slinky.workloads(SPEC, CLUSTER)[1:]}
    assert list(items) == [
        ("Controller", "slurm-hpc"),
        ("RestApi", "slurm-hpc"),
        ("LoginSet", "slurm-hpc-login"),
        ("NodeSet", "hpc-gpu"),
        ("NodeSet", "hpc-cpu"),
    ]
    controller = items["Controller", "slurm-hpc"]
    assert controller["slurmKeyRef"] == {"name": "hpc-auth-slurm", "key": "slurm.key"}
    assert controller["jwtKeyRef"] == {"name": "hpc-auth-jwths256", "key": "jwt_hs256.key"}
    assert controller["clusterName"] == "hpc"
    assert items["NodeSet", "hpc-gpu"]["replicas"] == 4
    assert items["NodeSet", "hpc-gpu"]["extraConf"] == "Gres=gpu:8"
    assert "extraConf" not in items["NodeSet", "hpc-cpu"]
    assert items["LoginSet", "slurm-hpc-login"]["replicas"] == 2
    assert items["LoginSet", "slurm-hpc-login"]["rootSshAuthorizedKeys"] == "ssh-ed25519 AAAA"


def test_both_ways_give_pods_the_same_labels() -> None:
    names = {"slurm-hpc": "slurm-hpc-controller"}
    plain = pods_of(objects.workloads(SPEC, CLUSTER))
    by_slinky = pods_of([item for item in slinky.workloads(SPEC, CLUSTER) if item["kind"] not in ("Secret", "RestApi")])
    assert {names.get(name, name): pod["metadata"]["labels"] for name, pod in by_slinky.items()} == {
        name: pod["metadata"]["labels"] for name, pod in plain.items()
    }


def parts(schema: Object) -> Iterator[Object]:
    yield schema
    for child in (*schema.get("properties", {}).values(), *([schema["items"]] if "items" in schema else [])):
        yield from parts(child)


@pytest.mark.parametrize("definition", definitions(), ids=lambda item: item["metadata"]["name"])
def test_schemas_are_closed(definition: Object) -> None:
    names = definition["spec"]["names"]
    assert definition["metadata"]["name"] == f"{names['plural']}.slurm.crusoe.ai"
    [version] = definition["spec"]["versions"]
    assert version["name"] == "v1alpha1"
    for schema in parts(version["schema"]["openAPIV3Schema"]):
        assert schema["type"]
        assert schema["type"] != "object" or schema["properties"]
        assert "x-kubernetes-preserve-unknown-fields" not in schema
        re.compile(schema.get("pattern", ""))
