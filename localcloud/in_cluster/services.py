"""Services of type LoadBalancer as pure functions: which are Crusoe's, what they listen on, whom the firewall lets in.

Source of names and behaviour: Crusoe's public load balancer controller
(github.com/crusoecloud/crusoe-load-balancer-controller, internal/controller).
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from localcloud.api.firewall_rules import port_range
from localcloud.api.wire import within
from localcloud.in_cluster.objects import Object, annotation, deleting, finalizers

FINALIZER = "crusoe.ai/crusoe-load-balancer-controller.finalizer"
BALANCER_ID = "crusoe.ai/load-balancer-id"
MANAGE_RULE = "crusoe.ai/manage-firewall-rule"
RULE_ID = "crusoe.ai/firewall-rule-id"
LISTENS = "local.crusoe.ai/listens"
"""Where this machine really listens, if it isn't at the load balancer's address and the Service's port."""

_RULE_PORTS = "crusoe.ai/firewall-rule-destination-ports"
_EVERYWHERE = "0.0.0.0/0"
_OF_SERVICE = "kubernetes.io/service-name"

Rule = dict[str, Any]


@dataclass(frozen=True)
class Route:
    """One port of a load balancer, and where its connections go: addresses and ports of ready pods."""

    port: int
    node_port: int
    source_ranges: tuple[str, ...]
    endpoints: tuple[tuple[str, int], ...]


def wanted(service: Object) -> bool:
    """Whether a Service should have a load balancer of Crusoe's."""
    spec = service["spec"]
    return spec.get("type") == "LoadBalancer" and not spec.get("loadBalancerClass") and not deleting(service)


def held(service: Object) -> bool:
    """Whether a Service has something in the cloud that must go before it may go or change its type."""
    return FINALIZER in finalizers(service)


def full_name(service: Object) -> str:
    """`namespace/name`."""
    return f"{service['metadata']['namespace']}/{service['metadata']['name']}"


def cloud_name(service: Object, cluster_id: str) -> str:
    """The name of a Service's load balancer and firewall rule."""
    metadata = service["metadata"]
    return f"{metadata['name']}-{metadata['namespace']}-{cluster_id[-5:]}"


def source_ranges(service: Object) -> list[str]:
    """Who may reach a Service."""
    return service["spec"].get("loadBalancerSourceRanges") or [_EVERYWHERE]


def refusal(service: Object) -> str | None:
    """Why a Service can't have a load balancer, or None."""
    others = sorted({port["protocol"] for port in service["spec"]["ports"] if port.get("protocol", "TCP") != "TCP"})
    return f"only TCP is supported, not {', '.join(others)}" if others else None


def manages_rule(service: Object) -> bool:
    """Whether a firewall rule is to be made and removed with the Service."""
    return annotation(service, MANAGE_RULE) == "true"


def rule_request(service: Object, network_id: str, cluster_id: str) -> Rule | None:
    """The firewall rule of a Service as the API takes it; None without a port to open.

    The firewall stands before the nodes, so it sees node ports and not the Service's own.
    """
    given = annotation(service, _RULE_PORTS)
    ports = given.split(",") if given else [str(port["nodePort"]) for port in _ports(service)]
    if not ports:
        return None
    return {
        "name": cloud_name(service, cluster_id),
        "vpc_network_id": network_id,
        "action": "allow",
        "direction": "ingress",
        "protocols": ["tcp"],
        "sources": [{"cidr": cidr} for cidr in source_ranges(service)],
        "destinations": [{"resource_id": network_id}],
        "destination_ports": ports,
    }


def routes(service: Object, slices: Iterable[Object]) -> list[Route]:
    """The ports of a Service with the ready pods behind each. A port without a node port isn't served, as in CMK."""
    metadata = service["metadata"]
    own = [
        item
        for item in slices
        if item["metadata"]["namespace"] == metadata["namespace"]
        and item["metadata"].get("labels", {}).get(_OF_SERVICE) == metadata["name"]
    ]
    ranges = tuple(source_ranges(service))
    return [
        Route(port["port"], port["nodePort"], ranges, tuple(sorted(_endpoints(own, port.get("name", "")))))
        for port in _ports(service)
    ]


def lets_in(rules: Sequence[Rule], subnet: Object, client: str, node_port: int) -> bool:
    """Whether a VPC's active rules let a client reach a node port in a subnet: some rule allows it and none denies it.

    `rules` and `subnet` are as the REST API shows them.
    """
    matching = [rule for rule in rules if _matches(rule, subnet, client, node_port)]
    return bool(matching) and all(rule["action"] == "allow" for rule in matching)


def in_ranges(client: str, ranges: Iterable[str]) -> bool:
    """Whether an address lies in one of some CIDRs."""
    address = ipaddress.ip_address(client)
    return any(address in ipaddress.ip_network(cidr.strip(), strict=False) for cidr in ranges)


def _ports(service: Object) -> list[Object]:
    return [port for port in service["spec"]["ports"] if port.get("nodePort")]


def _endpoints(slices: Iterable[Object], port_name: str) -> Iterable[tuple[str, int]]:
    for item in slices:
        for port in _list(item, "ports"):
            if (port.get("name") or "") == port_name and port.get("port"):
                for endpoint in _list(item, "endpoints"):
                    if endpoint.get("conditions", {}).get("ready", True):
                        yield endpoint["addresses"][0], port["port"]


def _list(item: Object, key: str) -> list[Object]:
    """A list that Kubernetes may leave out or send as null."""
    return item.get(key) or []


def _matches(rule: Rule, subnet: Object, client: str, node_port: int) -> bool:
    ports = [port_range(text) for text in rule.get("destination_ports", [])]
    return (
        rule["state"] == "active"
        and rule["direction"] == "ingress"
        and "tcp" in rule["protocols"]
        and in_ranges(client, [source["cidr"] for source in rule["sources"] if "cidr" in source])
        and any(_covers(target, subnet) for target in rule["destinations"])
        and (not ports or any(low <= node_port <= high for low, high in ports))
    )


def _covers(target: Object, subnet: Object) -> bool:
    """Whether a rule's destination holds every node of a subnet: a part of them would do for a part of the traffic."""
    if "resource_id" in target:
        return target["resource_id"] in (subnet["id"], subnet["vpc_network_id"])
    return within(subnet["cidr"], target["cidr"])
