"""One local cloud for all of these tests, with a cluster of each generation, and a plugin process for each test."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass

import pytest

from tests.harness import Cloud, running_cloud
from tests.provider.engine import Plugin, Resource, plugin_for

LOCATION = "us-east1-a"
IB_NETWORK = "00000000-0000-4000-8000-000000000101"
V1, V2 = "1.33.4-cmk.43", "1.35.5"


@pytest.fixture(scope="package")
def shared_cloud(tmp_path_factory: pytest.TempPathFactory) -> Generator[Cloud]:
    """The local cloud."""
    with running_cloud(tmp_path_factory.mktemp("provider"), "--operation-seconds", "0") as running:
        yield running


@pytest.fixture
def cloud(shared_cloud: Cloud) -> Generator[Cloud]:
    """The local cloud without faults and with an empty request log."""
    shared_cloud.admin("DELETE", "/faults")
    shared_cloud.forget_requests()
    yield shared_cloud
    shared_cloud.admin("DELETE", "/faults")
    shared_cloud.admin("PATCH", "/settings", {"operation_seconds": 0, "clock_offset": 0})


@pytest.fixture
def plugin(cloud: Cloud) -> Generator[Plugin]:
    """A plugin process."""
    with plugin_for(cloud) as running:
        yield running


@dataclass
class Ground:
    """What stands for all tests: a network, a subnet, and a cluster of each generation (made at the first need)."""

    cloud: Cloud
    network: Resource
    subnet: Resource
    clusters: dict[str, Resource]

    def cluster(self, plugin: Plugin, version: str = V1) -> str:
        """The id of a running cluster of this version."""
        if version not in self.clusters:
            name = f"ground-{version.replace('.', '-')}"
            resource = plugin.resource("KubernetesCluster", name)
            resource.up({"name": name, "location": LOCATION, "version": version, "subnetId": self.subnet.id})
            self.clusters[version] = resource
        return self.clusters[version].id


@pytest.fixture(scope="package")
def ground(shared_cloud: Cloud) -> Ground:
    """Network and subnet with the rules that a cluster needs."""
    with plugin_for(shared_cloud) as plugin:
        network = plugin.resource("VpcNetwork", "ground")
        network.up({"name": "ground", "cidr": "10.0.0.0/8"})
        subnet = plugin.resource("VpcSubnet", "ground")
        subnet.up({"name": "ground", "cidr": "10.0.0.0/16", "location": LOCATION, "vpcNetworkId": network.id})
        for direction, destination in (("egress", "0.0.0.0/0"), ("ingress", "10.0.0.0/16")):
            plugin.resource("VpcFirewallRule", direction).up(
                {
                    "name": f"ground-{direction}",
                    "vpcNetworkId": network.id,
                    "action": "allow",
                    "direction": direction,
                    "protocols": ["tcp", "udp"],
                    "sources": ["10.0.0.0/16"],
                    "destinations": [destination],
                }
            )
    return Ground(shared_cloud, network, subnet, {})
