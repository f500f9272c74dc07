"""VPC networks, subnets, firewall rules and InfiniBand partitions."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping, Sequence, Set
from typing import cast

from crusoe.provider.existing import JsonObject, text, texts
from crusoe.provider.findings import failures
from crusoe.provider.objects import ADOPT, ApiObject
from crusoe.provider.places import LOCATION, location_faults
from crusoe.provider.properties import Difference, Effect, Output, Property
from crusoe.provider.run import Run
from crusoe.provider.session import Session
from crusoe.provider.shapes import Failure, Field, Flag, ListOf, Record, Text, did_you_mean
from crusoe.provider.values import UNKNOWN, Value, Values

ALL_PORTS = "1-65535"
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)


def same_range(one: str, other: str) -> bool:
    """Compare address ranges by meaning: `10.0.0.7/8` is `10.0.0.0/8`."""
    try:
        return ipaddress.ip_network(one, strict=False) == ipaddress.ip_network(other, strict=False)
    except ValueError:
        return one == other


def same_ports(one: Sequence[Value], other: Sequence[Value]) -> bool:
    """Compare port lists by meaning: none, `*` and `1-65535` are all ports, `22-22` is `22`."""
    return _ports(one) == _ports(other)


def _ports(values: Sequence[Value]) -> frozenset[str]:
    plain = {_port(str(value)) for value in values if str(value).strip()}
    return frozenset({ALL_PORTS} if not plain or ALL_PORTS in plain else plain)


def _port(value: str) -> str:
    value = value.strip()
    first, dash, last = value.partition("-")
    return ALL_PORTS if value == "*" else first if dash and first == last else value


CIDR = Text(equal=same_range)


def _cidr_faults(name: str, value: Value) -> list[Failure]:
    from crusoe.rules import network

    return failures(network.cidr(name, value, private=False))


class VpcNetwork(ApiObject):
    """A VPC network."""

    name = "VpcNetwork"
    title = "VPC network"
    description = "A VPC network. A new one denies all traffic until firewall rules allow some."
    collection = "networking/vpc-networks"
    wrapper = "network"
    properties = (
        Property("name", Text(), "Name of the network.", required=True),
        Property("cidr", CIDR, "Address range, such as 10.0.0.0/16.", required=True, effect=Effect.REPLACE),
        ADOPT,
    )
    outputs = (
        Output("gateway", Text(), "Address of the network's gateway."),
        Output("projectId", Text(), "Id of the project that the network belongs to."),
    )

    def faults(self, news: Values) -> list[Failure]:
        """Check the range."""
        return _cidr_faults("cidr", news.get("cidr"))

    def body(self, run: Run, inputs: Values) -> JsonObject:
        """Return the create request."""
        del run
        return {"name": inputs["name"], "cidr": inputs["cidr"]}

    def actual(self, run: Run, fields: JsonObject, asked: Values) -> Values:
        """Return what the API tells."""
        del asked
        return {
            "name": text(fields, "name"),
            "cidr": text(fields, "cidr"),
            "gateway": text(fields, "gateway"),
            "projectId": run.client.project_id,
        }

    def patch(self, names: Set[str], state: Values, news: Values) -> JsonObject:
        """Rename."""
        del state
        return {"name": news["name"]} if "name" in names else {}


class VpcSubnet(ApiObject):
    """A subnet of a VPC network."""

    name = "VpcSubnet"
    title = "VPC subnet"
    description = "A subnet of a VPC network in one location, with or without a NAT gateway."
    collection = "networking/vpc-subnets"
    wrapper = "subnet"
    properties = (
        Property("name", Text(), "Name of the subnet.", required=True),
        Property("cidr", CIDR, "Address range inside the network's.", required=True, effect=Effect.REPLACE),
        LOCATION,
        Property("vpcNetworkId", Text(), "Id of the VPC network.", required=True, effect=Effect.REPLACE),
        Property("natGatewayEnabled", Flag(), "Whether private VMs reach the Internet through NAT.", assumed=False),
        ADOPT,
    )
    outputs = (
        Output(
            "natGateways",
            ListOf(
                Record(
                    "NatGateway",
                    (
                        Field("id", Text(), "Id of the gateway.", required=True),
                        Field("publicIpv4Id", Text(), "Id of its public address.", required=True),
                        Field("publicIpv4Address", Text(), "Its public address.", required=True),
                    ),
                )
            ),
            "NAT gateways; empty without NAT.",
        ),
    )

    def faults(self, news: Values) -> list[Failure]:
        """Check the range."""
        return _cidr_faults("cidr", news.get("cidr"))

    def remote_faults(self, session: Session, olds: Values, news: Values) -> list[Failure]:
        """Check the location."""
        return location_faults(session, olds, news)

    def body(self, run: Run, inputs: Values) -> JsonObject:
        """Return the create request."""
        del run
        return {
            "name": inputs["name"],
            "cidr": inputs["cidr"],
            "location": inputs["location"],
            "vpc_network_id": inputs["vpcNetworkId"],
            "nat_gateway_enabled": inputs.get("natGatewayEnabled") is True,
        }

    def actual(self, run: Run, fields: JsonObject, asked: Values) -> Values:
        """Return what the API tells; NAT is on when there is a gateway."""
        del run, asked
        found = fields.get("nat_gateways")
        gateways = [cast("JsonObject", each) for each in cast("list[object]", found or []) if isinstance(each, dict)]
        return {
            "name": text(fields, "name"),
            "cidr": text(fields, "cidr"),
            "location": text(fields, "location"),
            "vpcNetworkId": text(fields, "vpc_network_id"),
            "natGatewayEnabled": bool(gateways),
            "natGateways": [
                {
                    "id": text(each, "id") or "",
                    "publicIpv4Id": text(each, "public_ipv4_id") or "",
                    "publicIpv4Address": text(each, "public_ipv4_address") or "",
                }
                for each in gateways
            ],
        }

    def patch(self, names: Set[str], state: Values, news: Values) -> JsonObject:
        """Rename, and turn NAT on or off; the action is left out when it is not what changes."""
        del state
        body: JsonObject = {}
        if "name" in names:
            body["name"] = news["name"]
        if "natGatewayEnabled" in names:
            body["nat_gateway_action"] = "enable" if news.get("natGatewayEnabled") is True else "disable"
        return body

    def planned_update(self, state: Values, news: Values, changes: Sequence[Difference]) -> Values:
        """Say that a changed NAT setting changes the gateways."""
        after = super().planned_update(state, news, changes)
        if any(change.property == "natGatewayEnabled" for change in changes):
            after["natGateways"] = UNKNOWN if after.get("natGatewayEnabled") is not False else []
        return after


def _end_fault(value: str) -> str | None:
    from crusoe.rules import network

    if _UUID.fullmatch(value):
        return None
    found = network.cidr("", value, private=False)
    return f"{found[0].problem}. {found[0].fix}, or the id of a VPC network, subnet or VM." if found else None


_ENDS = ListOf(Text(equal=same_range, fault=_end_fault))
_PORTS = ListOf(Text(), equal=same_ports)


class VpcFirewallRule(ApiObject):
    """A firewall rule of a VPC network."""

    name = "VpcFirewallRule"
    title = "VPC firewall rule"
    description = "A firewall rule of a VPC network: which traffic is allowed or denied."
    collection = "networking/vpc-firewall-rules"
    properties = (
        Property("name", Text(), "Name of the rule.", required=True),
        Property("vpcNetworkId", Text(), "Id of the VPC network.", required=True, effect=Effect.REPLACE),
        Property("action", Text(("allow", "deny")), "allow or deny.", required=True, effect=Effect.REPLACE),
        Property("direction", Text(("ingress", "egress")), "ingress or egress.", required=True, effect=Effect.REPLACE),
        Property(
            "protocols", ListOf(Text(("tcp", "udp", "icmp"))), "tcp, udp, or icmp in a rule of its own.", required=True
        ),
        Property("sources", _ENDS, "Address ranges, or ids of networks, subnets or VMs.", required=True),
        Property("sourcePorts", _PORTS, "Ports such as 22 or 8000-8999; all when left out.", assumed=[]),
        Property("destinations", _ENDS, "Address ranges, or ids of networks, subnets or VMs.", required=True),
        Property("destinationPorts", _PORTS, "Ports such as 22 or 8000-8999; all when left out.", assumed=[]),
        ADOPT,
    )

    def faults(self, news: Values) -> list[Failure]:
        """Check the ports, that ICMP has none, and that no list is empty."""
        from crusoe.rules import network

        found = [
            Failure(name, "must name at least one")
            for name in ("protocols", "sources", "destinations")
            if news.get(name) == []
        ]
        for name in ("sourcePorts", "destinationPorts"):
            ports = [each for each in _list(news.get(name)) if each != "*"]
            found += failures(network.ports(name, ports))
        ported = any(_list(news.get(name)) for name in ("sourcePorts", "destinationPorts"))
        if "icmp" in _list(news.get("protocols")) and ported:
            found.append(Failure("protocols", "ICMP has no ports. Give it a rule of its own without ports."))
        return found

    def body(self, run: Run, inputs: Values) -> JsonObject:
        """Return the create request."""
        del run
        body: JsonObject = {
            "name": inputs["name"],
            "vpc_network_id": inputs["vpcNetworkId"],
            "action": inputs["action"],
            "direction": inputs["direction"],
            "protocols": inputs["protocols"],
            "sources": _targets(inputs["sources"]),
            "destinations": _targets(inputs["destinations"]),
        }
        for name, key in (("sourcePorts", "source_ports"), ("destinationPorts", "destination_ports")):
            ports = _port_list(inputs, name)
            if ports:
                body[key] = ports
        return body

    def actual(self, run: Run, fields: JsonObject, asked: Values) -> Values:
        """Return what the API tells; ports that it leaves out are all ports."""
        del run, asked
        return {
            "name": text(fields, "name"),
            "vpcNetworkId": text(fields, "vpc_network_id"),
            "action": text(fields, "action"),
            "direction": text(fields, "direction"),
            "protocols": cast("Value", texts(fields, "protocols")),
            "sources": _ends(fields, "sources"),
            "sourcePorts": _known_ports(fields, "source_ports"),
            "destinations": _ends(fields, "destinations"),
            "destinationPorts": _known_ports(fields, "destination_ports"),
        }

    def patch(self, names: Set[str], state: Values, news: Values) -> JsonObject:
        """Return what changed; an emptied port list has to be sent, as absent means keep."""
        del state
        body: JsonObject = {}
        for name in ("name", "protocols"):
            if name in names:
                body[name] = news[name]
        for name in ("sources", "destinations"):
            if name in names:
                body[name] = _targets(news[name])
        # A rule that turns into ICMP has to lose its ports in the same request, and one that gains ports its ICMP.
        ported = {"sourcePorts", "destinationPorts"} if "protocols" in names else set(names)
        for name, key in (("sourcePorts", "source_ports"), ("destinationPorts", "destination_ports")):
            if name in ported:
                body[key] = _port_list(news, name)
        return body


def _list(value: Value) -> list[Value]:
    return value if isinstance(value, list) else []


def _port_list(inputs: Mapping[str, Value], name: str) -> list[str]:
    """Return the ports to send: all ports in full, because the API takes `*` literally in updates; none for ICMP."""
    if "icmp" in _list(inputs.get("protocols")):
        return []
    return sorted(_ports(_list(inputs.get(name))))


def _known_ports(fields: JsonObject, name: str) -> Value:
    ports = texts(fields, name)
    return None if not ports or ALL_PORTS in _ports(cast("list[Value]", ports)) else cast("Value", ports)


def _targets(value: Value) -> list[JsonObject]:
    return [{"resource_id" if _UUID.fullmatch(str(each)) else "cidr": each} for each in _list(value)]


def _ends(fields: JsonObject, name: str) -> Value:
    found = cast("list[object]", fields.get(name) or [])
    ends = [cast("JsonObject", each) for each in found if isinstance(each, dict)]
    return [text(each, "cidr") or text(each, "resource_id") or "" for each in ends]


class IbPartition(ApiObject):
    """A partition of an InfiniBand network."""

    name = "IbPartition"
    title = "IB partition"
    description = "A partition of an InfiniBand network, which node pools of -ib types join."
    collection = "networking/ib-partitions"
    properties = (
        Property("name", Text(), "Name of the partition.", required=True, effect=Effect.REPLACE),
        Property(
            "ibNetworkId",
            Text(),
            "Id of the InfiniBand network; getIbNetworks lists them with their location and capacity.",
            required=True,
            effect=Effect.REPLACE,
        ),
        ADOPT,
    )

    def remote_faults(self, session: Session, olds: Values, news: Values) -> list[Failure]:
        """Check that a new or changed network is one of the project's."""
        network = news.get("ibNetworkId")
        if not isinstance(network, str) or olds.get("ibNetworkId") == network:
            return []
        known = {found: row for row in session.ib_networks() if (found := text(row, "id"))}
        if not known or network in known:
            return []
        named = next((found for found, row in known.items() if text(row, "name") == network), None)
        hint = f" That is its name; write its id, {named}." if named else did_you_mean(network, known)
        listing = ", ".join(f"{found} ({text(row, 'location')})" for found, row in known.items())
        problem = f"{network} is not the id of an InfiniBand network of this project."
        return [Failure("ibNetworkId", f"{problem}{hint} Known are {listing}.")]

    def body(self, run: Run, inputs: Values) -> JsonObject:
        """Return the create request."""
        del run
        return {"name": inputs["name"], "ib_network_id": inputs["ibNetworkId"]}

    def actual(self, run: Run, fields: JsonObject, asked: Values) -> Values:
        """Return what the API tells."""
        del run, asked
        return {"name": text(fields, "name"), "ibNetworkId": text(fields, "ib_network_id")}


KINDS = (VpcNetwork(), VpcSubnet(), VpcFirewallRule(), IbPartition())
