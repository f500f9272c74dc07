"""Ranges, ports, places."""

from __future__ import annotations

import itertools
from ipaddress import IPv4Address, IPv4Network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crusoe.rules import network, places


@pytest.mark.parametrize("good", ["10.0.0.0/8", "172.16.0.0/12", "192.168.3.0/24", "100.64.0.0/10", "10.1.2.3/32"])
def test_good_ranges(good: str) -> None:
    assert network.cidr("p", good) == []
    assert network.parse(good) is not None


@pytest.mark.parametrize(
    ("bad", "problem", "fix"),
    [
        ("10.0.0.1/16", "inside a range", "'10.0.0.0/16'"),
        ("10.0.0.0", "no prefix length", "'10.0.0.0/32'"),
        ("10.0.0.0/33", "not an address range", "'10.0.0.0/16'"),
        ("10.0.0/16", "not an address range", "'10.0.0.0/16'"),
        ("ten", "not an address range", "'10.0.0.0/16'"),
        ("fd00::/8", "IPv6", "'10.0.0.0/16'"),
        ("8.8.8.0/24", "not private", "'10.0.0.0/8'"),
        ("10.0.0.0/7", "not private", "'10.0.0.0/8'"),
    ],
)
def test_bad_ranges(bad: str, problem: str, fix: str) -> None:
    (found,) = network.cidr("p", bad)
    assert problem in found.problem
    assert fix in found.fix


def test_overlaps_are_found_pairwise_and_a_free_range_is_named() -> None:
    found = network.disjoint(
        {
            "network.cidr": "10.0.0.0/16",
            "cluster.clusterCidr": "10.0.128.0/18",
            "cluster.serviceClusterIpRange": "10.1.0.0/20",
            "other": None,
            "bad": "x",
        }
    )
    assert [each.path for each in found] == ["cluster.clusterCidr"]
    assert "network.cidr, '10.0.0.0/16'" in found[0].problem
    free = IPv4Network(found[0].fix.split("'")[1])
    assert free.prefixlen == 18
    assert not any(free.overlaps(IPv4Network(each)) for each in ("10.0.0.0/16", "10.1.0.0/20", network.DEFAULT_VPC))


def private_range(offset: int, prefix: int) -> str:
    return str(IPv4Network((int(IPv4Address("10.0.0.0")) + offset, prefix), strict=False))


RANGE = st.builds(private_range, st.integers(0, 2**24 - 1), st.integers(8, 30))


@given(st.lists(RANGE, min_size=2, max_size=5))
def test_every_overlap_is_found_and_every_range_in_a_fix_is_free(given_ranges: list[str]) -> None:
    ranges = {f"path{index}": each for index, each in enumerate(given_ranges)}
    found = network.disjoint(ranges)
    pairs = itertools.combinations([IPv4Network(each) for each in given_ranges], 2)
    assert len(found) == sum(one.overlaps(two) for one, two in pairs)
    for each in found:
        if "'" in each.fix:
            free = IPv4Network(each.fix.split("'")[1])
            others = [IPv4Network(value) for path, value in ranges.items() if path != each.path]
            assert not any(free.overlaps(other) for other in others)


def test_the_default_vpc_is_left_alone() -> None:
    assert network.not_default_vpc("p", "10.0.0.0/16") == []
    for clash in ("172.27.0.0/16", "172.27.16.0/20", "172.16.0.0/12"):
        (found,) = network.not_default_vpc("p", clash)
        assert "172.27.0.0/16" in found.problem
        assert not IPv4Network(found.fix.split("'")[1]).overlaps(IPv4Network("172.27.0.0/16"))


def test_a_subnet_lies_in_its_network() -> None:
    assert network.inside("s", "10.0.0.0/20", "n", "10.0.0.0/16") == []
    assert network.inside("s", "10.0.0.0/16", "n", "10.0.0.0/16") == []
    (found,) = network.inside("s", "10.1.0.0/20", "n", "10.0.0.0/16")
    assert "'10.0.0.0/20'" in found.fix
    (found,) = network.inside("s", "10.0.0.0/8", "n", "10.0.0.0/16")
    assert "'10.0.0.0/16'" in found.fix


def test_room_for_the_nodes() -> None:
    assert network.size("s", "10.0.0.0/24", longest_prefix=28, hosts=250) == []
    (found,) = network.size("s", "10.0.0.0/24", longest_prefix=28, hosts=251)
    assert "room for 250 VMs, 251" in found.problem
    assert "/23" in found.fix
    (found,) = network.size("s", "10.0.0.0/30", longest_prefix=28)
    assert "'10.0.0.0/28'" in found.fix


@given(st.integers(1, 60_000))
def test_the_range_in_the_fix_has_room(hosts: int) -> None:
    for found in network.size("s", "10.0.0.0/28", longest_prefix=28, hosts=hosts):
        prefix = int(found.fix.split("/")[1].split(" ")[0])
        assert network.size("s", f"10.0.0.0/{prefix}", longest_prefix=28, hosts=hosts) == []
        assert network.size("s", f"10.0.0.0/{prefix + 1}", longest_prefix=32, hosts=hosts) != []


def test_pod_ranges() -> None:
    assert network.pod_ranges("m", "10.233.0.0/18", 24, 64) == []
    (found,) = network.pod_ranges("m", "10.233.0.0/18", 24, 65)
    assert "64 nodes, 65" in found.problem
    assert found.fix == "Write 25"
    (found,) = network.pod_ranges("m", "10.233.0.0/20", 28, 257)
    assert "cluster CIDR of /19" in found.fix
    (found,) = network.pod_ranges("m", "10.233.0.0/20", 24, 100_000)
    assert found.fix == "Write 28, and use a cluster CIDR of /11 or larger"
    (found,) = network.pod_ranges("m", "10.233.0.0/20", 24, 2_000_000)
    assert found.fix == "Ask for fewer nodes"
    (found,) = network.size("s", "10.0.0.0/20", longest_prefix=28, hosts=2**24)
    assert found.fix == "Ask for fewer nodes"
    (found,) = network.pod_ranges("m", "10.233.0.0/26", 24, 1)
    assert "larger than all" in found.problem
    assert network.pod_ranges("m", "10.0.0.0/8", 16, 1) == network.pod_ranges("m", "10.0.0.0/8", 28, 1) == []
    assert network.pod_ranges("m", "10.0.0.0/8", 15, 1)[0].fix == "Write 24"
    (found,) = network.pod_ranges("m", "10.233.0.0/18", 30, 1)
    assert found.fix == "Write 24"


def test_ingress_is_from_named_ranges_only() -> None:
    assert network.ingress("i", ["203.0.113.0/24", "10.0.0.0/8"]) == []
    found = network.ingress("i", ["0.0.0.0/0", "0.0.0.0/1", "203.0.113.7", "office"])
    assert [each.path for each in found] == ["i[0]", "i[1]", "i[2]", "i[3]"]
    assert "whole Internet" in found[0].problem
    assert "'203.0.113.0/24'" in found[0].fix
    assert "2,147,483,648 addresses" in found[1].problem
    assert "'203.0.113.7/32'" in found[2].fix
    (none,) = network.ingress("i", [])
    assert "names no source" in none.problem


def test_ports() -> None:
    assert network.ports("p", ["22", "8000-8999", "1-65535", 443]) == []
    fixes = [each.fix for each in network.ports("p", ["*", "0", "70000", "9-1", "http", "1-2-3", "-5", "\u0663"])]
    assert fixes[:4] == ["Write '1-65535' for all ports", "Write '1'", "Write '65535'", "Write '1-9'"]
    assert set(fixes[4:]) == {"Write '22' or '8000-8999'"}


def test_protocols() -> None:
    assert network.protocol("p", "tcp", ["22"]) == []
    assert network.protocol("p", "icmp", []) == []
    assert network.protocol("p", "TCP", ["22"])[0].fix == "Write 'tcp'"
    assert network.protocol("p", "sctp", [])[0].fix == "Write 'tcp'"
    assert "Leave the ports out" in network.protocol("p", "icmp", ["22"])[0].fix


@pytest.mark.parametrize("good", [*places.KNOWN, "ap-tokyo12-c"])
def test_locations(good: str) -> None:
    assert places.location("l", good) == []


@pytest.mark.parametrize(
    ("bad", "fix"),
    [("us_east1_a", "'us-east1-a'"), ("US-EAST1-A", "'us-east1-a'"), ("us-east1", "'us-east1-a'"), ("moon", "such as")],
)
def test_what_is_no_location(bad: str, fix: str) -> None:
    (found,) = places.location("l", bad)
    assert fix in found.fix


def test_what_belongs_together_lies_together() -> None:
    assert places.same("a", "us-east1-a", "b", "us-east1-a") == []
    (found,) = places.same("a", "us-east1-a", "b", "eu-iceland1-a")
    assert found.fix == "Write 'eu-iceland1-a'"
