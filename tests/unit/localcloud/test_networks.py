"""VPC networks, subnets, firewall rules, IB partitions: what they answer, and what they refuse."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.localcloud.conftest import H100, IB_EAST, PROJECT, Api, failed, now_stamp, signature, succeeded

NETWORKS = "{p}/networking/vpc-networks"
SUBNETS = "{p}/networking/vpc-subnets"
RULES = "{p}/networking/vpc-firewall-rules"
PARTITIONS = "{p}/networking/ib-partitions"
ANYWHERE = [{"cidr": "0.0.0.0/0"}]


def rule(network: str, name: str = "rule", **more: Any) -> dict[str, Any]:
    return {
        "name": name,
        "vpc_network_id": network,
        "action": "allow",
        "direction": "ingress",
        "protocols": ["tcp"],
        "sources": ANYWHERE,
        "destinations": [{"cidr": "10.0.0.0/16"}],
        "destination_ports": ["22"],
        **more,
    }


async def test_network_answers(api: Api) -> None:
    made = await api.post(NETWORKS, {"name": "a", "cidr": "10.0.0.0/16"})
    network = made["network"]
    assert network == {"id": network["id"], "name": "a", "cidr": "10.0.0.0/16", "gateway": "10.0.0.1", "subnets": []}
    subnet = await api.subnet(network["id"])
    assert await api.get(f"{NETWORKS}/{network['id']}") == {**network, "subnets": [subnet]}
    renamed = succeeded(await api.patch(f"{NETWORKS}/{network['id']}", {"name": "b"}))
    assert renamed == {**network, "name": "b", "subnets": [subnet]}
    assert await api.get(f"{NETWORKS}/{network['id']}") == renamed
    assert network["id"] in [item["id"] for item in (await api.get(NETWORKS))["items"]]


async def test_default_network_is_there_and_stays(api: Api) -> None:
    [default] = (await api.get(NETWORKS))["items"]
    assert (default["name"], default["cidr"]) == ("default-vpc-network", "172.27.0.0/16")
    places = {item["location"]: item for item in (await api.get(SUBNETS))["items"]}
    assert places["us-east1-a"]["cidr"] == "172.27.16.0/20"
    assert set(default["subnets"]) == {item["id"] for item in places.values()}
    assert "default network" in await api.refused(400, "DELETE", f"{NETWORKS}/{default['id']}")
    assert "default subnet" in await api.refused(400, "DELETE", f"{SUBNETS}/{default['subnets'][0]}")


async def test_a_network_in_use_stays(api: Api) -> None:
    network = await api.network()
    subnet = await api.subnet(network, name="kept")
    assert "kept" in await api.refused(400, "DELETE", f"{NETWORKS}/{network}")
    succeeded(await api.delete(f"{SUBNETS}/{subnet}"))
    opened = succeeded(await api.post(RULES, rule(network, name="door")))
    assert "door" in await api.refused(400, "DELETE", f"{NETWORKS}/{network}")
    succeeded(await api.delete(f"{RULES}/{opened['id']}"))
    assert succeeded(await api.delete(f"{NETWORKS}/{network}")) is None
    await api.refused(404, "GET", f"{NETWORKS}/{network}")
    await api.refused(404, "DELETE", f"{NETWORKS}/{network}")


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"name": "a"}, "cidr: required"),
        ({"name": "a", "cidr": "10.0.0.5/16"}, "the network is 10.0.0.0/16"),
        ({"name": "a", "cidr": "10.0.0.0"}, "host bits"),
        ({"name": "a", "cidr": "fd00::/64"}, "not an IPv4 network"),
        ({"name": "a", "cidr": 10}, "cidr: input should be a valid string"),
        ({"name": "", "cidr": "10.0.0.0/16"}, "name:"),
        ({"name": "a", "cidr": "10.0.0.0/16", "colour": "red"}, "colour: unknown field"),
        ([], "input should be a valid dictionary"),
        (None, "JSON body is required"),
    ],
)
async def test_network_refusals(api: Api, body: Any, words: str) -> None:
    assert words in (await api.refused(400, "POST", NETWORKS, body)).replace("Input", "input")


async def test_body_that_is_not_json(api: Api) -> None:
    path, stamp = f"/v1/projects/{PROJECT}/networking/vpc-networks", now_stamp()
    headers = {
        "Authorization": f"Bearer 1.0:{api.key.id}:{signature(api.key, path, '', 'POST', stamp)}",
        "X-Crusoe-Timestamp": stamp,
        "Content-Type": "application/json",
    }
    answer = await api.client.post(path, content=b"{name", headers=headers)
    assert (answer.status_code, answer.json()["message"]) == (400, "the body is not valid JSON")


@pytest.mark.parametrize("kind", ["network", "subnet", "rule", "partition"])
async def test_names_are_unique_per_kind(api: Api, kind: str) -> None:
    network = await api.network(name="same")
    bodies = {
        "network": (NETWORKS, {"name": "same", "cidr": "10.9.0.0/16"}),
        "subnet": (
            SUBNETS,
            {"name": "same", "cidr": "10.0.0.0/24", "location": "us-east1-a", "vpc_network_id": network},
        ),
        "rule": (RULES, rule(network, name="same")),
        "partition": (PARTITIONS, {"name": "same", "ib_network_id": IB_EAST}),
    }
    path, body = bodies[kind]
    if kind != "network":
        await api.post(path, body)
    if kind == "subnet":
        body = {**body, "cidr": "10.0.1.0/24"}
    before = len((await api.get(path))["items"])
    assert "'same' already exists" in await api.refused(409, "POST", path, body)
    assert len((await api.get(path))["items"]) == before


async def test_rename_to_a_taken_name(api: Api) -> None:
    await api.network(name="a")
    other = await api.network(name="b", cidr="10.1.0.0/16")
    await api.refused(409, "PATCH", f"{NETWORKS}/{other}", {"name": "a"})
    succeeded(await api.patch(f"{NETWORKS}/{other}", {"name": "b"}))


async def test_subnet_answers(api: Api) -> None:
    network = await api.network()
    body = {
        "name": "s",
        "cidr": "10.0.0.0/20",
        "location": "us-east1-a",
        "vpc_network_id": network,
        "nat_gateway_enabled": True,
    }
    subnet = (await api.post(SUBNETS, body))["subnet"]
    assert {key: subnet[key] for key in ("name", "cidr", "location", "vpc_network_id")} == {
        key: body[key] for key in ("name", "cidr", "location", "vpc_network_id")
    }
    assert set(subnet["nat_gateways"][0]) == {"id", "public_ipv4_id", "public_ipv4_address"}
    path = f"{SUBNETS}/{subnet['id']}"
    assert await api.get(path) == subnet
    assert succeeded(await api.patch(path, {"name": "t", "nat_gateway_action": "disable"}))["nat_gateways"] == []
    # A client sends `disable` with every rename, also when there is no gateway.
    assert succeeded(await api.patch(path, {"name": "u", "nat_gateway_action": "disable"}))["name"] == "u"
    again = succeeded(await api.patch(path, {"nat_gateway_action": "enable"}))
    assert (again["name"], len(again["nat_gateways"])) == ("u", 1)
    assert succeeded(await api.patch(path, {"nat_gateway_action": "enable"})) == again
    plain = await api.subnet(network, name="plain", cidr="10.0.16.0/20")
    assert (await api.get(f"{SUBNETS}/{plain}"))["nat_gateways"] == []


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"cidr": "10.1.0.0/24"}, "not inside VPC network"),
        ({"cidr": "10.0.0.0/8"}, "not inside VPC network"),
        ({"cidr": "10.0.0.0/21"}, "overlaps subnet first"),
        ({"cidr": "10.0.128.0/30"}, "too small"),
        ({"location": "mars1-a"}, "known are eu-iceland1-a"),
        ({"vpc_network_id": "00000000-0000-4000-8000-00000000dead"}, "vpc_network_id: there is no VPC network"),
        ({"nat_gateway_enabled": "yes"}, "nat_gateway_enabled"),
    ],
)
async def test_subnet_refusals(api: Api, change: dict[str, Any], words: str) -> None:
    network = await api.network()
    await api.subnet(network, name="first")
    body = {"name": "s", "cidr": "10.0.16.0/20", "location": "us-east1-a", "vpc_network_id": network, **change}
    assert words in await api.refused(400, "POST", SUBNETS, body)


async def test_nothing_new_in_a_network_that_is_going(api: Api) -> None:
    network = await api.network()
    await api.admin("PATCH", "settings", {"operation_seconds": 60.0})
    await api.delete(f"{NETWORKS}/{network}")
    body = {"name": "s", "cidr": "10.0.0.0/20", "location": "us-east1-a", "vpc_network_id": network}
    await api.refused(409, "POST", SUBNETS, body)
    await api.refused(409, "POST", RULES, rule(network))


async def test_subnets_of_two_networks_may_overlap(api: Api) -> None:
    for name in ("a", "b"):
        await api.subnet(await api.network(name=name), name=name)


async def test_rule_answers(api: Api) -> None:
    network = await api.network()
    body = rule(network, protocols=["tcp", "udp"], source_ports=["1-65535"], destination_ports=["22", "80-90"])
    made = succeeded(await api.post(RULES, body))
    assert made == {**body, "id": made["id"], "state": "active"}
    path = f"{RULES}/{made['id']}"
    assert await api.get(path) == made
    changed = succeeded(await api.patch(path, {"name": "renamed", "destination_ports": ["*"]}))
    assert changed == {**made, "name": "renamed", "destination_ports": ["*"]}
    assert await api.get(path) == changed
    bare = succeeded(await api.post(RULES, {k: v for k, v in rule(network).items() if k != "destination_ports"}))
    assert "destination_ports" not in bare


async def test_rule_is_inactive_until_its_operation_ends(api: Api) -> None:
    network = await api.network()
    await api.admin("PATCH", "settings", {"operation_seconds": 60.0})
    started = await api.post(RULES, rule(network))
    assert started["operation"]["state"] == "IN_PROGRESS"
    [row] = (await api.get(RULES))["items"]
    assert row["state"] == "inactive"


RULE_FAULTS: list[tuple[dict[str, Any], str]] = [
    ({"action": "drop"}, "action"),
    ({"direction": "in"}, "direction"),
    ({"protocols": []}, "protocols"),
    ({"protocols": ["gre"]}, "protocols.0"),
    ({"sources": []}, "sources"),
    ({"sources": [{}]}, "exactly one of cidr and resource_id"),
    ({"sources": [{"cidr": "10.0.0.0/8", "resource_id": "x"}]}, "exactly one of cidr and resource_id"),
    ({"sources": [{"resource_id": "00000000-0000-4000-8000-00000000dead"}]}, "there is no resource"),
    ({"destination_ports": ["0"]}, "between 1 and 65535"),
    ({"destination_ports": ["9-3"]}, "between 1 and 65535"),
    ({"destination_ports": ["ssh"]}, "neither a port"),
    ({"destination_ports": [22]}, "destination_ports.0"),
    ({"protocols": ["icmp"]}, "icmp has no ports"),
    ({"vpc_network_id": "nope"}, "there is no VPC network nope"),
]


@pytest.mark.parametrize(("change", "words"), RULE_FAULTS)
async def test_rule_refusals(api: Api, change: dict[str, Any], words: str) -> None:
    network = await api.network()
    assert words in await api.refused(400, "POST", RULES, {**rule(network), **change})
    assert (await api.get(RULES))["items"] == []


async def test_rule_can_name_a_resource(api: Api) -> None:
    network = await api.network()
    made = succeeded(await api.post(RULES, rule(network, sources=[{"resource_id": network}])))
    assert made["sources"] == [{"resource_id": network}]


async def test_rule_s_network_cannot_change(api: Api) -> None:
    made = succeeded(await api.post(RULES, rule(await api.network())))
    assert "direction: unknown field" in await api.refused(
        400, "PATCH", f"{RULES}/{made['id']}", {"direction": "egress"}
    )


async def test_failed_create_leaves_nothing(api: Api) -> None:
    network = await api.network()
    await api.fault("POST .../vpc-firewall-rules", "fail-operation", message="no luck")
    assert failed(await api.post(RULES, rule(network))) == "no luck"
    assert (await api.get(RULES))["items"] == []


async def test_failed_change_changes_nothing(api: Api) -> None:
    network = await api.network(name="a")
    await api.fault("PATCH .../vpc-networks/*", "fail-operation")
    failed(await api.patch(f"{NETWORKS}/{network}", {"name": "b"}))
    assert (await api.get(f"{NETWORKS}/{network}"))["name"] == "a"


async def test_ib_networks(api: Api) -> None:
    items = (await api.get("{p}/networking/ib-networks"))["items"]
    east = next(item for item in items if item["id"] == IB_EAST)
    assert east["location"] == "us-east1-a"
    assert {"quantity": 8192, "slice_type": H100} in east["capacities"]
    assert await api.get(f"{{p}}/networking/ib-networks/{IB_EAST}") == east
    await api.refused(404, "GET", "{p}/networking/ib-networks/nope")


async def test_ib_partition_answers_bare(api: Api) -> None:
    made = await api.post(PARTITIONS, {"name": "p", "ib_network_id": IB_EAST})
    assert made == {"id": made["id"], "name": "p", "ib_network_id": IB_EAST}
    assert await api.get(f"{PARTITIONS}/{made['id']}") == made
    assert (await api.get(PARTITIONS))["items"] == [made]
    assert await api.delete(f"{PARTITIONS}/{made['id']}") == {}
    await api.refused(404, "GET", f"{PARTITIONS}/{made['id']}")
    await api.refused(404, "DELETE", f"{PARTITIONS}/{made['id']}")
    assert "no IB network" in await api.refused(400, "POST", PARTITIONS, {"name": "p", "ib_network_id": "nope"})


async def test_ib_partition_in_use_stays(api: Api) -> None:
    partition = await api.partition()
    pool = await api.pool(await api.cluster(), name="train", product_name=H100, ib_partition_id=partition)
    assert "train" in await api.refused(400, "DELETE", f"{PARTITIONS}/{partition}")
    succeeded(await api.delete("{p}/kubernetes/nodepools/" + pool["id"]))
    await api.delete(f"{PARTITIONS}/{partition}")


async def test_nvlink_domains(api: Api) -> None:
    domains = (await api.get("{p}/networking/nvlink-domains"))["nvlink_domains"]
    assert [(d["location"], d["available_nodes"], d["total_nodes"]) for d in domains] == [("eu-iceland1-a", 18, 18)] * 2


async def test_unknown_route_and_method(api: Api) -> None:
    assert "there is no GET" in await api.refused(404, "GET", "{p}/networking/moats")
    await api.refused(405, "PUT", NETWORKS, {})


async def test_unknown_filter_is_refused(api: Api) -> None:
    assert "colour: unknown" in await api.refused(400, "GET", "/capacities", colour="red")
