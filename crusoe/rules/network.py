"""Address ranges and firewall rules.

Facts: VPC networks are IPv4 only, the first five addresses and the broadcast address of a subnet are taken, the default
VPC is 172.27.0.0/16 (all from Crusoe's VPC documentation). The cluster CIDR is cut into one range per node.
"""

from __future__ import annotations

import itertools
from ipaddress import IPv4Network, ip_network

from crusoe.rules.finding import Finding
from crusoe.rules.values import items, table, text, whole

DEFAULT_VPC = "172.27.0.0/16"
"""Range of the VPC that every project has from the start; shared disks are served from it (172.27.255.2 and on)."""

PRIVATE = tuple(map(IPv4Network, ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10")))
_LARGEST = min(space.prefixlen for space in PRIVATE)
TAKEN_ADDRESSES = 6
"""Addresses of a subnet that no VM gets."""

_OFFICE = "your office's or VPN's range, for example '203.0.113.0/24'"

PROTOCOLS = ("tcp", "udp", "icmp")


def parse(value: object) -> IPv4Network | None:
    """Return the IPv4 range in `value`, None when it is none or has host bits set."""
    given = text(value)
    if given is None or "/" not in given:
        return None
    try:
        network = ip_network(given)
    except ValueError:
        return None
    return network if isinstance(network, IPv4Network) else None


def cidr(path: str, value: object, *, private: bool = True) -> list[Finding]:
    """Check one range: IPv4, written with its network address, and private unless told otherwise."""
    given = text(value)
    if given is None:
        return []
    try:
        network = ip_network(given, strict=False)
    except ValueError:
        return [Finding(path, f"{given[:60]!r} is not an address range", "Write one such as '10.0.0.0/16'")]
    if not isinstance(network, IPv4Network):
        return [Finding(path, f"{given!r} is IPv6, Crusoe's networks are IPv4 only", "Write one such as '10.0.0.0/16'")]
    if "/" not in given:
        return [Finding(path, f"{given!r} has no prefix length", f"Write '{given}/32' for this one address")]
    if parse(given) is None:
        return [Finding(path, f"{given!r} is an address inside a range, not a range", f"Write '{network}'")]
    if private and not any(network.subnet_of(space) for space in PRIVATE):
        return [Finding(path, f"{given!r} is not private address space", "Write one inside '10.0.0.0/8'")]
    return []


def size(path: str, value: object, *, longest_prefix: int, hosts: object = None) -> list[Finding]:
    """Check that a range is large enough: its prefix, and the VMs that are to fit into it."""
    network = parse(value)
    if network is None:
        return []
    wanted = whole(hosts)
    if network.prefixlen > longest_prefix:
        return [
            Finding(path, f"'{network}' is too small", f"Write '{network.network_address}/{longest_prefix}' or larger")
        ]
    room = network.num_addresses - TAKEN_ADDRESSES
    if wanted is not None and wanted > room:
        fitting = 32 - (wanted + TAKEN_ADDRESSES - 1).bit_length()
        fix = f"Use a range of /{fitting} or larger" if fitting >= _LARGEST else "Ask for fewer nodes"
        return [Finding(path, f"'{network}' has room for {max(0, room)} VMs, {wanted} are asked for", fix)]
    return []


def disjoint(ranges: object) -> list[Finding]:
    """Check that no two of the ranges overlap; `ranges` maps each path to its range.

    For a network with its cluster's pod and service ranges: pods and Services must be told from VMs by address alone.
    """
    parsed = [(path, network) for path, value in table(ranges).items() if (network := parse(value)) is not None]
    found: list[Finding] = []
    for (first, one), (second, two) in itertools.combinations(parsed, 2):
        if one.overlaps(two):
            others = [network for path, network in parsed if path != second]
            free = _free(two.prefixlen, others)
            found.append(
                Finding(
                    second,
                    f"'{two}' overlaps {first}, '{one}'",
                    f"Write '{free}'" if free else "Use a range outside it",
                )
            )
    return found


def not_default_vpc(path: str, value: object) -> list[Finding]:
    """Check that a range leaves the default VPC's alone, which shared disks and other VMs of the project use."""
    network, taken = parse(value), IPv4Network(DEFAULT_VPC)
    if network is None or not network.overlaps(taken):
        return []
    free = _free(network.prefixlen, [taken])
    return [
        Finding(
            path,
            f"'{network}' overlaps {DEFAULT_VPC}, the project's default network, where shared disks are served from",
            f"Write '{free}'" if free else "Use a range outside it",
        )
    ]


def inside(path: str, value: object, outer_path: str, outer: object) -> list[Finding]:
    """Check that a subnet lies in its network."""
    small, large = parse(value), parse(outer)
    if small is None or large is None or small.subnet_of(large):
        return []
    prefix = max(small.prefixlen, large.prefixlen)
    fitting = next(large.subnets(new_prefix=prefix))
    return [Finding(path, f"'{small}' is not inside {outer_path}, '{large}'", f"Write '{fitting}'")]


def pod_ranges(path: str, cluster_cidr: object, mask_size: object, nodes: object) -> list[Finding]:
    """Check that the cluster CIDR, cut into one range of `mask_size` per node, is enough for all nodes."""
    network, mask, wanted = parse(cluster_cidr), whole(mask_size), whole(nodes)
    if mask is not None and not 16 <= mask <= 28:
        return [Finding(path, f"the node CIDR mask size {mask} is not one from 16 to 28", "Write 24")]
    if network is None or mask is None:
        return []
    if mask < network.prefixlen:
        problem = f"a node's range of /{mask} is larger than all of '{network}'"
        return [Finding(path, problem, f"Write {min(28, max(24, network.prefixlen))}")]
    room = 2 ** (mask - network.prefixlen)
    if wanted is not None and wanted > room:
        bits = (wanted - 1).bit_length()
        if network.prefixlen + bits <= 28:
            fix = f"Write {network.prefixlen + bits}"
        elif mask - bits >= _LARGEST:
            fix = f"Use a cluster CIDR of /{mask - bits} or larger"
        elif 28 - bits >= _LARGEST:
            fix = f"Write 28, and use a cluster CIDR of /{28 - bits} or larger"
        else:
            fix = "Ask for fewer nodes"
        return [Finding(path, f"'{network}' has /{mask} ranges for {room} nodes, {wanted} are asked for", fix)]
    return []


def ingress(path: str, cidrs: object) -> list[Finding]:
    """Check who may come in: named ranges only, never everybody, and not nobody."""
    given = items(cidrs)
    found: list[Finding] = []
    if isinstance(cidrs, list | tuple) and not given:
        found.append(Finding(path, "the rule names no source", f"Name {_OFFICE}"))
    for index, value in enumerate(given):
        place = f"{path}[{index}]"
        faults = cidr(place, value, private=False)
        network = parse(value)
        if not faults and network is not None and network.prefixlen == 0:
            faults = [Finding(place, f"{value!r} lets the whole Internet in", f"Name {_OFFICE}")]
        elif not faults and network is not None and network.prefixlen < 8:
            faults = [
                Finding(
                    place, f"{value!r} lets in {network.num_addresses:,} addresses", "Name a range of /8 or smaller"
                )
            ]
        found += faults
    return found


def ports(path: str, values: object) -> list[Finding]:
    """Check ports, `22` or `8000-8999`. `*` is refused, as Crusoe's tools differ in what they send for it."""
    found: list[Finding] = []
    for index, value in enumerate(items(values)):
        given = str(value) if isinstance(value, int) and not isinstance(value, bool) else text(value)
        if given is None:
            continue
        first, dash, last = given.partition("-")
        bounds = (first, last if dash else first)
        if given == "*":
            found.append(Finding(f"{path}[{index}]", "'*' is not a port", "Write '1-65535' for all ports"))
        elif not all(bound.isascii() and bound.isdigit() and len(bound) <= 5 for bound in bounds):
            found.append(
                Finding(
                    f"{path}[{index}]", f"{given[:40]!r} is not a port or range of ports", "Write '22' or '8000-8999'"
                )
            )
        elif not 1 <= int(bounds[0]) <= int(bounds[1]) <= 65535:
            low, high = sorted(max(1, min(65535, int(bound))) for bound in bounds)
            right = f"{low}-{high}" if dash else f"{low}"
            found.append(
                Finding(f"{path}[{index}]", f"{given!r} is not within 1 to 65535, lower end first", f"Write {right!r}")
            )
    return found


def protocol(path: str, value: object, port_list: object) -> list[Finding]:
    """Check a rule's protocol, and that ICMP, which has no ports, is given none."""
    given = text(value)
    if given is None:
        return []
    if given not in PROTOCOLS:
        near = given.lower() if given.lower() in PROTOCOLS else "tcp"
        return [Finding(path, f"{given[:40]!r} is not one of {', '.join(PROTOCOLS)}", f"Write {near!r}")]
    if given == "icmp" and items(port_list):
        return [Finding(path, "ICMP has no ports, and the API refuses a rule that gives some", "Leave the ports out")]
    return []


def _free(prefix: int, taken: list[IPv4Network]) -> IPv4Network | None:
    """Return the first private range of this size that overlaps none of `taken` and not the default VPC."""
    avoid = [*taken, IPv4Network(DEFAULT_VPC)]
    for space in PRIVATE:
        if prefix < space.prefixlen:
            continue
        candidate = IPv4Network((space.network_address, prefix))
        while candidate.subnet_of(space):
            clash = next((each for each in avoid if each.overlaps(candidate)), None)
            if clash is None:
                return candidate
            after = max(int(clash.broadcast_address), int(candidate.broadcast_address)) + 1
            step = candidate.num_addresses
            start = -(-after // step) * step
            if start >= 2**32:
                break
            candidate = IPv4Network((start, prefix))
    return None
