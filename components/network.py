"""The platform's network: one VPC, one subnet, its firewall rules and its InfiniBand partition.

Owns the VPC network, the subnet in the platform's location, the rules without which a cluster can't start (a new VPC
denies everything, egress included), one rule for each named way in, and one partition of an InfiniBand network. Leaves
alone the project's default network, the rules that CMK and load balancers make for themselves, and RoCE partitions,
which pools name by id.

What breaks if violated: a cluster made before the intra-VPC and egress rules never starts, so the cluster depends on
`foundation`; a replaced partition or subnet replaces every pool in it.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Literal

import pulumi
from pydantic import BeforeValidator, Field

from components.naming import physical_name
from components.settings import Form, Plain, Settings
from crusoe.resources import IbPartition, VpcFirewallRule, VpcNetwork, VpcSubnet
from crusoe.rules import names
from crusoe.rules import network as rules
from crusoe.rules.finding import Finding
from crusoe.rules.values import items, table, text

ALL_PORTS = ("1-65535",)
"""`*` is understood when a rule is created, but taken literally when it is changed."""
EVERYWHERE = "0.0.0.0/0"
SMALLEST_NETWORK = 24
"""Longest prefix of a VPC and of a subnet."""

Uuid = Annotated[
    str, Form(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "not the id of a Crusoe resource, a lower-case UUID")
]
Port = Annotated[
    str, BeforeValidator(lambda port: str(port) if type(port) is int else port, json_schema_input_type=int | str)
]


class IngressSettings(Settings):
    """One way in from outside the VPC, open to named address ranges only."""

    name: str = Field(description="Names the rule: `<stack>-ingress-<name>`.", examples=["ssh"])
    cidrs: tuple[str, ...] = Field(
        description="Who may come in: IPv4 ranges, /8 or smaller. `0.0.0.0/0` needs a `reason`.",
        examples=[["203.0.113.0/24"]],
        min_length=1,
    )
    ports: tuple[Port, ...] = Field(
        description="Ports and ranges of ports on the nodes. A load balancer's traffic arrives at its node port.",
        examples=[["22"]],
        min_length=1,
    )
    protocol: Literal["tcp", "udp"] = Field(default="tcp", description="Transport protocol.", examples=["tcp"])
    reason: str | None = Field(
        default=None,
        description="Why the whole Internet may come in. Without one, `0.0.0.0/0` is refused.",
        examples=["Public inference endpoint, authenticated by its gateway."],
        min_length=10,
    )


class InfinibandSettings(Settings):
    """The partition that joins the hosts of InfiniBand VM types."""

    network_id: Uuid = Field(
        description="InfiniBand network to take the partition in: in the platform's location, with room for the pools' "
        "types (`crusoe networking ib-networks list`). A change replaces the partition and the pools in it.",
        examples=["00000000-0000-4000-8000-000000000101"],
    )
    name: str | None = Field(
        default=None, description="Name in Crusoe Cloud, by default `<stack>-infiniband`.", examples=["research-ib"]
    )


class NetworkSettings(Settings):
    """Address ranges, ways in and the InfiniBand partition."""

    name: str | None = Field(
        default=None, description="VPC's name in Crusoe Cloud, by default `<stack>-network`.", examples=["research"]
    )
    cidr: str = Field(
        default="10.0.0.0/16",
        description="Range of the VPC: private IPv4, apart from pods, Services and the default VPC's 172.27.0.0/16. A "
        "change replaces the network and all that is in it.",
        examples=["10.0.0.0/16"],
    )
    subnet_cidr: str = Field(
        default="10.0.0.0/20",
        description="Range of the nodes, inside `cidr`; six addresses are Crusoe's. A change replaces cluster and "
        "pools.",
        examples=["10.0.0.0/20"],
    )
    subnet_name: str | None = Field(
        default=None, description="Subnet's name in Crusoe Cloud, by default `<stack>-subnet`.", examples=["research"]
    )
    nat_gateway: bool = Field(
        default=True,
        description="NAT gateway of the subnet, through which nodes without public IPs reach registries.",
        examples=[True],
    )
    ingress: tuple[IngressSettings, ...] = Field(
        default=(),
        description="Ways in from outside the VPC. None by default.",
        examples=[[{"name": "ssh", "cidrs": ["203.0.113.0/24"], "ports": ["22"]}]],
    )
    infiniband: InfinibandSettings | None = Field(
        default=None,
        description="InfiniBand partition that all pools of `-ib` types join.",
        examples=[{"networkId": "00000000-0000-4000-8000-000000000101"}],
    )


def findings(network: Plain, path: str, stack: str, nodes: int) -> Iterator[Finding]:
    """Check the network by itself; `nodes` is the most that all pools together may have."""
    yield from rules.cidr(f"{path}.cidr", network.get("cidr"))
    yield from rules.not_default_vpc(f"{path}.cidr", network.get("cidr"))
    yield from rules.size(f"{path}.cidr", network.get("cidr"), longest_prefix=SMALLEST_NETWORK)
    yield from rules.cidr(f"{path}.subnetCidr", network.get("subnetCidr"))
    yield from rules.inside(f"{path}.subnetCidr", network.get("subnetCidr"), f"{path}.cidr", network.get("cidr"))
    yield from rules.size(f"{path}.subnetCidr", network.get("subnetCidr"), longest_prefix=SMALLEST_NETWORK, hosts=nodes)
    yield from names.physical(f"{path}.name", stack, "network", network.get("name"))
    yield from names.physical(f"{path}.subnetName", stack, "subnet", network.get("subnetName"))
    infiniband = table(network.get("infiniband"))
    yield from names.physical(f"{path}.infiniband.name", stack, "infiniband", infiniband.get("name"))
    ways = {f"{path}.ingress[{index}]": table(way) for index, way in enumerate(items(network.get("ingress")))}
    yield from names.unique({f"{place}.name": way.get("name") for place, way in ways.items()})
    for place, way in ways.items():
        yield from _way_findings(way, place, stack)


def _way_findings(way: Plain, place: str, stack: str) -> Iterator[Finding]:
    name = way.get("name")
    yield from names.physical(f"{place}.name", stack, f"ingress-{name}" if isinstance(name, str) else None)
    yield from rules.ports(f"{place}.ports", way.get("ports"))
    if text(way.get("reason")) is None:
        yield from rules.ingress(f"{place}.cidrs", way.get("cidrs"))
    else:
        for index, cidr in enumerate(items(way.get("cidrs"))):
            yield from rules.cidr(f"{place}.cidrs[{index}]", cidr, private=False)


@dataclass(frozen=True)
class FirewallRule:
    """What one rule of the VPC lets through. Every rule of the platform allows, since a VPC denies by itself."""

    thing: str
    direction: Literal["ingress", "egress"]
    protocols: tuple[str, ...]
    sources: tuple[str, ...]
    destinations: tuple[str, ...]
    source_ports: tuple[str, ...] | None = ALL_PORTS
    destination_ports: tuple[str, ...] | None = ALL_PORTS


def foundation_rules(settings: NetworkSettings) -> list[FirewallRule]:
    """Rules without which a CMK cluster in a VPC of its own does not start: nodes reach each other and the outside."""
    vpc = (settings.cidr,)
    return [
        FirewallRule("intra-vpc", "ingress", ("tcp", "udp"), sources=vpc, destinations=vpc),
        # A rule for ICMP must not name ports, so it is one of its own. Path MTU discovery needs it.
        FirewallRule("intra-vpc-icmp", "ingress", ("icmp",), vpc, vpc, source_ports=None, destination_ports=None),
        FirewallRule("egress", "egress", ("tcp", "udp"), sources=vpc, destinations=(EVERYWHERE,)),
    ]


def ingress_rules(settings: NetworkSettings) -> list[FirewallRule]:
    """One rule for each declared way in, to the nodes' subnet only."""
    return [
        FirewallRule(
            f"ingress-{way.name}",
            "ingress",
            (way.protocol,),
            sources=way.cidrs,
            destinations=(settings.subnet_cidr,),
            destination_ports=way.ports,
        )
        for way in settings.ingress
    ]


class Network(pulumi.ComponentResource):
    """The VPC with everything in it that is not a node.

    Attributes:
        cidr: the VPC's range.
        vpc: the VPC network.
        subnet: the nodes' subnet.
        foundation: rules that must stand before a cluster does.
        ib_partition: the InfiniBand partition, None without one.
    """

    cidr: str
    vpc: VpcNetwork
    subnet: VpcSubnet
    foundation: list[VpcFirewallRule]
    ib_partition: IbPartition | None

    def __init__(
        self,
        name: str,
        settings: NetworkSettings,
        *,
        stack: str,
        location: str,
        protect: bool,
        opts: pulumi.ResourceOptions,
    ) -> None:
        """Declare the network. The crusoe provider comes with `opts`."""
        super().__init__("gpuplatform:network:Network", name, None, opts)
        self.cidr = settings.cidr
        kept = pulumi.ResourceOptions(parent=self, protect=protect)
        by_hand = physical_name(stack, "network", settings.name)
        self.vpc = VpcNetwork(
            f"{name}-vpc", name=by_hand.value, cidr=settings.cidr, adopt_existing=by_hand.adopt_existing, opts=kept
        )
        subnet = physical_name(stack, "subnet", settings.subnet_name)
        self.subnet = VpcSubnet(
            f"{name}-subnet",
            name=subnet.value,
            cidr=settings.subnet_cidr,
            location=location,
            vpc_network_id=self.vpc.id,
            nat_gateway_enabled=settings.nat_gateway,
            adopt_existing=subnet.adopt_existing,
            opts=kept,
        )
        self.foundation = [self._rule(name, stack, rule) for rule in foundation_rules(settings)]
        for rule in ingress_rules(settings):
            self._rule(name, stack, rule)
        self.ib_partition = self._partition(name, stack, settings.infiniband)
        self.register_outputs({"networkId": self.vpc.id, "subnetId": self.subnet.id})

    def _rule(self, name: str, stack: str, rule: FirewallRule) -> VpcFirewallRule:
        physical = physical_name(stack, rule.thing)
        return VpcFirewallRule(
            f"{name}-{rule.thing}",
            name=physical.value,
            vpc_network_id=self.vpc.id,
            action="allow",
            direction=rule.direction,
            protocols=list(rule.protocols),
            sources=list(rule.sources),
            source_ports=None if rule.source_ports is None else list(rule.source_ports),
            destinations=list(rule.destinations),
            destination_ports=None if rule.destination_ports is None else list(rule.destination_ports),
            adopt_existing=physical.adopt_existing,
            opts=pulumi.ResourceOptions(parent=self),
        )

    def _partition(self, name: str, stack: str, settings: InfinibandSettings | None) -> IbPartition | None:
        if settings is None:
            return None
        physical = physical_name(stack, "infiniband", settings.name)
        return IbPartition(
            f"{name}-infiniband",
            name=physical.value,
            ib_network_id=settings.network_id,
            adopt_existing=physical.adopt_existing,
            opts=pulumi.ResourceOptions(parent=self),
        )
