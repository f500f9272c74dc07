"""The rows of the matrix: each resource kind, how one is made and changed, and what else the cloud does with it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.harness import Json
from tests.provider.conftest import IB_NETWORK, LOCATION, V1, V2
from tests.provider.engine import Plugin, Resource

Inputs = dict[str, Any]
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIHYzZmFrZWtleWZvcnRlc3RzMDEyMzQ1Njc4OTAx ada@example.com"
CPU = "c1a.4x"
SLURM_GPU = "a100-80gb.8x"


@dataclass
class Ground:
    """What stands for all cells."""

    network: str
    subnet: str
    v1: str
    v2: str
    slurm: str


def made(plugin: Plugin) -> Ground:
    """The ground, made."""

    def up(kind: str, inputs: Inputs) -> Resource:
        resource = plugin.resource(kind, inputs["name"])
        resource.up(inputs)
        return resource

    network = up("VpcNetwork", {"name": "ground", "cidr": "10.0.0.0/8"}).id
    place = {"location": LOCATION, "vpcNetworkId": network}
    subnet = up("VpcSubnet", {"name": "ground", "cidr": "10.0.0.0/16", **place}).id
    for direction, destination in (("egress", "0.0.0.0/0"), ("ingress", "10.0.0.0/16")):
        ends = {"protocols": ["tcp"], "sources": ["10.0.0.0/16"], "destinations": [destination]}
        rule = {"name": f"ground-{direction}", "vpcNetworkId": network, "action": "allow", "direction": direction}
        up("VpcFirewallRule", {**rule, **ends})
    cluster = {"location": LOCATION, "subnetId": subnet}
    v1, v2 = (up("KubernetesCluster", {"name": name, "version": version, **cluster}).id
              for name, version in (("ground-v1", V1), ("ground-v2", V2)))  # fmt: skip
    slurm = up("SlurmCluster", {"name": "ground", "rootSshPublicKeys": [KEY], **cluster, "homeVolumeSize": ""}).id
    return Ground(network, subnet, v1, v2, slurm)


@dataclass(frozen=True)
class Row:
    """One resource kind.

    Attributes:
        title: in the table.
        kind: of the provider.
        path: of its collection below the project; `{slurm}` stands for the Slurm cluster of the ground.
        inputs: what a program says, beside the name.
        changed: what a change in place sets; None where every change replaces.
        different: what another object of the name has.
        by_hand: the body with which somebody else changes one through the API; None where the API can't.
        follows: what a program has to say then, where it can't be undone: disks and node pools don't shrink.
        asynchronous: operations for which the API answers with an operation to wait for.
        quota: the quota that it counts against, if any.
        takes_machines: whether it starts VMs.
        has_name: whether it is an object of its own; otherwise it is a part of its cluster.
        taken_back: the body with which somebody takes back what he changed, where a deletion leaves that as his.
        requests: those that do an operation's work, where they are not the usual ones.
    """

    title: str
    kind: str
    path: str
    inputs: Callable[[Ground], Inputs]
    changed: Inputs | None
    different: Inputs
    by_hand: Json | None
    follows: Inputs = field(default_factory=dict[str, Any])
    asynchronous: frozenset[str] = frozenset({"create", "update", "delete"})
    quota: str | None = None
    takes_machines: bool = False
    has_name: bool = True
    taken_back: Json | None = None
    requests: Mapping[str, str] = field(default_factory=dict[str, str])

    def request(self, operation: str) -> str:
        """Which request does an operation's work, as a fault matches it."""
        tail = self.path.rpartition("/")[2]
        usual = {
            "create": f"POST .../{tail}",
            "read": f"GET .../{tail}/*",
            "update": f"PATCH .../{tail}/*",
            "delete": f"DELETE .../{tail}/*",
        }
        return self.requests.get(operation, usual[operation])


def _rule(ground: Ground) -> Inputs:
    ends = {"protocols": ["tcp"], "sources": ["10.0.0.0/8"], "destinations": ["10.0.0.0/8"]}
    return {"vpcNetworkId": ground.network, "action": "allow", "direction": "ingress", **ends}


def _cluster(version: str) -> Callable[[Ground], Inputs]:
    return lambda ground: {"location": LOCATION, "version": version, "subnetId": ground.subnet}


_CONFIG = ".../autoclusters/config"
_ARGS = {"apiserverExtraArgs": {"v": "2"}}

ROWS = (
    Row(
        "network",
        "VpcNetwork",
        "networking/vpc-networks",
        lambda _: {"cidr": "10.20.0.0/16"},
        {"name": "{name}-renamed"},
        {"cidr": "10.21.0.0/16"},
        {"name": "{name}-by-hand"},
        asynchronous=frozenset({"update", "delete"}),
    ),
    Row(
        "subnet",
        "VpcSubnet",
        "networking/vpc-subnets",
        lambda ground: {"cidr": "10.9.0.0/20", "location": LOCATION, "vpcNetworkId": ground.network},
        {"natGatewayEnabled": True},
        {"cidr": "10.9.16.0/20"},
        {"nat_gateway_action": "enable"},
        asynchronous=frozenset({"update", "delete"}),
    ),
    Row(
        "firewall rule",
        "VpcFirewallRule",
        "networking/vpc-firewall-rules",
        _rule,
        {"destinationPorts": ["22"]},
        {"sources": ["10.1.0.0/16"]},
        {"sources": [{"cidr": "10.2.0.0/16"}]},
    ),
    Row(
        "IB partition",
        "IbPartition",
        "networking/ib-partitions",
        lambda _: {"ibNetworkId": IB_NETWORK},
        None,
        {"ibNetworkId": "00000000-0000-4000-8000-000000000102"},
        None,
        asynchronous=frozenset(),
    ),
    Row(
        "disk",
        "StorageDisk",
        "storage/disks",
        lambda _: {"location": LOCATION, "size": "1GiB"},
        {"size": "2GiB"},
        {"size": "3GiB"},
        {"size": "5GiB"},
        follows={"size": "5GiB"},
        quota="persistent-ssd",
    ),
    Row(
        "shared disk",
        "StorageDisk",
        "storage/disks",
        lambda _: {"location": LOCATION, "type": "shared-volume", "size": "10TiB"},
        {"size": "11TiB"},
        {"size": "12TiB"},
        {"size": "13TiB"},
        follows={"size": "13TiB"},
        quota="shared-volume",
    ),
    Row(
        "cluster v1",
        "KubernetesCluster",
        "kubernetes/clusters",
        _cluster(V1),
        _ARGS,
        {"version": "1.32.7-cmk.22"},
        {"apiserver_extra_args": {"v": "3"}},
    ),
    Row(
        "cluster v2",
        "KubernetesCluster",
        "kubernetes/clusters",
        _cluster(V2),
        _ARGS,
        {"version": V1},
        {"apiserver_extra_args": {"v": "3"}},
    ),
    Row(
        "pool v1",
        "KubernetesNodePool",
        "kubernetes/nodepools",
        lambda ground: {"clusterId": ground.v1, "type": CPU, "count": 2},
        {"count": 3},
        {"count": 1},
        {"count": 4},
        follows={"count": 4},
        quota="c1a",
        takes_machines=True,
    ),
    Row(
        "pool v2",
        "KubernetesNodePool",
        "kubernetes/nodepools",
        lambda ground: {"clusterId": ground.v2, "type": CPU, "count": 2},
        {"count": 3},
        {"count": 1},
        {"count": 4},
        follows={"count": 4},
        quota="c1a",
        takes_machines=True,
    ),
    Row(
        "AutoClusters",
        "AutoClustersConfig",
        "kubernetes/clusters",
        lambda ground: {"clusterId": ground.v1, "remediationActions": {"XID_74": "REPLACE_NODE"}},
        {"remediationActions": {"XID_79": "REPLACE_NODE"}},
        {},
        {"set_remediation_overrides": [{"issue_name": "XID_48", "action": "REPLACE_NODE"}]},
        asynchronous=frozenset(),
        has_name=False,
        taken_back={"remove_remediation_overrides": ["XID_48"]},
        requests={
            "create": f"PATCH {_CONFIG}",
            "read": f"GET {_CONFIG}",
            "update": f"PATCH {_CONFIG}",
            "delete": f"PATCH {_CONFIG}",
        },
    ),
    Row(
        "Slurm cluster",
        "SlurmCluster",
        "slurm/clusters",
        lambda ground: {
            "location": LOCATION,
            "rootSshPublicKeys": [KEY],
            "subnetId": ground.subnet,
            "homeVolumeSize": "",
        },
        None,
        {"rootSshPublicKeys": [KEY.replace("AAAAIHYz", "AAAAIHYx")]},
        None,
        quota="c1a",
        takes_machines=True,
    ),
    Row(
        "Slurm node set",
        "SlurmNodeSet",
        "slurm/{slurm}/nodesets",
        lambda ground: {"slurmClusterId": ground.slurm, "type": SLURM_GPU, "count": 2},
        {"count": 3},
        {"type": "a100.8x"},
        {"count": 4},
        follows={"count": 4},
        quota="a100-80gb",
        takes_machines=True,
    ),
)
