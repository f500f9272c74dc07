"""The VMs of node pools: how many can start, what they are given, and how they appear as nodes.

A pool is held at its `count`: VMs are started until there are as many, as far as stock, reservation and NVLink domain
allow, and one that disappears is replaced. A lowered count alone deletes nothing. Labels, taints, version and the other
parts of a pool's configuration are copied into a VM when it starts, so a change reaches new VMs only; the pool's
`revision` tells which VMs are behind.
"""

from __future__ import annotations

import ipaddress
import itertools
import logging
import uuid
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from localcloud.api.vpc_subnets import free_addresses, take_addresses
from localcloud.cloud import Cloud, new_id
from localcloud.control_plane import ClusterSpec, ControlPlaneError, NodeSpec, OidcSpec, Taint
from localcloud.facts import VmType
from localcloud.in_cluster.attachments import detach_all
from localcloud.operations import OperationFailedError
from localcloud.store import Json, Object

# Crusoe's topology view: an InfiniBand pod holds up to 32 VMs (256 GPUs).
_VMS_PER_IB_POD = 32
_LOG = logging.getLogger(__name__)
OPERATIONS = "kubernetes/nodepools"
CLUSTER, POOL, VM = "cluster", "nodepool", "vm"
# Parts of a pool's configuration that a VM keeps from its start.
_CONFIGURATION = ("node_labels", "node_taints", "image_id", "ephemeral_storage_for_containerd", "ssh_public_key")


def cluster_spec(cluster: Object) -> ClusterSpec:
    """A cluster as its control plane sees it."""
    body, hidden = cluster.body, cluster.hidden
    oidc = hidden["oidc"]
    return ClusterSpec(
        id=cluster.id,
        name=cluster.name,
        project_id=cluster.project_id,
        location=body["location"],
        version=body["version"],
        generation=hidden["generation"],
        dns_name=body["dns_name"],
        cluster_cidr=body["cluster_cidr"],
        service_cluster_ip_range=body["service_cluster_ip_range"],
        node_cidr_mask_size=body["node_cidr_mask_size"],
        private=body.get("private", False),
        add_ons=installed_add_ons(cluster),
        oidc=OidcSpec(**oidc) if oidc else None,
        apiserver_extra_args=body.get("apiserver_extra_args") or {},
        scheduler_extra_args=body.get("scheduler_extra_args") or {},
        controller_manager_extra_args=body.get("controller_manager_extra_args") or {},
    )


def installed_add_ons(cluster: Object) -> tuple[str, ...]:
    """Names of the add-ons that run in a cluster of either generation."""
    if cluster.hidden["generation"] == "v1":
        return tuple(cluster.body["add_ons"])
    return tuple(name for name, row in cluster.hidden["addons"].items() if row["installed_version"])


class Member(NamedTuple):
    """What a pool's answer tells of one VM."""

    id: str
    state: str
    revision: int


def members(cloud: Cloud, *, project_id: str | None = None, pool_id: str | None = None) -> dict[str, list[Member]]:
    """The VMs of one pool, or of all pools of a project, by pool and in order of creation.

    Reads three values of each and not its documents, since clients list hundreds of pools to find one by name.
    """
    column, value = ("parent_id", pool_id) if project_id is None else ("project_id", project_id)
    columns = "parent_id, id, json_extract(body, '$.state'), json_extract(hidden, '$.revision')"
    query = f"SELECT {columns} FROM objects WHERE kind = 'vm' AND {column} = ? ORDER BY seq"  # noqa: S608  names from here
    rows = cloud.store.connection.execute(query, (value,))
    found: dict[str, list[Member]] = {}
    for pool, *member in rows:
        found.setdefault(pool, []).append(Member(*member))
    return found


def vms_of(cloud: Cloud, pool: Object) -> list[Object]:
    """A pool's VMs in order of creation."""
    return cloud.store.all(VM, parent_id=pool.id)


def staying(cloud: Cloud, pool: Object) -> list[Object]:
    """A pool's VMs without those that are being deleted."""
    return [vm for vm in vms_of(cloud, pool) if vm.body["state"] != "STATE_DELETING"]


def latest(pool: Object, vm: Object) -> bool:
    """Whether a VM was started with the pool's present configuration."""
    return vm.hidden["revision"] == pool.hidden["revision"]


def configuration(pool: Object) -> Json:
    """What a VM that starts now is given."""
    return {key: pool.hidden.get(key, pool.body.get(key)) for key in _CONFIGURATION}


def fill(cloud: Cloud, pool: Object, operation_id: str, at_most: int | None = None) -> str | None:
    """Start VMs until the pool has `count` of them; says in words what stopped it short, or None.

    Runs inside a transaction. `at_most` bounds how many VMs this operation finds. Repeating it starts nothing twice.
    """
    present = staying(cloud, pool)
    missing = pool.body["count"] - len(present)
    if missing <= 0:
        return None
    vm_type = cloud.facts.vm_types[pool.body["type"]]
    startable, reason = _startable(cloud, pool, vm_type)
    if at_most is not None:
        found = max(0, at_most - sum(vm.hidden["operation_id"] == operation_id for vm in present))
        if found < startable:
            startable, reason = found, _no_capacity(vm_type, pool.hidden["location"])
    started = min(missing, startable)
    if started:
        _start(cloud, pool, vm_type, started, operation_id)
    if started == missing:
        return None
    return f"{len(present) + started} of {pool.body['count']} VMs could be started: {reason}"


async def run(cloud: Cloud, pool: Object) -> None:
    """Make the pool's starting VMs appear as Ready nodes."""
    cluster = _cluster_of(cloud, pool)
    starting = [vm for vm in vms_of(cloud, pool) if vm.body["state"] == "STATE_CREATING"]
    specs = [node_spec(cloud, cluster, pool, vm) for vm in starting]
    await cloud.planes.apply_nodes(cluster.id, specs)


def running(cloud: Cloud, pool: Object) -> int:
    """Mark the pool's starting VMs as running, inside a transaction; answers how many."""
    count = 0
    for vm in vms_of(cloud, pool):
        if vm.body["state"] == "STATE_CREATING":
            vm.body["state"] = "STATE_RUNNING"
            cloud.store.save(vm)
            cloud.journal.record("vm.running", vm.id, pool=pool.id, name=vm.name)
            count += 1
    return count


def refill(cloud: Cloud, pool: Object) -> None:
    """Bring a pool back to its count in the background; called inside a transaction after a VM was lost."""
    if pool.body["state"] != "STATE_DELETING" and len(staying(cloud, pool)) < pool.body["count"]:
        cloud.operations.open_later(OPERATIONS, "nodepool.refill", pool.project_id, new_id(), {"pool_id": pool.id})


async def drain_nodes(cloud: Cloud, pool: Object, vms: Sequence[Object]) -> None:
    """Drain the VMs' nodes and take them out of the cluster."""
    await cloud.planes.remove_nodes(pool.body["cluster_id"], [vm.name for vm in vms], drain=True)


async def drop_nodes(cloud: Cloud, pool: Object, vms: Sequence[Object]) -> None:
    """Take the nodes of VMs that end now out of the cluster. A dead control plane keeps no VM from ending."""
    try:
        await cloud.planes.remove_nodes(pool.body["cluster_id"], [vm.name for vm in vms], drain=False)
    except ControlPlaneError as error:
        _LOG.warning("the nodes of pool %s were not removed from Kubernetes: %s", pool.name, error)


def remove(cloud: Cloud, vms: Sequence[Object]) -> None:
    """Delete VMs, free their addresses and detach their disks, inside a transaction."""
    for vm in vms:
        detach_all(cloud, vm)
        cloud.store.remove(VM, vm.id)
        cloud.store.connection.execute("DELETE FROM addresses WHERE vm_id = ?", (vm.id,))
        cloud.journal.record("vm.deleted", vm.id, pool=vm.parent_id, name=vm.name)


def retire(cloud: Cloud, pool: Object, vm: Object) -> None:
    """Delete a broken VM, inside a transaction; its host is for nobody until new stock is set."""
    network = cloud.facts.ib_networks.get(vm.hidden.get("ib_network_id", ""))
    cloud.inventory.take_out(cloud.facts.vm_types[vm.body["type"]], pool.hidden["location"], network)
    remove(cloud, [vm])


def can_fill(cloud: Cloud, pool: Object) -> bool:
    """Whether the pool has its count, or one more VM could start."""
    if pool.body["count"] <= len(staying(cloud, pool)):
        return True
    return _startable(cloud, pool, cloud.facts.vm_types[pool.body["type"]])[0] > 0


@lru_cache(maxsize=4096)
def _template_id(pool_id: str, revision: int) -> str:
    return str(uuid.uuid5(uuid.UUID(pool_id), str(revision)))


def platform_labels(cloud: Cloud, pool: Object) -> dict[str, str]:
    """The labels that the platform itself gives every node of a pool."""
    vm_type = cloud.facts.vm_types[pool.body["type"]]
    location = pool.hidden["location"]
    labels = {
        "node.kubernetes.io/instance-type": vm_type.name,
        # Crusoe's cloud controller manager reports the whole location as the region.
        "topology.kubernetes.io/region": location,
        "topology.kubernetes.io/zone": location,
        "crusoe.ai/nodepool.id": pool.id,
        "crusoe.ai/nodepool.name": pool.name,
        "crusoe.ai/instance.class": vm_type.family,
        "crusoe.ai/instance.group.id": pool.hidden["instance_group_id"],
        "crusoe.ai/instance.template.id": _template_id(pool.id, pool.hidden["revision"]),
        "crusoe.ai/project.id": pool.project_id,
    }
    if vm_type.gpu_vendor:
        labels["crusoe.ai/accelerator"] = f"{vm_type.gpu_vendor}-{vm_type.family}"
    if (partition := _partition_of(cloud, pool)) is not None:
        labels |= {
            "crusoe.ai/ib.partition.id": partition.id,
            "crusoe.ai/ib.partition.name": partition.name,
            "crusoe.ai/ib.partition.networkId": partition.body["ib_network_id"],
        }
    return labels


def node_spec(cloud: Cloud, cluster: Object, pool: Object, vm: Object) -> NodeSpec:
    """A VM as it should appear in Kubernetes. Resources and labels of add-ons that aren't installed are left out."""
    vm_type = cloud.facts.vm_types[vm.body["type"]]
    given = vm.hidden["configuration"]
    labels = {
        **given["node_labels"],
        **platform_labels(cloud, pool),
        "crusoe.ai/instance.id": vm.id,
        "crusoe.ai/instance.state": "STATE_RUNNING",
    }
    if vm.body.get("pod_id"):
        labels["crusoe.ai/pod.id"] = vm.body["pod_id"]
    resources: dict[str, int] = {}
    for name in installed_add_ons(cluster):
        brings = cloud.facts.add_ons[name].brings
        if brings and brings.vendor == vm_type.gpu_vendor and brings.fabric in (None, vm_type.fabric):
            labels |= brings.labels
            resources[brings.resource] = vm_type.gpus
    if "nvidia.com/gpu" in resources and vm.body.get("nvlink_domain_id"):
        # GPU feature discovery: the NVLink domain and, after the dot, the partition in it.
        labels["nvidia.com/gpu.clique"] = f"{vm.body['nvlink_domain_id']}.0"
    interface = vm.body["network_interfaces"][0]["ips"][0]
    return NodeSpec(
        name=vm.name,
        instance_id=vm.id,
        node_pool_id=pool.id,
        vm_type=vm_type.name,
        architecture=vm_type.architecture,
        cpu=vm_type.cpu,
        memory_gb=vm_type.memory_gb,
        ephemeral_storage_gb=vm_type.disk_gb,
        gpus=vm_type.gpus,
        gpu_resource=f"{vm_type.gpu_vendor}.com/gpu" if vm_type.gpu_vendor else None,
        extended_resources=resources,
        labels=labels,
        taints=tuple(Taint(t["key"], t["effect"], t.get("value", "")) for t in given["node_taints"]),
        internal_ip=interface["private_ipv4"]["address"],
        external_ip=interface["public_ipv4"]["address"] if "public_ipv4" in interface else None,
        version=given["image_id"],
    )


def _cluster_of(cloud: Cloud, pool: Object) -> Object:
    cluster = cloud.store.get(CLUSTER, pool.body["cluster_id"])
    if cluster is None:
        raise OperationFailedError(f"Kubernetes cluster {pool.body['cluster_id']} no longer exists", "not_found")
    return cluster


def _partition_of(cloud: Cloud, pool: Object) -> Object | None:
    identifier = pool.hidden["ib_partition_id"]
    return cloud.store.get("ib-partition", identifier) if identifier else None


def _subnet_of(cloud: Cloud, pool: Object) -> Object:
    subnet = cloud.store.get("vpc-subnet", pool.body["subnet_id"])
    if subnet is None:
        raise OperationFailedError(f"VPC subnet {pool.body['subnet_id']} no longer exists", "not_found")
    return subnet


def _startable(cloud: Cloud, pool: Object, vm_type: VmType) -> tuple[int, str]:
    location = pool.hidden["location"]
    partition = _partition_of(cloud, pool)
    network = partition.body["ib_network_id"] if partition is not None and vm_type.fabric == "infiniband" else None
    subnet = _subnet_of(cloud, pool)
    limits = [(cloud.inventory.free_vms(vm_type, location, network), _no_capacity(vm_type, location))]
    limits.append(
        (free_addresses(cloud, subnet), f"subnet {subnet.name} ({subnet.body['cidr']}) has no free addresses")
    )
    if reservation := cloud.facts.reservations.get(pool.body["reservation_id"]):
        left = reservation.quantity - len(cloud.inventory.reservation_vms(reservation))
        limits.append((left, f"reservation {reservation.id} has no slots left"))
    if domain := cloud.facts.nvlink_domains.get(pool.body.get("nvlink_domain_id", "")):
        held = sum(vm.body.get("nvlink_domain_id") == domain.id for vm in cloud.store.all(VM))
        limits.append((domain.nodes - held, f"NVLink domain {domain.name} has no nodes left"))
    quota = cloud.inventory.quota(pool.project_id, vm_type.family)
    limits.append(
        (quota.available // vm_type.slices, f"quota {quota.name} is used up ({quota.used} of {quota.maximum})")
    )
    free, reason = min(limits)
    return max(0, free), reason


def _no_capacity(vm_type: VmType, location: str) -> str:
    return f"insufficient capacity for {vm_type.name} in {location}"


def _start(cloud: Cloud, pool: Object, vm_type: VmType, count: int, operation_id: str) -> None:
    subnet = _subnet_of(cloud, pool)
    partition = _partition_of(cloud, pool)
    ids = [new_id() for _ in range(count)]
    first = pool.hidden["next_vm"]
    pool.hidden["next_vm"] = first + count
    cloud.store.save(pool)
    ib_pods = _ib_pods(cloud, partition.body["ib_network_id"], count) if partition is not None else []
    addresses = take_addresses(cloud, subnet, ids)
    for number, (identifier, address) in enumerate(zip(ids, addresses, strict=True), first):
        name = f"np-{pool.id[:8]}-{number}"
        body: Json = {
            "id": identifier,
            "name": name,
            "project_id": pool.project_id,
            "type": vm_type.name,
            "state": "STATE_CREATING",
            "location": pool.hidden["location"],
            "disks": [],
            "network_interfaces": [_interface(subnet, address, pool.body["public_ip_type"])],
            "host_channel_adapters": [],
            "maintenance_policy": "stop",
            "reservation_id": pool.body["reservation_id"],
            "created_at": cloud.clock.stamp(),
        }
        hidden: Json = {
            "operation_id": operation_id,
            "revision": pool.hidden["revision"],
            "configuration": configuration(pool),
        }
        if partition is not None:
            network_id = partition.body["ib_network_id"]
            hidden["ib_network_id"] = network_id
            body["pod_id"] = ib_pods[number - first]
            body["host_channel_adapters"] = [
                {
                    "type": vm_type.fabric,
                    "guid": uuid.uuid5(uuid.UUID(identifier), f"hca-{index}").hex[:16],
                    "ib_network_id": network_id,
                    "ib_partition_id": partition.id,
                    "transport_network_id": network_id,
                    "transport_partition_id": partition.id,
                }
                for index in range(vm_type.gpus)
            ]
        if pool.body.get("nvlink_domain_id"):
            body["nvlink_domain_id"] = pool.body["nvlink_domain_id"]
        cloud.store.insert(Object(VM, identifier, pool.project_id, name, body, parent_id=pool.id, hidden=hidden))


def _ib_pods(cloud: Cloud, network_id: str, count: int) -> list[str]:
    """The InfiniBand pods in which `count` new VMs of a network find room, the fullest first."""
    held = Counter(vm.body["pod_id"] for vm in cloud.store.all(VM) if vm.hidden.get("ib_network_id") == network_id)
    pods = (str(uuid.uuid5(uuid.UUID(network_id), f"pod-{number}")) for number in itertools.count())
    room = itertools.chain.from_iterable(itertools.repeat(pod, _VMS_PER_IB_POD - held[pod]) for pod in pods)
    return list(itertools.islice(room, count))


def _interface(subnet: Object, address: str, public_ip_type: str) -> Json:
    ips: Json = {"private_ipv4": {"address": address}}
    if public_ip_type != "none":
        # 198.18.0.0/15 is reserved for benchmarks: nobody will reach it by mistake.
        public = ipaddress.IPv4Address("198.18.0.0") + (int(ipaddress.IPv4Address(address)) & 0x1FFFF)
        ips["public_ipv4"] = {"id": new_id(), "type": public_ip_type, "address": str(public)}
    return {
        "id": new_id(),
        "network": subnet.body["vpc_network_id"],
        "subnet": subnet.id,
        "interface_type": "eth",
        "ips": [ips],
    }
