"""VPC subnets, with an optional NAT gateway."""

import ipaddress
from typing import Literal

from fastapi import APIRouter

from localcloud.api import vpc_networks
from localcloud.api.family import (
    PROJECT,
    CloudDep,
    Family,
    Project,
    change,
    delete,
    find,
    free_name,
    idle,
    insert,
    known_location,
    refer,
    remover,
    updater,
)
from localcloud.api.wire import Answer, Body, Cidr, Name, Started, overlap, within
from localcloud.cloud import Cloud, new_id
from localcloud.errors import ApiError, bad_request
from localcloud.store import Json, Object

OPERATIONS = "networking/vpc-subnets"
KIND = "vpc-subnet"
# The first five addresses and the broadcast address are reserved, so a /29 holds two VMs and a /30 none.
_SMALLEST = 29
_RESERVED = 5

router = APIRouter(prefix=f"{PROJECT}/networking/vpc-subnets", tags=["VPC subnets"])


class SubnetCreate(Body):
    """A new subnet."""

    name: Name
    cidr: Cidr
    location: str
    vpc_network_id: str
    nat_gateway_enabled: bool = False


class SubnetUpdate(Body):
    """What may change. An action that changes nothing is accepted: clients send one with every rename."""

    name: Name | None = None
    nat_gateway_action: Literal["enable", "disable"] | None = None


class NatGateway(Answer):
    """A NAT gateway with its public address."""

    id: str
    public_ipv4_id: str
    public_ipv4_address: str


class SubnetView(Answer):
    """A subnet; a NAT gateway is on when there is one."""

    id: str
    name: str
    cidr: str
    location: str
    vpc_network_id: str
    nat_gateways: list[NatGateway]


class SubnetAnswer(Answer):
    """A created subnet."""

    subnet: SubnetView


class SubnetList(Answer):
    """Subnets."""

    items: list[SubnetView]


@router.post("", response_model=SubnetAnswer)
async def create_subnet(body: SubnetCreate, project: Project, cloud: CloudDep) -> Json:
    """Create a subnet inside a network's free range."""
    known_location(cloud, body.location)
    network = refer(cloud, vpc_networks.KIND, project, body.vpc_network_id, "vpc_network_id")
    idle(cloud, network)
    _fits(cloud, network, body.cidr)
    with cloud.store.transaction():
        item = insert(
            cloud,
            new_subnet(project, body.name, body.cidr, body.location, network.id, nat=body.nat_gateway_enabled),
        )
    return {"subnet": item.body}


@router.get("", response_model=SubnetList)
async def list_subnets(project: Project, cloud: CloudDep) -> Json:
    """The project's subnets."""
    return {"items": [item.body for item in cloud.store.all(KIND, project)]}


@router.get("/{subnet_id}", response_model=SubnetView)
async def get_subnet(subnet_id: str, project: Project, cloud: CloudDep) -> Json:
    """One subnet."""
    return find(cloud, KIND, project, subnet_id, "VPC subnet").body


@router.patch("/{subnet_id}", response_model=Started)
async def update_subnet(subnet_id: str, body: SubnetUpdate, project: Project, cloud: CloudDep) -> Json:
    """Rename a subnet, or turn its NAT gateway on or off."""
    item = find(cloud, KIND, project, subnet_id, "VPC subnet")
    if body.name is not None:
        free_name(cloud, item, body.name)
    return await change(cloud, item, OPERATIONS, "vpc-subnet.update", body.model_dump())


@router.delete("/{subnet_id}", response_model=Started)
async def delete_subnet(subnet_id: str, project: Project, cloud: CloudDep) -> Json:
    """Delete a subnet that nothing uses."""
    item = find(cloud, KIND, project, subnet_id, "VPC subnet")
    return await delete(cloud, item, OPERATIONS, "vpc-subnet.delete", _in_use(cloud, item))


def new_subnet(
    project_id: str, name: str, cidr: str, location: str, network_id: str, *, nat: bool = False, default: bool = False
) -> Object:
    """A subnet as it is kept."""
    identifier = new_id()
    body = {
        "id": identifier,
        "name": name,
        "cidr": cidr,
        "location": location,
        "vpc_network_id": network_id,
        "nat_gateways": [_nat_gateway()] if nat else [],
    }
    return Object(KIND, identifier, project_id, name, body, parent_id=network_id, hidden={"default": default})


def default_subnet(cloud: Cloud, project_id: str, location: str) -> Object:
    """The subnet of the default network in a location; raises 400 when there is none."""
    for item in cloud.store.all(KIND, project_id):
        if item.hidden["default"] and item.body["location"] == location:
            return item
    raise bad_request(f"subnet_id: location {location} has no default subnet in this project, so one must be named")


def free_addresses(cloud: Cloud, subnet: Object) -> int:
    """How many more VMs the subnet has addresses for."""
    row = cloud.store.connection.execute("SELECT count(*) FROM addresses WHERE subnet_id = ?", (subnet.id,)).fetchone()
    first, last = _usable(subnet)
    return last - first + 1 - int(row[0])


def take_addresses(cloud: Cloud, subnet: Object, vm_ids: list[str]) -> list[str]:
    """A free address of the subnet for each VM, inside the caller's transaction; there must be enough."""
    first, last = _usable(subnet)
    rows = cloud.store.connection.execute("SELECT address FROM addresses WHERE subnet_id = ?", (subnet.id,))
    taken = {row[0] for row in rows}
    free = (address for address in range(first, last + 1) if address not in taken)
    chosen = [(subnet.id, next(free), vm_id) for vm_id in vm_ids]
    cloud.store.connection.executemany("INSERT INTO addresses VALUES (?, ?, ?)", chosen)
    return [str(ipaddress.IPv4Address(address)) for _, address, _ in chosen]


def _usable(subnet: Object) -> tuple[int, int]:
    network = ipaddress.IPv4Network(subnet.body["cidr"])
    return int(network.network_address) + _RESERVED, int(network.broadcast_address) - 1


def _fits(cloud: Cloud, network: Object, cidr: str) -> None:
    if not within(cidr, network.body["cidr"]):
        raise bad_request(f"cidr: {cidr} is not inside VPC network {network.id} ({network.body['cidr']})")
    if ipaddress.IPv4Network(cidr).prefixlen > _SMALLEST:
        raise bad_request(f"cidr: {cidr} is too small; the smallest subnet is a /{_SMALLEST}")
    for sibling in cloud.store.all(KIND, parent_id=network.id):
        if overlap(cidr, sibling.body["cidr"]):
            raise bad_request(f"cidr: {cidr} overlaps subnet {sibling.name} ({sibling.body['cidr']})")


def _in_use(cloud: Cloud, item: Object) -> ApiError | None:
    if item.hidden["default"]:
        return bad_request(f"VPC subnet {item.id} is a default subnet and can't be deleted")
    for kind, words in (("cluster", "Kubernetes cluster"), ("nodepool", "node pool")):
        user = cloud.store.holding(kind, "subnet_id", item.id)
        if user is not None:
            return bad_request(f"VPC subnet {item.id} is in use by {words} {user.name}")
    return None


def _nat_gateway() -> Json:
    # 192.0.2.0/24 is reserved for documentation: nobody will reach it by mistake.
    return {"id": new_id(), "public_ipv4_id": new_id(), "public_ipv4_address": "192.0.2.10"}


def _view(_cloud: Cloud, item: Object) -> Json:
    return item.body


def _update(_cloud: Cloud, item: Object, payload: Json) -> None:
    if payload["name"] is not None:
        item.name = item.body["name"] = payload["name"]
    if payload["nat_gateway_action"] == "disable":
        item.body["nat_gateways"] = []
    elif payload["nat_gateway_action"] == "enable" and not item.body["nat_gateways"]:
        item.body["nat_gateways"] = [_nat_gateway()]


FAMILY = Family(
    router, OPERATIONS, {"vpc-subnet.update": updater(KIND, _view, _update), "vpc-subnet.delete": remover(KIND)}
)
