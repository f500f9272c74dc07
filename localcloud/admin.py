"""The admin surface under `/_local`: faults, logs, clock, stock and quotas of this machine's cloud.

It is no part of Crusoe's API. All of it but the health page and the API's description needs the state folder's token
in `X-Local-Token`, and it is only ever served on the loopback address.
"""

import hmac
from dataclasses import asdict
from functools import cache
from typing import Annotated

from fastapi import APIRouter, Depends, FastAPI, Header, Query, Request
from fastapi import Body as Whole
from pydantic import Field

from localcloud import pools
from localcloud.api.autoclusters import Action, set_issue
from localcloud.api.compute import pool_of
from localcloud.api.family import CloudDep
from localcloud.api.kubernetes_nodepools import Count, autoscale
from localcloud.api.wire import Body, Filters
from localcloud.autoclusters import incidents
from localcloud.cloud import Cloud, Offered
from localcloud.errors import bad_request, not_found, unauthorized
from localcloud.faults import FaultKind, FaultOptions
from localcloud.handlers import add_error_handlers
from localcloud.store import Json, Object
from localcloud.watch import Watch

ADMIN_PREFIX = "/_local"


class FaultAdd(Body):
    """A fault to add; see `localcloud.faults`."""

    match: str
    kind: FaultKind
    times: Annotated[int, Field(ge=1)] | None = None
    after: Count = 0
    seconds: Annotated[float, Field(ge=0)] | None = None
    retry_after: Count | None = None
    message: str | None = None
    vms: Count = 0


class SettingsUpdate(Body):
    """What may change while the cloud runs."""

    operation_seconds: Annotated[float, Field(ge=0)] | None = None
    generation: Offered | None = None
    clock_offset: float | None = None
    watch_seconds: Annotated[float, Field(ge=0)] | None = None


class CapacityUpdate(Body):
    """How many more VMs of a type can start, in a location or in an InfiniBand network."""

    vm_type: str
    quantity: Count
    location: str | None = None
    ib_network_id: str | None = None


class QuotaUpdate(Body):
    """The most that a project may use of a quota."""

    name: str
    max: Count
    project_id: str | None = None


class IssueUpdate(Body):
    """An issue of the AutoClusters catalogue, new or with another default."""

    issue_name: str
    default_action: Action


class AutoClustersUpdate(Body):
    """Delays as in `localcloud.autoclusters.incidents`, and where notices go (empty for nowhere)."""

    detect: Annotated[float, Field(ge=0)] | None = None
    cordon: Annotated[float, Field(ge=0)] | None = None
    grace: Annotated[float, Field(ge=0)] | None = None
    webhook: str | None = None


class GpuFaultAdd(Body):
    """A GPU of a VM, which is named by its id or its node, that has an XID error from now on."""

    node: str = ""
    vm_id: str = ""
    xid: Annotated[int, Field(ge=1, le=999)]
    gpu: Count = 0


class AutoscaleUpdate(Body):
    """The count that the cluster autoscaler sets."""

    count: Count


class Since(Filters):
    """Which part of a log is wanted: what follows an id, or the newest."""

    since: int = 0
    limit: Annotated[int, Field(ge=1, le=20_000)] = 1000
    last: bool = False


async def _owner(cloud: CloudDep, x_local_token: Annotated[str, Header()] = "") -> None:
    if not hmac.compare_digest(x_local_token.encode(), cloud.keys.admin_token.encode()):
        raise unauthorized("X-Local-Token is not the token of this cloud's state folder")


open_router = APIRouter(prefix=ADMIN_PREFIX)
router = APIRouter(prefix=ADMIN_PREFIX, dependencies=[Depends(_owner)])


@open_router.get("/health")
async def health(request: Request) -> Json:
    """Which local cloud this is."""
    return {"service": "localcloud", **request.state.about}


@open_router.post("/receiver/{name}")
async def receive(name: str, body: Annotated[Json, Whole()], cloud: CloudDep) -> Json:
    """Take what a webhook sends, for those who want to see that it arrives; kept until the cloud stops."""
    cloud.received.append((name, body))
    return {}


@open_router.get("/openapi.json")
async def openapi(request: Request) -> Json:
    """The description of the API under `/v1`."""
    return request.state.description()


@router.get("/status")
async def status(cloud: CloudDep, request: Request) -> Json:
    """What runs."""
    clusters = [
        {
            "id": cluster.id,
            "name": cluster.name,
            "version": cluster.body["version"],
            "state": cluster.body["state"],
            "node_pools": cloud.store.count(pools.POOL, cluster.id),
        }
        for cluster in cloud.store.all(pools.CLUSTER)
    ]
    about = request.state.about
    return {**about, "settings": _settings(cloud), "clusters": clusters, "faults": len(cloud.faults.all())}


@router.get("/receiver")
async def received(cloud: CloudDep) -> Json:
    """What webhooks have sent, the last hundred, oldest first."""
    return {"items": [{"name": name, "body": body} for name, body in cloud.received]}


@router.get("/faults")
async def list_faults(cloud: CloudDep) -> Json:
    """Every fault, spent ones too."""
    return {"items": [asdict(fault) for fault in cloud.faults.all()]}


@router.post("/faults")
async def add_fault(body: FaultAdd, cloud: CloudDep) -> Json:
    """Add a fault."""
    options = FaultOptions(body.seconds, body.retry_after, body.message, body.vms)
    try:
        return asdict(cloud.faults.add(body.match, body.kind, times=body.times, after=body.after, options=options))
    except ValueError as error:
        raise bad_request(f"match: {error}") from None


@router.delete("/faults")
async def clear_faults(cloud: CloudDep) -> Json:
    """Remove all faults and let stalled operations go on."""
    cleared = cloud.faults.clear()
    cloud.operations.release()
    return {"cleared": cleared}


@router.get("/requests")
async def list_requests(cloud: CloudDep, page: Annotated[Since, Query()]) -> Json:
    """Requests to the API."""
    found = cloud.requests.last(page.limit) if page.last else cloud.requests.since(page.since, page.limit)
    return {"items": [asdict(request) for request in found]}


@router.delete("/requests")
async def clear_requests(cloud: CloudDep) -> Json:
    """Forget the requests so far."""
    cloud.requests.clear()
    return {}


@router.get("/events")
async def list_events(cloud: CloudDep, page: Annotated[Since, Query()]) -> Json:
    """What happened."""
    return {"items": [asdict(event) for event in cloud.journal.since(page.since, page.limit)]}


@router.get("/settings")
async def get_settings(cloud: CloudDep) -> Json:
    """What may change while the cloud runs."""
    return _settings(cloud)


@router.patch("/settings")
async def update_settings(body: SettingsUpdate, cloud: CloudDep) -> Json:
    """Change settings."""
    if body.operation_seconds is not None:
        cloud.store.set_setting("operation_seconds", body.operation_seconds)
    if body.generation is not None:
        cloud.store.set_setting("generation", body.generation)
    if body.clock_offset is not None:
        cloud.move_clock(body.clock_offset)
    if body.watch_seconds is not None:
        cloud.store.set_setting("watch_seconds", body.watch_seconds)
    return _settings(cloud)


@router.post("/watch")
async def look(request: Request) -> Json:
    """Look at every control plane now; answers once those of which something had ended run again, or don't."""
    watch: Watch = request.state.watch
    return {"items": [asdict(finding) for finding in await watch.look()]}


@router.put("/capacities")
async def set_capacity(body: CapacityUpdate, cloud: CloudDep) -> Json:
    """Set how many more VMs of a type can start."""
    vm_type = cloud.facts.vm_types.get(body.vm_type)
    if vm_type is None:
        raise bad_request(f"vm_type: there is no VM type {body.vm_type!r}")
    if network := cloud.facts.ib_networks.get(body.ib_network_id or ""):
        cloud.inventory.set_ib_free_vms(network, vm_type, body.quantity)
    elif body.location is not None and body.location in cloud.facts.locations:
        cloud.inventory.set_free_vms(vm_type, body.location, body.quantity)
    else:
        raise bad_request("either a known location or a known ib_network_id is needed")
    return {}


@router.put("/quotas")
async def set_quota(body: QuotaUpdate, cloud: CloudDep) -> Json:
    """Set the most that a project may use."""
    if body.name not in cloud.facts.quotas:
        raise bad_request(f"name: there is no quota {body.name!r}; known are {', '.join(cloud.facts.quotas)}")
    project_id = body.project_id or cloud.facts.projects["local"]
    cloud.inventory.set_quota(project_id, body.name, body.max)
    return asdict(cloud.inventory.quota(project_id, body.name))


@router.put("/autoclusters/issues")
async def set_autoclusters_issue(body: IssueUpdate, cloud: CloudDep) -> Json:
    """Add an issue to the AutoClusters catalogue, or change a default."""
    set_issue(cloud, body.issue_name, body.default_action)
    return {}


@router.put("/autoclusters/settings")
async def set_autoclusters(body: AutoClustersUpdate, cloud: CloudDep) -> Json:
    """Change how long AutoClusters takes, and whom it tells."""
    try:
        if body.webhook is not None:
            incidents.set_webhook(cloud, body.webhook)
    except ValueError as error:
        raise bad_request(f"webhook: {error}") from None
    seconds = {"detect": body.detect, "cordon": body.cordon, "grace": body.grace}
    incidents.set_delays(cloud, **{name: value for name, value in seconds.items() if value is not None})
    return {**asdict(incidents.delays(cloud)), "webhook": incidents.webhook(cloud)}


@router.post("/gpu-faults")
async def add_gpu_fault(body: GpuFaultAdd, cloud: CloudDep) -> Json:
    """Break a GPU; answers the incident that began, or that the VM has already."""
    vm = _vm(cloud, body)
    pool = pool_of(cloud, vm)
    gpus = cloud.facts.vm_types[vm.body["type"]].gpus
    if pool is None or vm.body["state"] != "STATE_RUNNING":
        raise bad_request(f"VM {vm.name} is not a running node of a pool ({vm.body['state']})")
    if body.gpu >= gpus:
        raise bad_request(f"gpu: node {vm.name} ({vm.body['type']}) has {gpus} GPUs, which count from 0")
    return asdict(incidents.report(cloud, vm, pool, body.xid, body.gpu))


@router.get("/incidents")
async def list_incidents(cloud: CloudDep) -> Json:
    """Faults of GPUs, and how far their repairs are."""
    return {"items": [asdict(incident) for incident in incidents.every(cloud)]}


@router.put("/nodepools/{pool_id}/count")
async def set_count(pool_id: str, body: AutoscaleUpdate, cloud: CloudDep) -> Json:
    """Change a pool's count as a cluster autoscaler does: nodes above it are drained and deleted."""
    pool = cloud.store.get(pools.POOL, pool_id)
    if pool is None:
        raise not_found("node pool", pool_id)
    with cloud.store.transaction():
        operation = autoscale(cloud, pool, body.count)
    return await cloud.operations.launch(operation)


@router.get("/vms/{vm_id}")
async def get_vm(vm_id: str, cloud: CloudDep) -> Json:
    """A VM with what it was given at its start, SSH key included."""
    vm = cloud.store.get(pools.VM, vm_id)
    if vm is None:
        raise not_found("VM", vm_id)
    return {**vm.body, "configuration": vm.hidden["configuration"]}


@cache
def admin_app() -> FastAPI:
    """The admin surface; each request brings its cloud in its state."""
    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)
    app.include_router(open_router)
    app.include_router(router)
    add_error_handlers(app)
    return app


def _vm(cloud: Cloud, body: GpuFaultAdd) -> Object:
    """The VM that is meant; a node bears its VM's name."""
    found = [vm for vm in cloud.store.all(pools.VM) if body.vm_id == vm.id or body.node == vm.name]
    if len(found) != 1:
        known = ", ".join(vm.name for vm in cloud.store.all(pools.VM) if cloud.facts.vm_types[vm.body["type"]].gpus)
        raise bad_request(f"there is no VM {body.vm_id or body.node!r}; nodes with GPUs are {known or 'none'}")
    return found[0]


def _settings(cloud: Cloud) -> Json:
    return {
        "operation_seconds": cloud.operation_seconds,
        "generation": cloud.offered,
        "clock_offset": cloud.clock.offset,
        "watch_seconds": cloud.watch_seconds,
    }
