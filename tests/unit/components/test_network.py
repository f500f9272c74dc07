"""The network: what is declared, in which order, and which settings are refused."""

from __future__ import annotations

import pytest

from tests.unit.components.support import IB_NETWORK, Deployment, Json, deploy_platform, faults, settings_document

OFFICE = {"name": "ssh", "cidrs": ["203.0.113.0/24"], "ports": [22, "8000-8999"]}


def network(**changes: object) -> Json:
    return settings_document(network={"infiniband": {"networkId": IB_NETWORK}, **changes})


def deployed(**changes: object) -> Deployment:
    return deploy_platform(network(**changes))


def test_vpc_and_subnet() -> None:
    deployment = deployed(cidr="10.8.0.0/16", subnetCidr="10.8.16.0/20", natGateway=True)
    vpc, subnet = deployment.one("platform-network-vpc"), deployment.one("platform-network-subnet")
    assert vpc.inputs == {"name": "test-network", "cidr": "10.8.0.0/16", "adoptExisting": True}
    assert subnet.inputs == {
        "name": "test-subnet",
        "cidr": "10.8.16.0/20",
        "location": "us-east1-a",
        "vpcNetworkId": "platform-network-vpc-id",
        "natGatewayEnabled": True,
        "adoptExisting": True,
    }
    assert vpc.protect
    assert subnet.protect


def test_nodes_reach_each_other_and_the_outside() -> None:
    deployment = deployed(cidr="10.8.0.0/16", subnetCidr="10.8.16.0/20")
    common = {"vpcNetworkId": "platform-network-vpc-id", "action": "allow", "adoptExisting": True}
    vpc, everywhere, ports = ["10.8.0.0/16"], ["0.0.0.0/0"], ["1-65535"]
    assert [rule.inputs for rule in sorted(deployment.of("VpcFirewallRule"), key=lambda rule: rule.name)] == [
        {
            **common,
            "name": "test-egress",
            "direction": "egress",
            "protocols": ["tcp", "udp"],
            "sources": vpc,
            "sourcePorts": ports,
            "destinations": everywhere,
            "destinationPorts": ports,
        },
        {
            **common,
            "name": "test-intra-vpc",
            "direction": "ingress",
            "protocols": ["tcp", "udp"],
            "sources": vpc,
            "sourcePorts": ports,
            "destinations": vpc,
            "destinationPorts": ports,
        },
        {
            **common,
            "name": "test-intra-vpc-icmp",
            "direction": "ingress",
            "protocols": ["icmp"],
            "sources": vpc,
            "destinations": vpc,
        },
    ]


def test_the_cluster_waits_for_the_rules_without_which_it_never_starts() -> None:
    deployment = deployed(ingress=[OFFICE])
    before = deployment.depends_on(deployment.one("platform-cluster-cmk"))
    assert {f"platform-network-{rule}" for rule in ("intra-vpc", "intra-vpc-icmp", "egress", "subnet")} <= before
    assert "platform-network-ingress-ssh" not in before


def test_ways_in_lead_to_the_nodes_only() -> None:
    rule = deployed(ingress=[OFFICE]).one("platform-network-ingress-ssh")
    assert rule.inputs == {
        "name": "test-ingress-ssh",
        "vpcNetworkId": "platform-network-vpc-id",
        "action": "allow",
        "direction": "ingress",
        "protocols": ["tcp"],
        "sources": ["203.0.113.0/24"],
        "sourcePorts": ["1-65535"],
        "destinations": ["10.0.0.0/20"],
        "destinationPorts": ["22", "8000-8999"],
        "adoptExisting": True,
    }


def test_there_is_no_way_in_by_default() -> None:
    ingress = [rule for rule in deployed().of("VpcFirewallRule") if rule.inputs["direction"] == "ingress"]
    assert ingress
    assert all(rule.inputs["sources"] == ["10.0.0.0/16"] for rule in ingress)


def test_partition_of_the_infiniband_network() -> None:
    partition = deployed().one("platform-network-infiniband")
    assert partition.inputs == {"name": "test-infiniband", "ibNetworkId": IB_NETWORK, "adoptExisting": True}


def test_no_partition_without_one_declared() -> None:
    pools = {"system": {"type": "c1a.8x", "count": 2}, "train": {"type": "l40s-48gb.10x", "count": 1}}
    assert deploy_platform(settings_document(network={}, nodePools=pools)).of("IbPartition") == []


def test_a_name_given_by_hand_is_never_adopted() -> None:
    deployment = deployed(name="shared", infiniband={"networkId": IB_NETWORK, "name": "fabric"})
    for resource, name in (("vpc", "shared"), ("infiniband", "fabric")):
        inputs = deployment.one(f"platform-network-{resource}").inputs
        assert (inputs["name"], inputs["adoptExisting"]) == (name, False)


@pytest.mark.parametrize(
    ("changes", "path", "problem"),
    [
        ({"cidr": "10.0.0.0"}, "cidr", "no prefix length"),
        ({"cidr": "10.0.0.5/16", "subnetCidr": "10.0.0.0/20"}, "cidr", "an address inside a range"),
        ({"cidr": "172.27.0.0/16", "subnetCidr": "172.27.0.0/20"}, "cidr", "the project's default network"),
        ({"cidr": "10.0.0.0/26", "subnetCidr": "10.0.0.0/26"}, "cidr", "too small"),
        ({"subnetCidr": "10.9.0.0/20"}, "subnetCidr", "not inside"),
        ({"subnetCidr": "nonsense"}, "subnetCidr", "not an address range"),
        ({"subnetCidr": "10.0.0.0/28"}, "subnetCidr", "too small"),
        ({"cidr": "10.232.0.0/16", "subnetCidr": "10.232.0.0/20"}, "", "overlaps"),
        ({"name": "Shared_Net"}, "name", "other characters"),
        ({"infiniband": {"networkId": IB_NETWORK, "name": "A"}}, "infiniband.name", "other characters"),
        ({"infiniband": {"networkId": "ib-1"}}, "infiniband.networkId", "not the id"),
        ({"ingress": [{**OFFICE, "cidrs": ["0.0.0.0/0"]}]}, "ingress[0].cidrs[0]", "lets the whole Internet in"),
        ({"ingress": [{**OFFICE, "cidrs": ["0.0.0.0/1"]}]}, "ingress[0].cidrs[0]", "lets in"),
        ({"ingress": [{**OFFICE, "cidrs": []}]}, "ingress[0].cidrs", "too short"),
        ({"ingress": [{**OFFICE, "ports": ["*"]}]}, "ingress[0].ports[0]", "not a port"),
        ({"ingress": [{**OFFICE, "ports": [0]}]}, "ingress[0].ports[0]", "not within 1 to 65535"),
        ({"ingress": [{**OFFICE, "ports": []}]}, "ingress[0].ports", "too short"),
        ({"ingress": [{**OFFICE, "protocol": "icmp"}]}, "ingress[0].protocol", "not one of the known values"),
        ({"ingress": [{**OFFICE, "name": "S S H"}]}, "ingress[0].name", "other characters"),
        ({"ingress": [OFFICE, OFFICE]}, "ingress[1].name", "already that of"),
        ({"ingress": [{**OFFICE, "reason": "because", "cidrs": ["0.0.0.0/0"]}]}, "ingress[0].reason", "too short"),
        ({"natGateway": False}, "natGateway", "no public IPs"),
    ],
)
def test_refused(changes: dict[str, object], path: str, problem: str) -> None:
    found = faults(network(**changes))
    if path:
        assert problem in found[f"platform.network.{path}"], found
    else:
        assert any(problem in fault for fault in found.values()), found


def test_the_whole_internet_comes_in_for_a_written_reason_only() -> None:
    way = {**OFFICE, "cidrs": ["0.0.0.0/0"], "reason": "Public endpoint behind a gateway that authenticates."}
    assert faults(network(ingress=[way])) == {}
    assert faults(network(ingress=[{**way, "cidrs": ["0.0.0.0"]}])).keys() == {"platform.network.ingress[0].cidrs[0]"}


def test_a_subnet_has_room_for_every_node_that_the_pools_may_have() -> None:
    pools: Json = {
        "system": {"type": "c1a.8x", "count": 2},
        "train": {"type": "h100-80gb-sxm-ib.8x", "autoscaling": {"min": 1, "max": 249}},
    }
    document = settings_document(
        cluster={"version": "1.35.5"},
        network={"infiniband": {"networkId": IB_NETWORK}, "subnetCidr": "10.0.0.0/24"},
        nodePools=pools,
    )
    assert "251 are asked for" in faults(document)["platform.network.subnetCidr"]
    pools["train"]["autoscaling"] = {"min": 1, "max": 248}
    assert faults(document) == {}


def test_nodes_with_public_ips_need_no_nat_gateway() -> None:
    document = network(natGateway=False)
    for pool in document["nodePools"].values():
        pool["publicIpType"] = "dynamic"
    assert faults(document) == {}
