"""The life of a platform as Crusoe's Terraform provider 1.1.1 lives it: apply, empty plan, scale, edit, destroy."""

from __future__ import annotations

from typing import Any

import pytest

from tests.integration.localcloud_wire.conftest import client
from tests.integration.localcloud_wire.server import PROJECT, Server
from tests.integration.localcloud_wire.terraform import (
    KINDS,
    Json,
    ProviderError,
    Terraform,
    inconsistent,
    plan,
)

pytestmark = pytest.mark.integration

NETWORKS = "{p}/networking/vpc-networks"
SUBNETS = "{p}/networking/vpc-subnets"
RULES = "{p}/networking/vpc-firewall-rules"
PARTITIONS = "{p}/networking/ib-partitions"
DISKS = "{p}/storage/disks"
CLUSTERS = "{p}/kubernetes/clusters"
POOLS = "{p}/kubernetes/nodepools"
PATHS = {
    "network": NETWORKS,
    "subnet": SUBNETS,
    "rule": RULES,
    "partition": PARTITIONS,
    "disk": DISKS,
    "cluster": CLUSTERS,
    "pool": POOLS,
}
ALL_PORTS = ["1-65535"]


def rule(network: str, name: str, direction: str, source: str, destination: str) -> Json:
    return {
        "action": "allow",
        "destination_ports": ALL_PORTS,
        "destinations": [{"cidr": destination}],
        "direction": direction,
        "name": name,
        "protocols": ["tcp", "udp"],
        "source_ports": ALL_PORTS,
        "sources": [{"cidr": source}],
        "vpc_network_id": network,
    }


class State:
    """What Terraform keeps: by address the kind, what was asked for, and what the provider stored."""

    def __init__(self, terraform: Terraform) -> None:
        self.terraform = terraform
        self.stored: dict[str, tuple[str, Json]] = {}

    def keep(self, address: str, kind: str, asked: Json, answer: Json) -> str:
        assert inconsistent(kind, asked, answer) == [], address
        self.stored[address] = (kind, answer)
        return answer["id"]

    def id(self, address: str) -> str:
        return self.stored[address][1]["id"]

    def read(self, address: str) -> Json:
        kind, stored = self.stored[address]
        return self.terraform.call("GET", f"{PATHS[kind]}/{stored['id']}")

    def plans(self) -> dict[str, str]:
        """What a plan would do now, address by address; empty when there is nothing to do."""
        found = {address: plan(kind, stored, self.read(address)) for address, (kind, stored) in self.stored.items()}
        return {address: action for address, action in found.items() if action}


@pytest.fixture(scope="module")
def state(server: Server) -> State:
    """A whole platform, applied."""
    terraform = client(server)
    terraform.configure("local")
    state = State(terraform)
    apply(state)
    return state


def apply(state: State) -> None:
    """Create everything in Terraform's order, checking each answer as the provider does."""
    send, wait = state.terraform.call, state.terraform.wait

    networks = send("GET", "{p}/networking/ib-networks")["items"]
    [fabric] = [
        item
        for item in networks
        if item["location"] == "us-east1-a"
        and any(c["slice_type"] == "h100-80gb-sxm-ib.8x" and c["quantity"] >= 64 for c in item["capacities"])
    ]
    asked: Json = {"ib_network_id": fabric["id"], "name": "fabric"}
    state.keep("partition", "partition", asked, send("POST", PARTITIONS, asked))

    asked = {"cidr": "10.0.0.0/8", "name": "net"}
    network = state.keep("network", "network", asked, send("POST", NETWORKS, asked)["network"])
    asked = {
        "cidr": "10.0.0.0/16",
        "location": "us-east1-a",
        "name": "sub",
        "nat_gateway_enabled": False,
        "vpc_network_id": network,
    }
    subnet = state.keep("subnet", "subnet", asked, send("POST", SUBNETS, asked)["subnet"])

    for name, direction, source, destination in (
        ("egress", "egress", "10.0.0.0/16", "0.0.0.0/0"),
        ("inside", "ingress", "10.0.0.0/16", "10.0.0.0/16"),
        ("unrelated", "ingress", "192.0.2.0/24", "10.0.0.0/16"),
    ):
        asked = rule(network, name, direction, source, destination)
        state.keep(name, "rule", asked, wait("networking/vpc-firewall-rules", send("POST", RULES, asked)))

    asked = {"location": "us-east1-a", "name": "data", "size": "10TiB", "type": "shared-volume"}
    state.keep("disk", "disk", asked, wait("storage/disks", send("POST", DISKS, asked)))

    asked = {
        "add_ons": ["cluster_autoscaler", "nvidia_gpu_operator", "nvidia_network_operator", "crusoe_csi"],
        "cluster_cidr": "172.20.0.0/16",
        "location": "us-east1-a",
        "name": "clu",
        "node_cidr_mask_size": 24,
        "service_cluster_ip_range": "172.21.0.0/16",
        "subnet_id": subnet,
        "version": "1.33.4-cmk.73",
    }
    cluster = state.keep("cluster", "cluster", asked, wait("kubernetes/clusters", send("POST", CLUSTERS, asked)))

    asked = {
        "cluster_id": cluster,
        "count": 2,
        "ib_partition_id": state.id("partition"),
        "name": "train",
        "node_labels": {"role": "train"},
        "node_pool_version": "1.32.7-cmk.3",
        "node_taints": [{"effect": "NoSchedule", "key": "gpu", "value": "yes"}, {"effect": "NoExecute", "key": "bare"}],
        "product_name": "h100-80gb-sxm-ib.8x",
        "public_ip_type": "none",
        "ssh_public_key": "ssh-ed25519 AAAA",
        "subnet_id": subnet,
    }
    result = wait("kubernetes/nodepools", send("POST", POOLS, asked))
    assert not result["details"].get("error")
    seen = {**asked, "type": asked["product_name"], "image_id": asked["node_pool_version"]}
    state.keep("train", "pool", seen, result["node_pool"])
    asked = {
        "cluster_id": cluster,
        "count": 1,
        "name": "system",
        "product_name": "c1a.8x",
        "public_ip_type": "dynamic",
        "ssh_public_key": "ssh-ed25519 AAAA",
    }
    result = wait("kubernetes/nodepools", send("POST", POOLS, asked))
    state.keep("system", "pool", {**asked, "type": "c1a.8x"}, result["node_pool"])


def test_plan_after_apply_is_empty(state: State) -> None:
    assert state.plans() == {}


def test_start_up(state: State) -> None:
    terraform = state.terraform
    for project in (PROJECT, "local", None):
        terraform.configure(project)
    with pytest.raises(ProviderError, match=r"engineer@local\.example: 0 projects"):
        terraform.configure("no such; one/ü+")
    with pytest.raises(ProviderError, match="404"):
        terraform.configure("00000000-0000-4000-8000-00000000dead")


def test_data_sources(state: State) -> None:
    send = state.terraform.call
    assert state.id("network") in [item["id"] for item in send("GET", NETWORKS)["items"]]
    assert state.id("subnet") in [item["id"] for item in send("GET", SUBNETS)["items"]]
    assert state.id("disk") in [item["id"] for item in send("GET", DISKS)["items"]]


def test_credentials_are_harmless_and_new_each_time(state: State) -> None:
    path = f"{CLUSTERS}/{state.id('cluster')}/get-credentials"
    before = state.read("cluster")
    first, second = (state.terraform.call("POST", path) for _ in range(2))
    assert first["user_client_certificate"] != second["user_client_certificate"]
    assert first["user_client_certificate"].startswith("-----BEGIN CERTIFICATE-----")
    assert first["cluster_address"] in first["kube_config"]
    assert state.read("cluster") == before


def test_growing_pools_are_no_difference(state: State) -> None:
    assert set(state.read("cluster")["node_pools"]) == {state.id("train"), state.id("system")}
    assert "cluster" not in state.plans()


def test_scale_up_and_down(state: State) -> None:
    kind, stored = state.stored["train"]
    for count, vms in ((3, 3), (2, 3)):
        read = state.terraform.update_pool(state.read("train"), count=count)
        assert (read["count"], len(read["instance_ids"])) == (count, vms)
        assert read["id"] == stored["id"]
        state.stored["train"] = (kind, read)
    assert state.plans() == {}


def test_edit_labels_and_taints(state: State) -> None:
    kind, _ = state.stored["system"]
    terraform = state.terraform
    taints = [{"effect": "NoSchedule", "key": "k", "value": "v"}]
    read = terraform.update_pool(state.read("system"), node_labels={"a": "b"}, node_taints=taints)
    assert read["node_taints"] == taints
    assert read["node_labels"]["a"] == "b"
    # Null keeps, an empty list or map clears.
    read = terraform.update_pool(read)
    assert (read["node_taints"], read["node_labels"]["a"]) == (taints, "b")
    read = terraform.update_pool(read, node_labels={}, node_taints=[])
    assert read["node_taints"] == []
    assert "a" not in read["node_labels"]
    state.stored["system"] = (kind, read)
    assert state.plans() == {}


@pytest.mark.parametrize(
    "body",
    [{"count": 1, "percentage": 0, "strategy": "COUNT"}, {"count": 0, "percentage": 50, "strategy": "PERCENTAGE"}],
)
def test_rotation_is_started_and_not_awaited(state: State, body: Json) -> None:
    pool = state.id("system")
    before = state.read("system")["instance_ids"]
    state.terraform.update_pool(state.read("system"), node_labels={"turn": body["strategy"]})
    state.terraform.wait("kubernetes/nodepools", state.terraform.call("POST", f"{POOLS}/{pool}/rotate", body))
    after = state.read("system")["instance_ids"]
    assert len(after) == len(before)
    assert not set(after) & set(before)


def test_cluster_arguments(state: State) -> None:
    terraform = state.terraform
    path = f"{CLUSTERS}/{state.id('cluster')}"
    body = {"apiserver_extra_args": {"v": "2"}, "kubelogin_args": None}
    terraform.wait("kubernetes/clusters", terraform.call("PATCH", path, body))
    assert terraform.call("GET", path)["apiserver_extra_args"] == {"v": "2"}
    assert "cluster" not in state.plans()


def test_rename_network_and_subnet(state: State) -> None:
    terraform = state.terraform
    result = terraform.wait(
        "networking/vpc-networks", terraform.call("PATCH", f"{NETWORKS}/{state.id('network')}", {"name": "renamed"})
    )
    # The whole network, with the subnets that the last read had.
    assert result == state.read("network")
    assert (result["name"], result["subnets"]) == ("renamed", [state.id("subnet")])
    state.stored["network"] = ("network", result)
    body = {"name": "renamed", "nat_gateway_action": "disable"}
    result = terraform.wait("networking/vpc-subnets", terraform.call("PATCH", f"{SUBNETS}/{state.id('subnet')}", body))
    assert (result["name"], result["nat_gateways"]) == ("renamed", [])
    state.stored["subnet"] = ("subnet", result)
    assert state.plans() == {}


def test_edit_rule_with_a_literal_star(state: State) -> None:
    terraform = state.terraform
    body = {
        "destination_ports": ["*"],
        "destinations": [{"cidr": "10.0.0.0/16"}],
        "name": "unrelated",
        "protocols": ["tcp"],
        "source_ports": ["*"],
        "sources": [{"cidr": "192.0.2.0/24"}],
    }
    result = terraform.wait(
        "networking/vpc-firewall-rules", terraform.call("PATCH", f"{RULES}/{state.id('unrelated')}", body)
    )
    assert inconsistent("rule", body, result) == []
    state.stored["unrelated"] = ("rule", result)
    assert state.plans() == {}


def test_grow_disk(state: State) -> None:
    terraform = state.terraform
    path = f"{DISKS}/{state.id('disk')}"
    result = terraform.wait("storage/disks", terraform.call("PATCH", path, {"size": "20TiB"}))
    assert inconsistent("disk", {"size": "20TiB"}, result) == []
    state.stored["disk"] = ("disk", result)
    assert state.plans() == {}


@pytest.mark.parametrize(("kind", "key"), [(kind, key) for kind, row in KINDS.items() for key in row.planned])
def test_every_needed_field_is_read_back(state: State, kind: str, key: str) -> None:
    """The other direction of the empty plan: without the field, this very plan would not be empty."""
    address = next(address for address, (found, _) in state.stored.items() if found == kind)
    stored = state.stored[address][1]
    if key == "node_taints":
        stored = state.stored["train"][1]
        assert stored["node_taints"]
    read = {name: value for name, value in state.read(address).items() if name != key}
    assert plan(kind, stored, read) == KINDS[kind].planned[key]


@pytest.mark.parametrize(("kind", "key"), [(kind, key) for kind, row in KINDS.items() for key in row.applied])
def test_every_needed_field_of_an_apply_is_judged(kind: str, key: str) -> None:
    """The other direction of the apply: an answer without the field would have been called inconsistent."""
    asked: Json = {key: "asked for"}
    assert inconsistent(kind, asked, {"id": "x", key: "asked for"}) == []
    assert key in inconsistent(kind, asked, {"id": "x"})


def test_integers_are_integers(state: State) -> None:
    read: Any = state.read("train")
    assert inconsistent("pool", {"count": read["count"]}, read) == []
    assert inconsistent("pool", {"count": read["count"]}, {**read, "count": float(read["count"])}) == ["count"]


def test_z_destroy_leaves_nothing(state: State, server: Server) -> None:
    """Last of the module: pools, disk and the unrelated rule; partition; cluster; subnet and rules; network."""
    terraform = state.terraform

    def delete(family: str, path: str, *addresses: str) -> None:
        started = [terraform.call("DELETE", f"{path}/{state.id(address)}") for address in addresses]
        for answer in started:
            assert terraform.wait(family, answer) is None

    for early, path in (("cluster", CLUSTERS), ("subnet", SUBNETS), ("network", NETWORKS), ("partition", PARTITIONS)):
        with pytest.raises(ProviderError, match="400"):
            terraform.call("DELETE", f"{path}/{state.id(early)}")
    delete("kubernetes/nodepools", POOLS, "train", "system")
    delete("storage/disks", DISKS, "disk")
    delete("networking/vpc-firewall-rules", RULES, "unrelated")
    assert terraform.request("DELETE", f"{PARTITIONS}/{state.id('partition')}")[0] == 200
    delete("kubernetes/clusters", CLUSTERS, "cluster")
    delete("networking/vpc-subnets", SUBNETS, "subnet")
    delete("networking/vpc-firewall-rules", RULES, "egress", "inside")
    delete("networking/vpc-networks", NETWORKS, "network")
    with pytest.raises(ProviderError, match="404"):
        terraform.call("DELETE", f"{POOLS}/{state.id('train')}")
    for path in (RULES, PARTITIONS, DISKS, CLUSTERS, POOLS, "{p}/compute/vms/instances"):
        assert terraform.call("GET", path)["items"] == []
    assert [item["name"] for item in terraform.call("GET", NETWORKS)["items"]] == ["default-vpc-network"]
    assert server.status()["clusters"] == []
    refused = [r for r in server.requests() if r["status"] and r["status"] >= 500]
    assert refused == []
