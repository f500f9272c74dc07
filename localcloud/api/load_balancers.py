"""External load balancers, as the controller in a cluster makes them: read, and deleted by hand once left behind.

They are made from inside of a cluster only (`localcloud.in_cluster.load_balancers`); the POST of the real API is not
there.
"""

from fastapi import APIRouter

from localcloud import pools
from localcloud.api.family import PROJECT, CloudDep, Family, Project, delete, find, remover
from localcloud.api.wire import Answer, Started
from localcloud.cloud import Cloud, new_id
from localcloud.store import Json, Object

OPERATIONS = "networking/load-balancers"
KIND = "load-balancer"
# Crusoe gives static public addresses; here they lie in a part of the loopback range that others hardly use, so that
# this machine can listen there.
_FIRST, _COUNT = (127 << 24) + (64 << 16), 1 << 22

router = APIRouter(prefix=f"{PROJECT}/networking/load-balancers", tags=["Load balancers"])


class Backend(Answer):
    """A node's address and node port."""

    ip: str
    port: int


class ListenPort(Answer):
    """A port of a load balancer and the nodes behind it."""

    listen_port: int
    backends: list[Backend]


class LoadBalancerView(Answer):
    """A load balancer; `vip` is its static public address."""

    id: str
    name: str
    location: str
    protocol: str
    vpc_id: str
    vip: str
    listen_ports_and_backends: list[ListenPort]
    created_at: str


class LoadBalancerList(Answer):
    """Load balancers."""

    items: list[LoadBalancerView]


@router.get("", response_model=LoadBalancerList)
async def list_load_balancers(project: Project, cloud: CloudDep) -> Json:
    """The project's load balancers."""
    return {"items": [_view(cloud, item) for item in cloud.store.all(KIND, project)]}


@router.get("/{balancer_id}", response_model=LoadBalancerView)
async def get_load_balancer(balancer_id: str, project: Project, cloud: CloudDep) -> Json:
    """One load balancer."""
    return _view(cloud, find(cloud, KIND, project, balancer_id, "load balancer"))


@router.delete("/{balancer_id}", response_model=Started)
async def delete_load_balancer(balancer_id: str, project: Project, cloud: CloudDep) -> Json:
    """Delete a load balancer; the controller of a cluster that still wants it makes another."""
    item = find(cloud, KIND, project, balancer_id, "load balancer")
    return await delete(cloud, item, OPERATIONS, "load-balancer.delete", None)


def new_balancer(cloud: Cloud, cluster: Object, subnet: Object, name: str) -> Object:
    """A load balancer of a cluster as it is kept, with an address that no other one has."""
    identifier = new_id()
    taken = {item.body["vip"] for item in cloud.store.all(KIND)}
    number = int(identifier[:8], 16)
    while (vip := _address(number)) in taken:
        number += 1
    body: Json = {
        "id": identifier,
        "name": name,
        "location": cluster.body["location"],
        "protocol": "LOAD_BALANCER_PROTOCOL_TCP",
        "vpc_id": subnet.body["vpc_network_id"],
        "vip": vip,
        "created_at": cloud.clock.stamp(),
    }
    hidden: Json = {"cluster_id": cluster.id, "ports": {}, "listens": {}}
    return Object(KIND, identifier, cluster.project_id, name, body, hidden=hidden)


def _address(number: int) -> str:
    value = _FIRST + number % _COUNT
    return ".".join(str(value >> shift & 255) for shift in (24, 16, 8, 0))


def _view(cloud: Cloud, item: Object) -> Json:
    vms = [
        vm.body["network_interfaces"][0]["ips"][0]["private_ipv4"]["address"]
        for pool in cloud.store.all(pools.POOL, parent_id=item.hidden["cluster_id"])
        for vm in pools.vms_of(cloud, pool)
    ]
    ports = [
        {"listen_port": int(port), "backends": [{"ip": address, "port": node_port} for address in vms]}
        for port, node_port in item.hidden["ports"].items()
    ]
    return {**item.body, "listen_ports_and_backends": ports}


FAMILY = Family(router, OPERATIONS, {"load-balancer.delete": remover(KIND)})
