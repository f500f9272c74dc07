"""Networks, subnets, firewall rules and partitions: what is sent, and what counts as the same."""

from __future__ import annotations

from typing import Any

import pytest

from crusoe.client import ServerError
from crusoe.provider.clusters import KubernetesCluster
from crusoe.provider.kind import Kind
from crusoe.provider.networking import (
    ALL_PORTS,
    IbPartition,
    VpcFirewallRule,
    VpcNetwork,
    VpcSubnet,
    same_ports,
    same_range,
)
from crusoe.provider.storage import StorageDisk, gib
from crusoe.provider.values import UNKNOWN, Value, Values
from tests.unit.provider.support import Bench, before, values

RULE = values(
    name="r",
    vpcNetworkId="net",
    action="allow",
    direction="ingress",
    protocols=["tcp"],
    sources=["10.0.0.0/8"],
    destinations=["10.0.0.0/16"],
    destinationPorts=["22"],
)
DISK = values(name="d", location="here", size="1TiB")
UUID = "00000000-0000-4000-8000-000000000101"


def faults(inputs: Values) -> dict[str, str]:
    return {one.path: one.reason for one in VpcFirewallRule().check(Bench().session, {}, inputs)}


def changed(old: Values, **new: Value) -> set[str]:
    kind = VpcFirewallRule()
    state = kind.state_of(old, {})
    return {one.path for one in kind.differences(old, state, {**old, **new})}


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("10.0.0.0/8", "10.0.0.0/8", True),
        ("10.0.0.7/8", "10.0.0.0/8", True),
        ("10.0.0.0/8", "10.0.0.0/9", False),
        ("not a range", "not a range", True),
        ("not a range", "10.0.0.0/8", False),
    ],
)
def test_ranges_by_meaning(one: str, other: str, same: bool) -> None:
    assert same_range(one, other) is same


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ([], ["*"], True),
        (["1-65535"], ["*"], True),
        ([], ["1-65535"], True),
        (["22"], ["22-22"], True),
        (["22", "80"], ["80", "22"], True),
        (["22"], ["23"], False),
        (["22"], [], False),
    ],
)
def test_ports_by_meaning(one: list[Value], other: list[Value], same: bool) -> None:
    assert same_ports(one, other) is same


class TestFirewallRule:
    def test_the_create_request(self) -> None:
        inputs: dict[str, Any] = {**RULE, "sources": ["10.0.0.0/8", UUID], "sourcePorts": ["*"]}
        assert VpcFirewallRule().body(Bench().run(), inputs) == {
            "name": "r",
            "vpc_network_id": "net",
            "action": "allow",
            "direction": "ingress",
            "protocols": ["tcp"],
            "sources": [{"cidr": "10.0.0.0/8"}, {"resource_id": UUID}],
            "destinations": [{"cidr": "10.0.0.0/16"}],
            "source_ports": [ALL_PORTS],
            "destination_ports": ["22"],
        }

    def test_icmp_has_no_ports(self) -> None:
        inputs: dict[str, Any] = {**RULE, "protocols": ["icmp"]}
        del inputs["destinationPorts"]
        body = VpcFirewallRule().body(Bench().run(), inputs)
        assert not {"source_ports", "destination_ports"} & set(body)
        assert faults({**RULE, "protocols": ["icmp"]}) == {
            "protocols": "ICMP has no ports. Give it a rule of its own without ports."
        }

    def test_an_emptied_port_list_is_sent_in_full(self) -> None:
        kind = VpcFirewallRule()
        assert kind.patch({"destinationPorts"}, {}, {**RULE, "destinationPorts": []}) == {
            "destination_ports": [ALL_PORTS]
        }
        assert kind.patch({"destinationPorts"}, {}, {**RULE, "destinationPorts": ["*"]}) == {
            "destination_ports": [ALL_PORTS]
        }

    def test_turning_into_icmp_drops_the_ports_in_the_same_request(self) -> None:
        news: dict[str, Any] = {**RULE, "protocols": ["icmp"], "destinationPorts": []}
        assert VpcFirewallRule().patch({"protocols"}, {}, news) == {
            "protocols": ["icmp"],
            "source_ports": [],
            "destination_ports": [],
        }

    def test_what_replaces_is_never_sent(self) -> None:
        kind = VpcFirewallRule()
        assert kind.patch({"action", "direction", "vpcNetworkId"}, {}, RULE) == {}
        replacing = {
            one.property
            for one in kind.differences(
                RULE,
                kind.state_of(RULE, {}),
                {**RULE, "action": "deny", "direction": "egress", "vpcNetworkId": "other"},
            )
            if one.replaces
        }
        assert replacing == {"action", "direction", "vpcNetworkId"}

    def test_the_same_meaning_is_no_difference(self) -> None:
        every: dict[str, Any] = {**RULE, "destinationPorts": [ALL_PORTS], "sources": ["10.0.0.0/8", "11.0.0.0/8"]}
        assert not changed(every, destinationPorts=["*"], sources=["11.0.0.0/8", "10.0.0.0/8"])
        assert not changed({**every, "destinationPorts": []}, destinationPorts=["*"])
        assert changed(every, sources=["11.0.0.0/8"]) == {"sources"}

    def test_ports_that_the_api_leaves_out_are_all_ports(self) -> None:
        fields: dict[str, object] = {"name": "r", "protocols": ["tcp"], "sources": [{"cidr": "10.0.0.0/8"}]}
        actual = VpcFirewallRule().actual(Bench().run(), fields, {})
        assert actual["destinationPorts"] is None
        assert (
            VpcFirewallRule().actual(Bench().run(), {**fields, "destination_ports": ["*"]}, {})["destinationPorts"]
            is None
        )

    def test_faults_are_told_together(self) -> None:
        found = faults({**RULE, "sources": [], "destinations": ["10.0.0.1/8"], "destinationPorts": ["0-70000", "ssh"]})
        assert found["sources"] == "must name at least one"
        assert set(found) == {"sources", "destinations[0]", "destinationPorts[0]", "destinationPorts[1]"}

    def test_wrong_ends_and_ports_are_named(self) -> None:
        assert "Write '10.0.0.0/8'" in faults({**RULE, "destinations": ["10.0.0.1/8"]})["destinations[0]"]
        found = faults({**RULE, "destinationPorts": ["70000", "ssh"]})
        assert set(found) == {"destinationPorts[0]", "destinationPorts[1]"}
        assert not faults({**RULE, "destinationPorts": ["*"], "sources": [UUID]})


class TestNetworksAndSubnets:
    def test_the_range_is_checked(self) -> None:
        found = VpcNetwork().check(Bench().session, {}, values(name="n", cidr="10.0.0.1/16"))
        assert [(one.path, "Write '10.0.0.0/16'" in one.reason) for one in found] == [("cidr", True)]
        assert not VpcNetwork().check(Bench().session, {}, values(name="n", cidr=UNKNOWN))

    def test_requests(self) -> None:
        run = Bench().run()
        assert VpcNetwork().patch({"name"}, {}, values(name="n")) == {"name": "n"}
        subnet = values(name="s", cidr="10.0.0.0/20", location="here", vpcNetworkId="net", natGatewayEnabled=True)
        assert VpcSubnet().body(run, subnet) == {
            "name": "s",
            "cidr": "10.0.0.0/20",
            "location": "here",
            "vpc_network_id": "net",
            "nat_gateway_enabled": True,
        }
        assert IbPartition().body(run, values(name="p", ibNetworkId="ib")) == {"name": "p", "ib_network_id": "ib"}

    def test_nat_is_on_when_there_is_a_gateway(self) -> None:
        gateway = {"id": "g", "public_ipv4_id": "i", "public_ipv4_address": "192.0.2.1"}
        on = VpcSubnet().actual(Bench().run(), {"nat_gateways": [gateway]}, {})
        assert on["natGatewayEnabled"] is True
        assert on["natGateways"] == [{"id": "g", "publicIpv4Id": "i", "publicIpv4Address": "192.0.2.1"}]
        for off in (values(), values(nat_gateways=[]), values(nat_gateways=None)):
            assert VpcSubnet().actual(Bench().run(), off, {})["natGatewayEnabled"] is False

    def test_a_preview_of_nat_says_that_the_gateways_change(self) -> None:
        kind = VpcSubnet()
        old = values(name="s", natGatewayEnabled=False)
        new = values(name="s", natGatewayEnabled=True)
        state: dict[str, Any] = {**old, "natGateways": []}
        assert kind.planned_update(state, new, kind.differences(old, state, new))["natGateways"] is UNKNOWN
        renamed = kind.planned_update(state, {**old, "name": "t"}, kind.differences(old, state, {**old, "name": "t"}))
        assert renamed["natGateways"] == []


class TestDisks:
    @pytest.mark.parametrize(("size", "expected"), [("512GiB", 512), ("10TiB", 10240), ("10", None), ("0GiB", None)])
    def test_sizes(self, size: str, expected: int | None) -> None:
        assert gib(size) == expected

    @pytest.mark.parametrize(
        ("kind", "size", "fix"),
        [
            (None, "10 TB", "'10TiB'"),
            ("persistent-ssd", "11TiB", "'10TiB'"),
            ("shared-volume", "1.5TiB", "'2TiB'"),
            ("shared-volume", "1500GiB", "'2TiB'"),
        ],
    )
    def test_a_wrong_size_is_named_with_the_right_one(self, kind: str | None, size: str, fix: str) -> None:
        (found,) = StorageDisk().check(Bench().session, {}, {**DISK, "type": kind, "size": size})
        assert found.path == "size"
        assert fix in found.reason

    def test_the_same_size_in_other_units_is_no_difference(self) -> None:
        kind = StorageDisk()
        assert not kind.differences(DISK, {**DISK, "size": "1024GiB"}, DISK)

    def test_shrinking_is_refused_and_growing_is_not(self) -> None:
        kind = StorageDisk()

        def refused(size: str) -> str | None:
            news: Values = {**DISK, "size": size}
            return kind.refusal(DISK, news, kind.differences(DISK, DISK, news))

        assert "can't shrink to 512GiB" in (refused("512GiB") or "")
        assert refused("2TiB") is None
        assert kind.patch({"size"}, DISK, {**DISK, "size": "2TiB"}) == {"size": "2TiB"}

    def test_a_quota_is_named_with_its_numbers(self) -> None:
        bench = Bench()
        bench.api.answers["quotas"] = {"items": [{"name": "persistent-ssd", "max": 100, "used": 90, "available": 10}]}
        from crusoe.client import QuotaError

        told = StorageDisk().explain(bench.run(), DISK, QuotaError(400, "", "quota exceeded"))
        assert "quota persistent-ssd does not allow disk d, 90 of 100 used" in told


SUBNET = values(name="s", cidr="10.0.0.0/20", location="us-east1-a", vpcNetworkId="net")
CLUSTER = values(name="c", location="us-east1-a", version="1.33.4-cmk.43")
IB_NETWORKS = (
    {"id": "00000000-0000-4000-8000-000000000101", "name": "east-h100", "location": "us-east1-a"},
    {"id": "00000000-0000-4000-8000-000000000102", "name": "ice-h100", "location": "eu-iceland1-a"},
)


@pytest.mark.parametrize(
    ("kind", "inputs"),
    [
        (VpcSubnet(), SUBNET),
        (StorageDisk(), {**DISK, "location": "us-east1-a"}),
        (KubernetesCluster(), CLUSTER),
    ],
    ids=lambda each: each.name if isinstance(each, Kind) else "",
)
class TestLocations:
    """A location can't be changed in place: what `check` lets pass has cost the old object when the API refuses it."""

    @pytest.fixture
    def bench(self) -> Bench:
        bench = Bench()
        bench.api.answers["/locations"] = {"items": ["eu-iceland1-a", "us-east1-a"]}
        bench.api.answers["kubernetes/versions"] = {}
        return bench

    def test_an_unknown_one_is_refused_with_the_known_ones(self, bench: Bench, kind: Kind, inputs: Values) -> None:
        for olds in ({}, inputs):
            (found,) = kind.check(bench.session, olds, {**inputs, "location": "us-east1-z"})
            assert found.path == "location"
            assert "Did you mean 'us-east1-a'? Known are eu-iceland1-a, us-east1-a." in found.reason
        assert len(bench.api.sent("GET", "/locations")) == 1

    def test_a_known_one_passes(self, bench: Bench, kind: Kind, inputs: Values) -> None:
        assert not kind.check(bench.session, {}, inputs)
        assert not kind.check(bench.session, {}, {**inputs, "location": UNKNOWN})

    def test_nothing_is_asked_without_news(self, bench: Bench, kind: Kind, inputs: Values) -> None:
        retired: Values = {**inputs, "location": "us-old1-a"}
        assert not kind.check(bench.session, retired, {**retired, "name": "other"})
        assert not bench.api.sent("GET", "/locations")

    def test_an_api_without_the_list_refuses_nothing(self, kind: Kind, inputs: Values) -> None:
        answers: tuple[dict[str, Any] | None, ...] = (None, {}, {"items": None})
        for answer in answers:
            bench = Bench()
            if answer is not None:
                bench.api.answers["/locations"] = answer
            bench.api.answers["kubernetes/versions"] = {}
            assert not kind.check(bench.session, {}, {**inputs, "location": "us-east1-z"})
            kind.check(bench.session, {}, {**inputs, "location": "us-east1-y"})
            assert len(bench.api.sent("GET", "/locations")) == 1

    def test_an_api_in_trouble_lets_nothing_pass(self, bench: Bench, kind: Kind, inputs: Values) -> None:
        bench.api.fault("GET", "/locations", *[before(500)] * 99)
        with pytest.raises(ServerError):
            kind.check(bench.session, inputs, {**inputs, "location": "us-east1-z"})


class TestPartitions:
    @pytest.fixture
    def bench(self) -> Bench:
        bench = Bench()
        bench.api.answers["networking/ib-networks"] = {"items": list(IB_NETWORKS)}
        return bench

    def faults(self, bench: Bench, network: Value, olds: Values | None = None) -> list[str]:
        found = IbPartition().check(bench.session, olds or {}, values(name="p", ibNetworkId=network))
        assert {one.path for one in found} <= {"ibNetworkId"}
        return [one.reason for one in found]

    def test_an_unknown_network_is_refused_with_the_known_ones(self, bench: Bench) -> None:
        wrong = "00000000-0000-4000-8000-000000000999"
        for olds in (None, values(name="p", ibNetworkId=UUID)):
            (told,) = self.faults(bench, wrong, olds)
            assert "Did you mean '00000000-0000-4000-8000-0000000001" in told
            for row in IB_NETWORKS:
                assert f"{row['id']} ({row['location']})" in told
        assert len(bench.api.sent("GET", "networking/ib-networks")) == 1

    def test_a_name_is_answered_with_the_id(self, bench: Bench) -> None:
        (told,) = self.faults(bench, "ice-h100")
        assert "write its id, 00000000-0000-4000-8000-000000000102." in told

    def test_what_is_there_unknown_or_unchanged_passes(self, bench: Bench) -> None:
        assert not self.faults(bench, UUID)
        assert not self.faults(bench, UNKNOWN)
        assert not self.faults(bench, "retired", values(name="o", ibNetworkId="retired"))

    def test_an_api_without_the_list_refuses_nothing(self) -> None:
        assert not self.faults(Bench(), "anything")
