"""What exists already is taken over as it is: import of every kind, and a pool made by hand in the console."""

from __future__ import annotations

import json
from collections.abc import Generator

import pytest

from tests.harness import Json, Project, changes, leftovers
from tests.integration.conftest import NewProject

pytestmark = pytest.mark.integration

KINDS = {
    "VpcNetwork",
    "VpcSubnet",
    "VpcFirewallRule",
    "IbPartition",
    "StorageDisk",
    "KubernetesCluster",
    "KubernetesNodePool",
    "AutoClustersConfig",
}
KUBERNETES = "platform-cluster-kubernetes"


@pytest.fixture(scope="module")
def project(new_project: NewProject) -> Generator[Project]:
    """The dev stack with a disk, up."""
    project = new_project("adopt")
    project.use_settings("dev", {"storage": {"disks": {"home": {"size": "1TiB"}}}})
    project.up()
    yield project
    project.destroy()
    assert leftovers(project.cloud) == {}


def name_of(resource: Json) -> str:
    """The logical name."""
    return resource["urn"].rsplit("::", 1)[1]


def forget(project: Project, resources: list[Json]) -> None:
    """Takes resources out of state without touching the cloud."""
    gone = {one["urn"] for one in resources}
    state = project.exported()
    state["deployment"]["resources"] = [one for one in state["deployment"]["resources"] if one["urn"] not in gone]
    file = project.folder / "state.json"
    file.write_text(json.dumps(state))
    project.pulumi("stack", "import", "--file", str(file), "-s", project.stack)


def import_all(project: Project, resources: list[Json]) -> None:
    """`pulumi import` of resources with the parents and the provider that the program gives them."""
    parents = {one["parent"] for one in resources}
    providers = {one["provider"].rsplit("::", 1)[0] for one in resources}
    table = {urn.rsplit("::", 1)[1]: urn for urn in parents | providers}
    entries = [
        {
            "type": one["type"],
            "name": name_of(one),
            "id": one["id"],
            "parent": one["parent"].rsplit("::", 1)[1],
            "provider": one["provider"].rsplit("::", 1)[0].rsplit("::", 1)[1],
        }
        for one in resources
    ]
    file = project.folder / "import.json"
    file.write_text(json.dumps({"nameTable": table, "resources": entries}))
    options = ("--generate-code=false", "--yes", "--skip-preview", "--protect=false")
    project.pulumi("import", "--file", str(file), *options, "-s", project.stack)


def test_every_kind_is_imported_into_an_empty_preview(project: Project) -> None:
    resources = [one for one in project.resources() if one["type"].startswith("crusoe:index:")]
    assert {one["type"].removeprefix("crusoe:index:") for one in resources} == KINDS
    provider = [one for one in project.resources() if name_of(one) == KUBERNETES]
    forget(project, resources + provider)
    project.cloud.forget_requests()
    import_all(project, resources)
    # The Kubernetes provider is this program's own and has nothing to import.
    assert changes(project.preview()) == {"create": [KUBERNETES]}
    project.up()
    assert changes(project.preview("--refresh")) == {}
    assert [one["path"] for one in project.cloud.requests() if one["method"] in ("DELETE", "PATCH")] == []
    created = [one["path"] for one in project.cloud.requests("POST") if not one["path"].endswith("/get-credentials")]
    assert created == []


def test_a_pool_made_by_hand_is_adopted_without_a_replacement(project: Project) -> None:
    network = project.outputs()
    (partition,) = project.cloud.items("/networking/ib-partitions")
    body = {
        "name": "made-in-the-console",
        "product_name": "h100-80gb-sxm-ib.8x",
        "count": 1,
        "cluster_id": network["clusterId"],
        "subnet_id": network["subnetId"],
        "ib_partition_id": partition["id"],
        "public_ip_type": "none",
        "node_labels": {"example.com/team": "vision"},
        "node_pool_version": "1.33.4-cmk.43",
    }
    project.cloud.api("POST", "/kubernetes/nodepools", body)
    (pool,) = [one for one in project.cloud.items("/kubernetes/nodepools") if one["name"] == body["name"]]
    settings = {
        "type": body["product_name"],
        "count": 1,
        "name": body["name"],
        "nodeLabels": body["node_labels"],
        "version": "1.33.4-cmk.43",
    }
    project.change_settings({"nodePools": {"console": settings}})
    refused = project.up(check=False)
    assert refused.code != 0
    assert f"pulumi import crusoe:index:KubernetesNodePool platform-pools-console {pool['id']}" in refused.text
    (sibling,) = [one for one in project.resources() if name_of(one) == "platform-pools-train"]
    urn = sibling["urn"].replace("platform-pools-train", "platform-pools-console")
    import_all(project, [{**sibling, "urn": urn, "id": pool["id"]}])
    assert changes(project.preview()) == {}
    project.change_settings({"nodePools": {"console": {"version": "1.33.4-cmk.13"}}})
    assert changes(project.preview()) == {"update": ["platform-pools-console"]}
    project.change_settings({"nodePools": {"console": {"version": "1.33.4-cmk.43"}}})
    project.up()
    still = [one["id"] for one in project.cloud.items("/kubernetes/nodepools") if one["name"] == body["name"]]
    assert still == [pool["id"]]
