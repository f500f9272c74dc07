"""VPC networks: created and read at once, changed and deleted by operations."""

import ipaddress

from fastapi import APIRouter

from localcloud.api.family import (
    PROJECT,
    CloudDep,
    Family,
    Project,
    change,
    delete,
    find,
    free_name,
    insert,
    remover,
    updater,
)
from localcloud.api.wire import Answer, Body, Cidr, Name, Started
from localcloud.cloud import Cloud, new_id
from localcloud.errors import ApiError, bad_request
from localcloud.store import Json, Object

OPERATIONS = "networking/vpc-networks"
KIND = "vpc-network"
DEFAULT_NAME = "default-vpc-network"
DEFAULT_CIDR = "172.27.0.0/16"

router = APIRouter(prefix=f"{PROJECT}/networking/vpc-networks", tags=["VPC networks"])


class NetworkCreate(Body):
    """A new network."""

    name: Name
    cidr: Cidr


class NetworkUpdate(Body):
    """A network's new name."""

    name: Name


class NetworkView(Answer):
    """A network; `subnets` are ids."""

    id: str
    name: str
    cidr: str
    gateway: str
    subnets: list[str]


class NetworkAnswer(Answer):
    """A created network."""

    network: NetworkView


class NetworkList(Answer):
    """Networks."""

    items: list[NetworkView]


@router.post("", response_model=NetworkAnswer)
async def create_network(body: NetworkCreate, project: Project, cloud: CloudDep) -> Json:
    """Create a network. It has no firewall rules, so it denies everything."""
    with cloud.store.transaction():
        item = insert(cloud, new_network(project, body.name, body.cidr))
    return {"network": _view(cloud, item)}


@router.get("", response_model=NetworkList)
async def list_networks(project: Project, cloud: CloudDep) -> Json:
    """The project's networks."""
    return {"items": [_view(cloud, item) for item in cloud.store.all(KIND, project)]}


@router.get("/{network_id}", response_model=NetworkView)
async def get_network(network_id: str, project: Project, cloud: CloudDep) -> Json:
    """One network."""
    return _view(cloud, find(cloud, KIND, project, network_id, "VPC network"))


@router.patch("/{network_id}", response_model=Started)
async def update_network(network_id: str, body: NetworkUpdate, project: Project, cloud: CloudDep) -> Json:
    """Rename a network."""
    item = find(cloud, KIND, project, network_id, "VPC network")
    free_name(cloud, item, body.name)
    return await change(cloud, item, OPERATIONS, "vpc-network.update", {"name": body.name})


@router.delete("/{network_id}", response_model=Started)
async def delete_network(network_id: str, project: Project, cloud: CloudDep) -> Json:
    """Delete a network without subnets and firewall rules."""
    item = find(cloud, KIND, project, network_id, "VPC network")
    return await delete(cloud, item, OPERATIONS, "vpc-network.delete", _in_use(cloud, item))


def new_network(project_id: str, name: str, cidr: str, *, default: bool = False) -> Object:
    """A network as it is kept. The default one needs no firewall rules for a cluster to start."""
    identifier = new_id()
    gateway = str(ipaddress.IPv4Network(cidr).network_address + 1)
    body = {"id": identifier, "name": name, "cidr": cidr, "gateway": gateway}
    return Object(KIND, identifier, project_id, name, body, hidden={"default": default})


def _view(cloud: Cloud, item: Object) -> Json:
    return {**item.body, "subnets": [subnet.id for subnet in cloud.store.all("vpc-subnet", parent_id=item.id)]}


def _in_use(cloud: Cloud, item: Object) -> ApiError | None:
    if item.hidden["default"]:
        return bad_request(f"VPC network {item.id} is the project's default network and can't be deleted")
    for kind, words in (("vpc-subnet", "subnets"), ("firewall-rule", "firewall rules")):
        if children := cloud.store.all(kind, parent_id=item.id):
            names = ", ".join(child.name for child in children)
            return bad_request(f"VPC network {item.id} is in use: it still has {words} ({names})")
    return None


def _rename(_cloud: Cloud, item: Object, payload: Json) -> None:
    item.name = item.body["name"] = payload["name"]


FAMILY = Family(
    router,
    OPERATIONS,
    {"vpc-network.update": updater(KIND, _view, _rename), "vpc-network.delete": remover(KIND)},
)
