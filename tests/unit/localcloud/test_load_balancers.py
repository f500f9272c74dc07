"""Load balancers as the REST API shows them; how they come about is the business of the controller in a cluster."""

from __future__ import annotations

import ipaddress

from localcloud.api.load_balancers import KIND, new_balancer
from localcloud.store import Object
from tests.unit.localcloud.conftest import Api, succeeded

BALANCERS = "{p}/networking/load-balancers"


async def made(api: Api, cluster_id: str, name: str) -> Object:
    cluster = api.cloud.store.get("cluster", cluster_id)
    assert cluster is not None
    subnet = api.cloud.store.get("vpc-subnet", cluster.body["subnet_id"])
    assert subnet is not None
    item = new_balancer(api.cloud, cluster, subnet, name)
    item.hidden["ports"] = {"22": 30022}
    return api.cloud.store.insert(item)


async def test_nodes_are_behind_it_by_their_node_port(api: Api) -> None:
    cluster = await api.cluster()
    item = await made(api, cluster, "login")
    await api.pool(cluster, count=2)
    vms = (await api.get("{p}/compute/vms/instances"))["items"]
    addresses = [vm["network_interfaces"][0]["ips"][0]["private_ipv4"]["address"] for vm in vms]
    shown = await api.get(f"{BALANCERS}/{item.id}")
    assert (await api.get(BALANCERS))["items"] == [shown]
    assert shown["listen_ports_and_backends"] == [
        {"listen_port": 22, "backends": [{"ip": address, "port": 30022} for address in addresses]}
    ]
    assert succeeded(await api.delete(f"{BALANCERS}/{item.id}")) is None
    assert "load balancer" in await api.refused(404, "GET", f"{BALANCERS}/{item.id}")


async def test_each_has_an_address_of_its_own_on_this_machine(api: Api) -> None:
    cluster = await api.cluster()
    items = [await made(api, cluster, f"login-{number}") for number in range(20)]
    addresses = {ipaddress.ip_address(item.body["vip"]) for item in items}
    assert len(addresses) == 20
    assert all(address in ipaddress.ip_network("127.64.0.0/10") for address in addresses)
    assert len(api.cloud.store.all(KIND)) == 20
