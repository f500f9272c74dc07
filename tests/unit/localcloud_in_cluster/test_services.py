"""Services in, listeners and firewall rules out; and whom the firewall lets in."""

from __future__ import annotations

from typing import Any

import pytest

from localcloud.in_cluster import services
from localcloud.in_cluster.services import Route
from tests.unit.localcloud_in_cluster.support import Json, endpoints, service

SUBNET = {"id": "sub", "vpc_network_id": "net", "cidr": "10.0.0.0/20"}
HTTP = {"name": "http", "port": 80, "nodePort": 30080}


@pytest.mark.parametrize(
    ("item", "expected"),
    [
        (service(), True),
        (service(type="ClusterIP"), False),
        (service(loadBalancerClass="example.com/other"), False),
    ],
)
def test_which_services_want_a_load_balancer(item: Json, expected: bool) -> None:
    assert services.wanted(item) is expected


def test_a_service_that_is_being_deleted_wants_none() -> None:
    item = service()
    item["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert not services.wanted(item)


def test_routes_hold_the_ready_pods_of_their_own_port() -> None:
    item = service({"name": "ssh", "port": 22, "nodePort": 30022}, HTTP, {"name": "none", "port": 9})
    slices = [
        endpoints("10.1.0.2", "10.1.0.1"),
        endpoints("10.1.0.3", ready=False),
        endpoints("10.1.0.4", name="http", port=8080),
        endpoints("10.1.0.5", service="other"),
        {**endpoints(), "ports": None, "endpoints": None},
    ]
    assert services.routes(item, slices) == [
        Route(22, 30022, ("0.0.0.0/0",), (("10.1.0.1", 2222), ("10.1.0.2", 2222))),
        Route(80, 30080, ("0.0.0.0/0",), (("10.1.0.4", 8080),)),
    ]


def test_the_managed_rule_opens_the_node_ports_to_the_source_ranges() -> None:
    item = service(HTTP, annotations={services.MANAGE_RULE: "true"}, loadBalancerSourceRanges=["192.0.2.0/24"])
    assert services.manages_rule(item)
    rule = services.rule_request(item, "net", "00000000-0000-4000-8000-0000000abcde")
    assert rule is not None
    assert rule["name"] == "login-slurm-abcde"
    assert rule["destination_ports"] == ["30080"]
    assert rule["sources"] == [{"cidr": "192.0.2.0/24"}]
    assert rule["destinations"] == [{"resource_id": "net"}]


def test_the_ports_of_the_rule_can_be_given() -> None:
    given = service(annotations={"crusoe.ai/firewall-rule-destination-ports": "30000-32767,22"})
    rule = services.rule_request(given, "net", "cluster")
    assert rule is not None
    assert rule["destination_ports"] == ["30000-32767", "22"]
    assert rule["sources"] == [{"cidr": "0.0.0.0/0"}]


def test_no_rule_without_a_port_to_open_and_none_unless_asked_for() -> None:
    assert services.rule_request(service({"port": 80}), "net", "cluster") is None
    assert not services.manages_rule(service(annotations={services.MANAGE_RULE: "yes"}))


def test_only_tcp() -> None:
    assert services.refusal(service()) is None
    assert services.refusal(service({"port": 53, "protocol": "UDP"})) == "only TCP is supported, not UDP"


def rule(**more: Any) -> Json:
    return {
        "state": "active",
        "action": "allow",
        "direction": "ingress",
        "protocols": ["tcp", "udp"],
        "sources": [{"cidr": "192.0.2.0/24"}],
        "destinations": [{"resource_id": "net"}],
        "destination_ports": ["30000-30100"],
        **more,
    }


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        ([], False),
        ([rule()], True),
        ([rule(destinations=[{"resource_id": "sub"}])], True),
        ([rule(destinations=[{"cidr": "10.0.0.0/8"}])], True),
        ([rule(destinations=[{"cidr": "10.0.0.0/24"}])], False),
        ([rule(destinations=[{"resource_id": "vm"}])], False),
        ([rule(destination_ports=["22"])], False),
        ([{key: value for key, value in rule().items() if key != "destination_ports"}], True),
        ([rule(sources=[{"cidr": "198.51.100.0/24"}])], False),
        ([rule(sources=[{"resource_id": "net"}])], False),
        ([rule(protocols=["udp"])], False),
        ([rule(direction="egress")], False),
        ([rule(state="inactive")], False),
        ([rule(), rule(action="deny")], False),
        ([rule(), rule(action="deny", destination_ports=["22"])], True),
    ],
)
def test_whom_the_firewall_lets_in(rules: list[Json], expected: bool) -> None:
    assert services.lets_in(rules, SUBNET, "192.0.2.7", 30022) is expected


def test_source_ranges() -> None:
    assert services.in_ranges("192.0.2.7", ["198.51.100.0/24", " 192.0.2.0/24"])
    assert not services.in_ranges("192.0.2.7", ["192.0.2.8/29"])
