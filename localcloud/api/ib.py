"""InfiniBand networks and partitions, and NVLink domains. All calls are synchronous."""

from fastapi import APIRouter

from localcloud.api.family import PROJECT, CloudDep, Family, Project, find, insert
from localcloud.api.wire import Answer, Body, Name, Nothing
from localcloud.cloud import Cloud, new_id
from localcloud.errors import bad_request, not_found
from localcloud.facts import IbNetwork
from localcloud.store import Json, Object

KIND = "ib-partition"

router = APIRouter(prefix=f"{PROJECT}/networking", tags=["InfiniBand"])


class SliceCapacity(Answer):
    """Free slices (GPUs) of a VM type."""

    quantity: int
    slice_type: str


class IbNetworkView(Answer):
    """An InfiniBand network."""

    id: str
    name: str
    location: str
    capacities: list[SliceCapacity]


class IbNetworkList(Answer):
    """InfiniBand networks."""

    items: list[IbNetworkView]


class PartitionCreate(Body):
    """A new partition."""

    name: Name
    ib_network_id: str


class PartitionView(Answer):
    """A partition."""

    id: str
    name: str
    ib_network_id: str


class PartitionList(Answer):
    """Partitions."""

    items: list[PartitionView]


class NvlinkDomainView(Answer):
    """An NVLink domain."""

    id: str
    name: str
    location: str
    available_nodes: int
    total_nodes: int


class NvlinkDomainList(Answer):
    """NVLink domains."""

    nvlink_domains: list[NvlinkDomainView]


@router.get("/ib-networks", response_model=IbNetworkList)
async def list_ib_networks(_project: Project, cloud: CloudDep) -> Json:
    """InfiniBand networks with their free slices."""
    return {"items": [_network(cloud, network) for network in cloud.facts.ib_networks.values()]}


@router.get("/ib-networks/{network_id}", response_model=IbNetworkView)
async def get_ib_network(network_id: str, _project: Project, cloud: CloudDep) -> Json:
    """One InfiniBand network."""
    network = cloud.facts.ib_networks.get(network_id)
    if network is None:
        raise not_found("IB network", network_id)
    return _network(cloud, network)


@router.post("/ib-partitions", response_model=PartitionView)
async def create_partition(body: PartitionCreate, project: Project, cloud: CloudDep) -> Json:
    """Create a partition."""
    if body.ib_network_id not in cloud.facts.ib_networks:
        raise bad_request(f"ib_network_id: there is no IB network {body.ib_network_id}")
    identifier = new_id()
    row = {"id": identifier, **body.model_dump()}
    with cloud.store.transaction():
        insert(cloud, Object(KIND, identifier, project, body.name, row))
    return row


@router.get("/ib-partitions", response_model=PartitionList)
async def list_partitions(project: Project, cloud: CloudDep) -> Json:
    """The project's partitions."""
    return {"items": [item.body for item in cloud.store.all(KIND, project)]}


@router.get("/ib-partitions/{partition_id}", response_model=PartitionView)
async def get_partition(partition_id: str, project: Project, cloud: CloudDep) -> Json:
    """One partition."""
    return find(cloud, KIND, project, partition_id, "IB partition").body


@router.delete("/ib-partitions/{partition_id}", response_model=Nothing)
async def delete_partition(partition_id: str, project: Project, cloud: CloudDep) -> Json:
    """Delete a partition that no node pool uses."""
    find(cloud, KIND, project, partition_id, "IB partition")
    for pool in cloud.store.all("nodepool", project):
        if pool.hidden["ib_partition_id"] == partition_id:
            raise bad_request(f"IB partition {partition_id} is in use by node pool {pool.name}")
    with cloud.store.transaction():
        cloud.store.remove(KIND, partition_id)
    return {}


@router.get("/nvlink-domains", response_model=NvlinkDomainList)
async def list_nvlink_domains(_project: Project, cloud: CloudDep) -> Json:
    """NVLink domains with their free nodes."""
    return {
        "nvlink_domains": [
            {
                "id": domain.id,
                "name": domain.name,
                "location": domain.location,
                "available_nodes": domain.nodes - nvlink_nodes(cloud, domain.id),
                "total_nodes": domain.nodes,
            }
            for domain in cloud.facts.nvlink_domains.values()
        ]
    }


def nvlink_nodes(cloud: Cloud, domain_id: str) -> int:
    """How many VMs an NVLink domain holds."""
    return sum(1 for vm in cloud.store.all("vm") if vm.body.get("nvlink_domain_id") == domain_id)


def _network(cloud: Cloud, network: IbNetwork) -> Json:
    return {
        "id": network.id,
        "name": network.name,
        "location": network.location,
        "capacities": [
            {
                "quantity": cloud.inventory.ib_free_slices(network, cloud.facts.vm_types[name]),
                "slice_type": name,
            }
            for name in network.capacity
        ],
    }


FAMILY = Family(router)
