"""VPC networks, subnets, firewall rules and InfiniBand partitions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NotRequired, TypedDict, Unpack

import pulumi

from crusoe.resources.base import CrusoeResource, output_type


class VpcNetworkInputs(TypedDict):
    """Inputs of a VPC network.

    Attributes:
        name: name of the network; changed in place.
        cidr: address range, such as 10.0.0.0/16; a change replaces.
        adopt_existing: whether an object of this name that agrees may be adopted.
    """

    name: pulumi.Input[str]
    cidr: pulumi.Input[str]
    adopt_existing: NotRequired[pulumi.Input[bool] | None]


class VpcNetwork(CrusoeResource, inputs=VpcNetworkInputs):
    """A VPC network. A new one denies all traffic until firewall rules allow some."""

    name: pulumi.Output[str]
    cidr: pulumi.Output[str]
    adopt_existing: pulumi.Output[bool | None]
    gateway: pulumi.Output[str]
    project_id: pulumi.Output[str]

    def __init__(
        self,
        resource_name: str,
        /,
        *,
        opts: pulumi.ResourceOptions | None = None,
        **inputs: Unpack[VpcNetworkInputs],
    ) -> None:
        """Declare the network."""
        super().__init__(resource_name, inputs, opts)


class VpcSubnetInputs(TypedDict):
    """Inputs of a subnet.

    Attributes:
        name: name of the subnet; changed in place.
        cidr: address range inside the network's; a change replaces.
        location: location, such as us-east1-a; a change replaces.
        vpc_network_id: id of the network; a change replaces.
        nat_gateway_enabled: whether private VMs reach the Internet through NAT; changed in place.
        adopt_existing: whether an object of this name that agrees may be adopted.
    """

    name: pulumi.Input[str]
    cidr: pulumi.Input[str]
    location: pulumi.Input[str]
    vpc_network_id: pulumi.Input[str]
    nat_gateway_enabled: NotRequired[pulumi.Input[bool] | None]
    adopt_existing: NotRequired[pulumi.Input[bool] | None]


@output_type
class NatGateway:
    """A NAT gateway with its public address."""

    id: str
    public_ipv4_id: str
    public_ipv4_address: str


class VpcSubnet(CrusoeResource, inputs=VpcSubnetInputs):
    """A subnet of a VPC network."""

    name: pulumi.Output[str]
    cidr: pulumi.Output[str]
    location: pulumi.Output[str]
    vpc_network_id: pulumi.Output[str]
    nat_gateway_enabled: pulumi.Output[bool | None]
    adopt_existing: pulumi.Output[bool | None]
    nat_gateways: pulumi.Output[Sequence[NatGateway]]

    def __init__(
        self,
        resource_name: str,
        /,
        *,
        opts: pulumi.ResourceOptions | None = None,
        **inputs: Unpack[VpcSubnetInputs],
    ) -> None:
        """Declare the subnet."""
        super().__init__(resource_name, inputs, opts)


class VpcFirewallRuleInputs(TypedDict):
    """Inputs of a firewall rule.

    Attributes:
        name: name of the rule; changed in place, as is everything that does not replace.
        vpc_network_id: id of the network; a change replaces.
        action: `allow` or `deny`; a change replaces.
        direction: `ingress` or `egress`; a change replaces.
        protocols: `tcp`, `udp`, or `icmp` in a rule of its own.
        sources: address ranges, or ids of networks, subnets or VMs.
        source_ports: ports such as 22 or 8000-8999; all when left out.
        destinations: as `sources`.
        destination_ports: as `source_ports`.
        adopt_existing: whether an object of this name that agrees may be adopted.
    """

    name: pulumi.Input[str]
    vpc_network_id: pulumi.Input[str]
    action: pulumi.Input[str]
    direction: pulumi.Input[str]
    protocols: pulumi.Input[Sequence[pulumi.Input[str]]]
    sources: pulumi.Input[Sequence[pulumi.Input[str]]]
    source_ports: NotRequired[pulumi.Input[Sequence[pulumi.Input[str]]] | None]
    destinations: pulumi.Input[Sequence[pulumi.Input[str]]]
    destination_ports: NotRequired[pulumi.Input[Sequence[pulumi.Input[str]]] | None]
    adopt_existing: NotRequired[pulumi.Input[bool] | None]


class VpcFirewallRule(CrusoeResource, inputs=VpcFirewallRuleInputs):
    """A firewall rule of a VPC network."""

    name: pulumi.Output[str]
    vpc_network_id: pulumi.Output[str]
    action: pulumi.Output[str]
    direction: pulumi.Output[str]
    protocols: pulumi.Output[Sequence[str]]
    sources: pulumi.Output[Sequence[str]]
    source_ports: pulumi.Output[Sequence[str] | None]
    destinations: pulumi.Output[Sequence[str]]
    destination_ports: pulumi.Output[Sequence[str] | None]
    adopt_existing: pulumi.Output[bool | None]

    def __init__(
        self,
        resource_name: str,
        /,
        *,
        opts: pulumi.ResourceOptions | None = None,
        **inputs: Unpack[VpcFirewallRuleInputs],
    ) -> None:
        """Declare the rule."""
        super().__init__(resource_name, inputs, opts)


class IbPartitionInputs(TypedDict):
    """Inputs of an InfiniBand partition; a change of either replaces.

    Attributes:
        name: name of the partition.
        ib_network_id: id of the InfiniBand network; `get_ib_networks` lists them.
        adopt_existing: whether an object of this name that agrees may be adopted.
    """

    name: pulumi.Input[str]
    ib_network_id: pulumi.Input[str]
    adopt_existing: NotRequired[pulumi.Input[bool] | None]


class IbPartition(CrusoeResource, inputs=IbPartitionInputs):
    """A partition of an InfiniBand network."""

    name: pulumi.Output[str]
    ib_network_id: pulumi.Output[str]
    adopt_existing: pulumi.Output[bool | None]

    def __init__(
        self,
        resource_name: str,
        /,
        *,
        opts: pulumi.ResourceOptions | None = None,
        **inputs: Unpack[IbPartitionInputs],
    ) -> None:
        """Declare the partition."""
        super().__init__(resource_name, inputs, opts)
