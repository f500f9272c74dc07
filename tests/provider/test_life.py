"""The whole life of each kind, over gRPC and real HTTP: preview, create, no change, change, refresh, import, delete."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

import pytest

from crusoe.provider.properties import UNREAD
from crusoe.provider.values import UNKNOWN, encode
from tests.harness import Cloud, until
from tests.provider.conftest import IB_NETWORK, LOCATION, V1, V2, Ground
from tests.provider.engine import CheckFailedError, FailedError, Plugin, Resource
from tests.unit.provider.test_kubeconfig import certificate, config

Inputs = dict[str, Any]


def top(path: str) -> str:
    """The property of a path."""
    return re.split(r"[.\[]", path)[0]


def live(
    cloud: Cloud, plugin: Plugin, kind: str, inputs: Inputs, in_place: Inputs | None, replacing: Inputs | None
) -> Resource:
    """Take a resource through its life up to its last change, and return it."""
    resource = plugin.resource(kind, "life")
    operation, shown, planned = resource.preview(inputs)
    assert (operation, shown) == ("create", {})
    assert resource.up(inputs) == "create"
    assert resource.id
    for name, value in planned.items():
        # What a preview said is what came, as far as it was known.
        assert value is UNKNOWN or resource.outputs.get(name, value) == value
    assert not [name for name, value in resource.outputs.items() if value is UNKNOWN]
    cloud.forget_requests()
    assert resource.preview(inputs)[:2] == ("same", {})
    assert not [one for one in cloud.requests() if one["method"] != "GET"]
    assert resource.refresh() == {}
    assert resource.preview(inputs)[:2] == ("same", {})

    again = plugin.resource(kind, "imported")
    assert again.import_(resource.id)
    assert again.preview(inputs)[:2] == ("same", {}), "an import has an empty preview"
    assert again.up(inputs) == "same"
    assert again.preview(inputs)[:2] == ("same", {}), "so has the run after it"

    if replacing is not None:
        operation, shown, _ = resource.preview({**inputs, **replacing})
        assert operation == "replace (delete first)"
        assert {top(path) for path in shown} == set(replacing)
        assert all("replace" in one for one in shown.values())
    if in_place is not None:
        changed = {**inputs, **in_place}
        operation, shown, _ = resource.preview(changed)
        assert operation == "update"
        assert {top(path) for path in shown} == set(in_place)
        assert not any("replace" in one for one in shown.values())
        assert resource.up(changed) == "update"
        assert resource.preview(changed)[:2] == ("same", {})
        assert resource.refresh() == {}
    return resource


def end(cloud: Cloud, resource: Resource, path: str) -> None:
    """Delete it, and delete it again."""
    object_id, inputs, state = resource.id, resource.inputs, resource.state
    resource.destroy()
    assert object_id not in [one["id"] for one in cloud.items(path)]
    resource.id, resource.inputs, resource.state = object_id, inputs, state
    assert resource.refresh() == {"": "delete"}
    resource.id = object_id
    resource.destroy()


def test_network(cloud: Cloud, plugin: Plugin) -> None:
    resource = live(
        cloud,
        plugin,
        "VpcNetwork",
        {"name": "n", "cidr": "10.0.0.0/16"},
        {"name": "renamed"},
        {"cidr": "10.1.0.0/16"},
    )
    assert resource.outputs["gateway"] == "10.0.0.1"
    end(cloud, resource, "/networking/vpc-networks")


def test_subnet(cloud: Cloud, plugin: Plugin, ground: Ground) -> None:
    inputs = {"name": "s", "cidr": "10.9.0.0/20", "location": LOCATION, "vpcNetworkId": ground.network.id}
    resource = live(
        cloud,
        plugin,
        "VpcSubnet",
        inputs,
        {"natGatewayEnabled": True},
        {"cidr": "10.9.0.0/21", "location": "us-southcentral1-a"},
    )
    assert len(cast("list[object]", resource.outputs["natGateways"])) == 1
    assert [one["body"] for one in cloud.requests("PATCH")] == [{"nat_gateway_action": "enable"}]
    end(cloud, resource, "/networking/vpc-subnets")


def test_firewall_rule(cloud: Cloud, plugin: Plugin, ground: Ground) -> None:
    inputs = {
        "name": "r",
        "vpcNetworkId": ground.network.id,
        "action": "allow",
        "direction": "ingress",
        "protocols": ["tcp"],
        "sources": ["10.0.0.0/8", ground.subnet.id],
        "destinations": ["10.0.0.0/16"],
        "destinationPorts": ["22", "443"],
    }
    resource = live(
        cloud, plugin, "VpcFirewallRule", inputs, {"destinationPorts": ["*"]}, {"direction": "egress", "action": "deny"}
    )
    assert [one["body"] for one in cloud.requests("PATCH")] == [{"destination_ports": ["1-65535"]}]
    icmp = {**inputs, "protocols": ["icmp"], "destinationPorts": []}
    assert resource.up(icmp) == "update"
    assert resource.preview(icmp)[:2] == ("same", {})
    end(cloud, resource, "/networking/vpc-firewall-rules")


def test_ib_partition(cloud: Cloud, plugin: Plugin) -> None:
    resource = live(cloud, plugin, "IbPartition", {"name": "p", "ibNetworkId": IB_NETWORK}, None, {"name": "q"})
    end(cloud, resource, "/networking/ib-partitions")


@pytest.mark.parametrize(("kind", "size"), [("persistent-ssd", "512GiB"), ("shared-volume", "1TiB")])
def test_disks(cloud: Cloud, plugin: Plugin, kind: str, size: str) -> None:
    inputs = {"name": "d", "location": LOCATION, "type": kind, "size": size}
    resource = live(cloud, plugin, "StorageDisk", inputs, {"size": "2TiB"}, {"location": "us-southcentral1-a"})
    assert bool(resource.outputs["vips"]) is (kind == "shared-volume")
    assert resource.preview({**inputs, "size": "2048GiB"})[:2] == ("same", {})
    with pytest.raises(FailedError, match="can't shrink to 1TiB"):
        resource.preview({**inputs, "size": "1TiB"})
    end(cloud, resource, "/storage/disks")


@pytest.mark.parametrize("version", [V1, V2])
def test_cluster(cloud: Cloud, plugin: Plugin, ground: Ground, version: str) -> None:
    name = f"life-{version.replace('.', '-')}"
    inputs: Inputs = {
        "name": name,
        "location": LOCATION,
        "version": version,
        "subnetId": ground.subnet.id,
        "addOns": ["nvidia_gpu_operator"],
        "oidc": {"issuerUrl": "https://login.example.com", "clientId": "kubernetes"},
    }
    resource = live(
        cloud,
        plugin,
        "KubernetesCluster",
        inputs,
        {"apiserverExtraArgs": {"v": "2"}},
        {"clusterCidr": "10.200.0.0/16"},
    )
    assert resource.secrets == {"kubeconfig"}
    assert resource.outputs["generation"] == ("v1" if version == V1 else "v2")
    assert "clusters:" in str(resource.outputs["kubeconfig"])
    add_ons = {**inputs, "apiserverExtraArgs": {"v": "2"}, "addOns": ["nvidia_network_operator"]}
    operation, shown, _ = resource.preview(add_ons)
    if version == V1:
        assert (operation, shown) == ("replace (delete first)", {"addOns": "update_replace"})
    else:
        assert (operation, shown) == ("update", {"addOns": "update"})
        assert resource.up(add_ons) == "update"
        assert resource.refresh() == {}
        assert resource.preview(add_ons)[:2] == ("same", {})
    other = {**add_ons, "version": "1.33.4-cmk.73" if version == V1 else "1.34.8"}
    if version == V1:
        other["addOns"] = inputs["addOns"]
    with pytest.raises(FailedError, match="ask Crusoe for the upgrade"):
        resource.preview(other)
    kubeconfig = resource.outputs["kubeconfig"]
    assert resource.refresh() == {}
    assert resource.outputs["kubeconfig"] == kubeconfig
    end(cloud, resource, "/kubernetes/clusters")


def test_a_kubeconfig_is_renewed_by_an_up_near_its_end_only(cloud: Cloud, plugin: Plugin, ground: Ground) -> None:
    cluster = ground.cluster(plugin)
    resource = plugin.resource("KubernetesCluster", "renewed")
    assert resource.import_(cluster)
    program = {"name": ground.clusters[V1].outputs["name"], "location": LOCATION, "version": V1}
    assert resource.preview(program)[:2] == ("same", {})
    now = datetime.now(UTC)
    ending = config(certificate(now - timedelta(days=364), now + timedelta(days=1)))
    resource.state = encode({**resource.outputs, "kubeconfig": ending}, {"kubeconfig"})
    assert resource.refresh() == {}, "a refresh shows no drift and fetches nothing"
    assert resource.outputs["kubeconfig"] == ending
    operation, shown, planned = resource.preview(program)
    assert (operation, shown) == ("update", {"kubeconfig": "update"})
    assert planned["kubeconfig"] == ending, "a preview shows the old one"
    cloud.forget_requests()
    assert resource.up(program) == "update"
    assert resource.outputs["kubeconfig"] != ending
    assert resource.secrets == {"kubeconfig"}
    assert [one["path"].rpartition("/")[2] for one in cloud.requests() if one["method"] != "GET"] == ["get-credentials"]
    assert resource.preview(program)[:2] == ("same", {})


@pytest.mark.parametrize("version", [V1, V2])
def test_node_pool(cloud: Cloud, plugin: Plugin, ground: Ground, version: str) -> None:
    inputs: Inputs = {
        "name": "life",
        "clusterId": ground.cluster(plugin, version),
        "type": "c1a.4x",
        "count": 2,
        "nodeLabels": {"example.com/role": "life"},
        "nodeTaints": [{"key": "example.com/dedicated", "effect": "NoSchedule"}],
        "sshPublicKey": "ssh-ed25519 AAAA",
    }
    resource = live(
        cloud,
        plugin,
        "KubernetesNodePool",
        inputs,
        {"nodeLabels": {"example.com/role": "other"}, "nodeTaints": []},
        {"sshPublicKey": "ssh-ed25519 BBBB", "type": "c1a.8x"},
    )
    assert [one["body"] for one in cloud.requests("PATCH", "/nodepools/")] == [
        {"node_labels": {"example.com/role": "other"}, "node_taints": []}
    ]
    changed: Inputs = {**inputs, "nodeLabels": {"example.com/role": "other"}, "nodeTaints": []}
    assert resource.up({**changed, "count": 3}) == "update"
    (pool,) = [one for one in cloud.items("/kubernetes/nodepools") if one["id"] == resource.id]
    assert len(pool["instance_ids"]) == 3
    with pytest.raises(FailedError, match="leaveVmsOnScaleDown" if version == V1 else "allowScaleDown"):
        resource.preview({**changed, "count": 1})
    consent = {"leaveVmsOnScaleDown": True} if version == V1 else {"allowScaleDown": True}
    assert resource.up({**changed, **consent, "count": 1}) == "update"
    assert resource.preview({**changed, **consent, "count": 1})[:2] == ("same", {})
    vms = len([one for one in cloud.items("/compute/vms/instances") if one["name"].startswith(f"np-{resource.id[:8]}")])
    assert vms == (3 if version == V1 else 1)
    end(cloud, resource, "/kubernetes/nodepools")
    assert not [one for one in cloud.items("/compute/vms/instances") if one["name"].startswith(f"np-{pool['id'][:8]}")]


def test_autoclusters(cloud: Cloud, plugin: Plugin, ground: Ground) -> None:
    cluster = ground.cluster(plugin)
    path = f"/kubernetes/clusters/{cluster}/autoclusters/config"
    inputs: Inputs = {"clusterId": cluster, "remediationActions": {"XID_74": "REPLACE_NODE"}}
    resource = live(
        cloud,
        plugin,
        "AutoClustersConfig",
        inputs,
        {"remediationActions": {"XID_74": "REPLACE_NODE", "GPU_FELL_OFF_THE_BUS": "REPLACE_NODE"}},
        None,
    )
    rows = cloud.api("GET", path)["remediation_configs"]
    asked = {"XID_74", "GPU_FELL_OFF_THE_BUS"}
    assert {row["issue_name"]: row["user_override"] for row in rows} == {
        row["issue_name"]: "REPLACE_NODE" if row["issue_name"] in asked else "OFF" for row in rows
    }
    cloud.admin("PUT", "/autoclusters/issues", {"issue_name": "XID_999", "default_action": "REPLACE_NODE"})
    assert resource.refresh() == {"remediationActions.XID_999": "delete"}
    both = {**inputs, "remediationActions": dict.fromkeys(asked, "REPLACE_NODE")}
    assert resource.preview(both)[:2] == ("update", {"remediationActions.XID_999": "delete"})
    assert resource.up(both) == "update"
    new = next(row for row in cloud.api("GET", path)["remediation_configs"] if row["issue_name"] == "XID_999")
    assert new["user_override"] == "OFF"
    with pytest.raises(CheckFailedError, match="XID_94"):
        resource.preview({**inputs, "remediationActions": {"XID_4711": "REPLACE_NODE"}})
    resource.destroy()
    assert not [row for row in cloud.api("GET", path)["remediation_configs"] if "user_override" in row]


def test_no_pool_and_no_issue_is_without_an_explicit_off(cloud: Cloud, plugin: Plugin, ground: Ground) -> None:
    v1, v2 = ground.cluster(plugin, V1), ground.cluster(plugin, V2)
    config = plugin.resource("AutoClustersConfig", "off")
    config.up({"clusterId": v1})
    pool = plugin.resource("KubernetesNodePool", "off")
    pool.up({"name": "off", "clusterId": v2, "type": "c1a.4x", "count": 1})
    (shown,) = [one for one in cloud.items("/kubernetes/nodepools") if one["id"] == pool.id]
    assert shown["consent_mode"] == "off"
    rows = cloud.api("GET", f"/kubernetes/clusters/{v1}/autoclusters/config")["remediation_configs"]
    assert {row["user_override"] for row in rows} == {"OFF"}
    pool.destroy()
    config.destroy()


def test_settings_of_the_other_generation_are_refused_in_preview(plugin: Plugin, ground: Ground) -> None:
    v1, v2 = ground.cluster(plugin, V1), ground.cluster(plugin, V2)
    pool = {"name": "x", "type": "c1a.4x", "count": 1}
    for cluster, setting in ((v1, "consentMode"), (v1, "allowScaleDown"), (v2, "leaveVmsOnScaleDown")):
        value: Any = "auto" if setting == "consentMode" else True
        with pytest.raises(CheckFailedError) as error:
            plugin.resource("KubernetesNodePool").preview({**pool, "clusterId": cluster, setting: value})
        assert set(error.value.failures) == {setting}
    with pytest.raises(CheckFailedError, match="CMK v1"):
        plugin.resource("AutoClustersConfig").preview({"clusterId": v2})


def test_generated_secret(plugin: Plugin, tmp_path: Path) -> None:
    inputs = {"length": 32, "encoding": "base64", "keepers": {"rotation": "1"}}
    resource = plugin.resource("GeneratedSecret")
    assert resource.preview(inputs)[2]["value"] is UNKNOWN
    resource.up(inputs)
    value = resource.outputs["value"]
    assert resource.secrets == {"value"}
    assert resource.preview(inputs)[:2] == ("same", {})
    assert resource.refresh() == {}
    assert resource.outputs["value"] == value
    rotated = {**inputs, "keepers": {"rotation": "2"}}
    assert resource.preview(rotated)[:2] == ("update", {"keepers.rotation": "update"})
    resource.up(rotated)
    assert resource.outputs["value"] != value
    key = tmp_path / "key"
    key.write_text("existing\n")
    imported = plugin.resource("GeneratedSecret", "imported")
    assert imported.import_(f"file:{key}")
    assert imported.outputs["value"] == "existing"
    assert imported.secrets == {"value"}
    assert imported.preview(inputs)[:2] == ("same", {})


class TestPoolsOfTheConsole:
    """Case of the field: a pool made in the console is taken over without a change, and stays so."""

    def test_an_import_has_an_empty_preview_twice(self, cloud: Cloud, plugin: Plugin, ground: Ground) -> None:
        partition = plugin.resource("IbPartition", "console")
        partition.up({"name": "console", "ibNetworkId": IB_NETWORK})
        body = {
            "name": "console",
            "cluster_id": ground.cluster(plugin),
            "product_name": "h100-80gb-sxm-ib.8x",
            "count": 1,
            "ib_partition_id": partition.id,
            "node_pool_version": "1.33.4-cmk.73",
            "node_labels": {"made-by": "console"},
        }
        cloud.api("POST", "/kubernetes/nodepools", body)
        (pool,) = [one for one in cloud.items("/kubernetes/nodepools") if one["name"] == "console"]
        resource = plugin.resource("KubernetesNodePool", "console")
        assert resource.import_(pool["id"])
        assert {"ibPartitionId", "sshPublicKey", "nodeLabels"} <= set(cast("list[str]", resource.outputs[UNREAD]))
        program = {
            "name": "console",
            "clusterId": body["cluster_id"],
            "type": "h100-80gb-sxm-ib.8x",
            "count": 1,
            "ibPartitionId": partition.id,
            "nodeLabels": {"made-by": "console"},
            "adoptExisting": True,
        }
        cloud.forget_requests()
        for _ in range(2):
            assert resource.preview(program)[:2] == ("same", {})
            assert resource.up(program) == "same"
        assert not [one for one in cloud.requests() if one["method"] != "GET"]
        operation, shown, _ = resource.preview({**program, "version": V1})
        assert (operation, shown) == ("update", {"version": "update"}), "a real difference is offered, not made"
        resource.destroy()
        partition.destroy()

    def test_an_autoscaled_pool_keeps_its_count(self, cloud: Cloud, plugin: Plugin, ground: Ground) -> None:
        inputs: Inputs = {
            "name": "auto",
            "clusterId": ground.cluster(plugin, V2),
            "type": "c1a.4x",
            "autoscaling": {"min": 2, "max": 8},
        }
        resource = plugin.resource("KubernetesNodePool", "auto")
        resource.up(inputs)
        cloud.admin("PUT", f"/nodepools/{resource.id}/count", {"count": 7})

        def pool() -> dict[str, Any]:
            (found,) = [one for one in cloud.items("/kubernetes/nodepools") if one["id"] == resource.id]
            return found

        until(
            lambda: len(pool()["instance_ids"]) == 7 and pool()["state"] == "STATE_RUNNING", 60, "the autoscaler's work"
        )
        assert resource.refresh() == {}
        cloud.forget_requests()
        labelled = {**inputs, "nodeLabels": {"a": "b"}}
        assert resource.preview(labelled)[:2] == ("update", {"nodeLabels": "add"})
        assert resource.up(labelled) == "update"
        versioned = {**labelled, "version": "1.34.8"}
        assert resource.preview(versioned)[:2] == ("update", {"version": "update"})
        assert resource.up(versioned) == "update"
        sent = [one["body"] for one in cloud.requests("PATCH", "/nodepools/")]
        assert sent == [{"node_labels": {"a": "b"}}, {"node_pool_version": "1.34.8"}]
        assert (pool()["count"], len(pool()["instance_ids"])) == (7, 7)
        resource.destroy()
