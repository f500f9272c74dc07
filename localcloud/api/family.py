"""The one pattern of all routes: a family of the API is a router, its operations, and how each is carried out.

A module of this package defines `FAMILY`; `localcloud.api.FAMILIES` lists them. Routes take `Project` (the project of
the path, which the caller's key must open) and `CloudDep`. A change is made inside `cloud.store.transaction()`, and an
asynchronous one opens its operation in there too and ends with `return await cloud.operations.launch(operation)`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from string import Formatter
from typing import Annotated, Literal

from fastapi import APIRouter, Depends, Query, Request

from localcloud.api.wire import Filters, OperationList, OperationView
from localcloud.cloud import Cloud
from localcloud.errors import ApiError, bad_request, busy, name_taken, not_found, unauthorized
from localcloud.keys import ApiKey
from localcloud.operations import Operation, OperationFailedError, Work
from localcloud.store import Json, NameTakenError, Object

PROJECT = "/projects/{project_id}"

# All of these are coroutines: plain functions would be handed to a worker thread for every request.


async def _cloud(request: Request) -> Cloud:
    return request.state.cloud


CloudDep = Annotated[Cloud, Depends(_cloud)]


async def _caller(request: Request) -> ApiKey:
    return request.state.api_key


Caller = Annotated[ApiKey, Depends(_caller)]


def open_project(cloud: Cloud, caller: ApiKey, project_id: str) -> str:
    """The project's id; raises 404 for an unknown one and 403 for one that the key doesn't open."""
    name = {identifier: name for name, identifier in cloud.facts.projects.items()}.get(project_id)
    if name is None:
        raise not_found("project", project_id)
    if name != caller.project:
        raise unauthorized(f"access key {caller.id} has no access to project {project_id}")
    return project_id


async def _project(project_id: str, cloud: CloudDep, caller: Caller) -> str:
    return open_project(cloud, caller, project_id)


Project = Annotated[str, Depends(_project)]


@dataclass(frozen=True)
class Family:
    """One family; `operations` is the path of its operations below the project, if it has asynchronous calls."""

    router: APIRouter
    operations: str | None = None
    works: Mapping[str, Work] = field(default_factory=dict[str, Work])

    def routers(self) -> list[APIRouter]:
        """The routers to mount, in order: `operations` must be tried before `{id}`."""
        if self.operations is None:
            return [self.router]
        return [_operations_router(self.operations), self.router]


class OperationFilters(Filters):
    """Filters of an operation list."""

    resource_id: str | None = None
    state: Literal["IN_PROGRESS", "SUCCEEDED", "FAILED"] | None = None


def _operations_router(pattern: str) -> APIRouter:
    router = APIRouter(prefix=f"{PROJECT}/{pattern}", tags=["Operations"])
    # The description knows only those parameters of a path that a function takes.
    parents = [name for _, name, _, _ in Formatter().parse(pattern) if name]
    described = {
        "parameters": [{"name": name, "in": "path", "required": True, "schema": {"type": "string"}} for name in parents]
    }

    def family_of(request: Request) -> str:
        # Operations of what lies below another object are kept under that object's own path.
        return pattern.format_map(request.path_params)

    @router.get("/operations", response_model=OperationList, openapi_extra=described)
    async def list_operations(
        request: Request, project: Project, cloud: CloudDep, filters: Annotated[OperationFilters, Query()]
    ) -> Json:
        """Operations of the family."""
        found = cloud.operations.list(family_of(request), project, resource_id=filters.resource_id, state=filters.state)
        return {"items": [operation.view() for operation in found]}

    @router.get("/operations/{operation_id}", response_model=OperationView, openapi_extra=described)
    async def get_operation(request: Request, operation_id: str, project: Project, cloud: CloudDep) -> Json:
        """One operation; an unknown or expired one answers 403."""
        return known_operation(cloud, family_of(request), project, operation_id).view()

    return router


def known_operation(cloud: Cloud, family: str, project_id: str, operation_id: str) -> Operation:
    """An operation of a family and project; raises 403 when there is none, as the API's description says."""
    operation = cloud.operations.get(operation_id)
    if operation is None or operation.family != family or operation.project_id != project_id:
        raise unauthorized(f"operation {operation_id} is unknown or has expired")
    return operation


def find(cloud: Cloud, kind: str, project_id: str, identifier: str, what: str) -> Object:
    """An object of the project; raises 404."""
    item = cloud.store.get(kind, identifier)
    if item is None or item.project_id != project_id:
        raise not_found(what, identifier)
    return item


def refer(cloud: Cloud, kind: str, project_id: str, identifier: str, field_name: str) -> Object:
    """An object that a request's field names; raises 400 when there is none."""
    item = cloud.store.get(kind, identifier)
    if item is None or item.project_id != project_id:
        raise bad_request(f"{field_name}: there is no {what_of(kind)} {identifier} in this project")
    return item


def known_location(cloud: Cloud, location: str) -> None:
    """Raises 400 with the known locations."""
    if location not in cloud.facts.locations:
        raise bad_request(f"location: {location!r} is unknown; known are {', '.join(sorted(cloud.facts.locations))}")


def insert(cloud: Cloud, item: Object) -> Object:
    """Add an object; raises 409 when its name is taken."""
    try:
        return cloud.store.insert(item)
    except NameTakenError:
        raise name_taken(what_of(item.kind), item.name) from None


def free_name(cloud: Cloud, item: Object, name: str) -> None:
    """Raises 409 when another object of the kind has the name."""
    other = cloud.store.named(item.kind, item.project_id, name)
    if other is not None and other.id != item.id:
        raise name_taken(what_of(item.kind), name)


async def change(cloud: Cloud, item: Object, family: str, work: str, payload: Json) -> Json:
    """Start changing an object. The payload is applied when the operation ends, so a failed one changes nothing."""
    idle(cloud, item)
    with cloud.store.transaction():
        operation = cloud.operations.open(family, work, item.project_id, item.id, payload)
    return await cloud.operations.launch(operation)


def updater(kind: str, view: Callable[[Cloud, Object], Json], apply: Callable[[Cloud, Object, Json], None]) -> Work:
    """The work of changing an object by a payload; its result is the whole object."""

    def settle(cloud: Cloud, operation: Operation) -> Json:
        item = existing(cloud, kind, operation.resource_id)
        apply(cloud, item, operation.payload)
        try:
            cloud.store.save(item)
        except NameTakenError:
            raise OperationFailedError(
                f"a {what_of(kind)} named {item.name!r} already exists", "already_exists"
            ) from None
        return view(cloud, item)

    return Work(settle=settle)


def existing(cloud: Cloud, kind: str, identifier: str) -> Object:
    """An object that an operation works on; fails the operation when it is gone."""
    item = cloud.store.get(kind, identifier)
    if item is None:
        raise OperationFailedError(f"{what_of(kind)} {identifier} no longer exists", "not_found")
    return item


def idle(cloud: Cloud, item: Object) -> None:
    """Raises 409 while another operation works on the object."""
    operation = cloud.operations.in_progress(item.id)
    if operation is not None:
        raise busy(what_of(item.kind), item.id, operation.id)


def not_kept(item: Object) -> None:
    """Raises 400 for an object that belongs to a Slurm cluster: it is changed and deleted with that."""
    if owner := item.hidden.get("slurm_cluster"):
        raise bad_request(
            f"{what_of(item.kind)} {item.name} belongs to Slurm cluster {owner}; change or delete it there"
        )


async def delete(
    cloud: Cloud, item: Object, family: str, work: str, in_use: ApiError | None, deleting: str = "STATE_DELETING"
) -> Json:
    """Start deleting an object; one that is already being deleted answers with the operation that does it.

    `in_use` is what to answer when other objects still need this one, `deleting` the state meanwhile.
    """
    not_kept(item)
    running = cloud.operations.in_progress(item.id)
    if running is not None and running.work == work:
        return {"operation": running.view()}
    idle(cloud, item)
    if in_use is not None:
        raise in_use
    with cloud.store.transaction():
        if "state" in item.body:
            item.hidden["state_before"] = item.body["state"]
            item.body["state"] = deleting
            cloud.store.save(item)
        operation = cloud.operations.open(family, work, item.project_id, item.id)
    return await cloud.operations.launch(operation)


def what_of(kind: str) -> str:
    """An object kind in words."""
    return _WORDS.get(kind, kind)


_WORDS = {
    "vpc-network": "VPC network",
    "vpc-subnet": "VPC subnet",
    "firewall-rule": "VPC firewall rule",
    "ib-partition": "IB partition",
    "disk": "disk",
    "cluster": "Kubernetes cluster",
    "nodepool": "node pool",
    "vm": "VM",
    "load-balancer": "load balancer",
    "slurm-cluster": "Slurm cluster",
    "slurm-nodeset": "Slurm node set",
}


def remover(kind: str) -> Work:
    """The work of deleting an object that needs nothing but its row removed."""

    def settle(cloud: Cloud, operation: Operation) -> None:
        cloud.store.remove(kind, operation.resource_id)

    return Work(settle=settle, undo=restore(kind))


def restore(kind: str) -> Callable[[Cloud, Operation, Exception], None]:
    """The undo of a failed delete: the object is what it was before."""

    def undo(cloud: Cloud, operation: Operation, _failure: Exception) -> None:
        item = cloud.store.get(kind, operation.resource_id)
        if item is not None and "state_before" in item.hidden:
            item.body["state"] = item.hidden.pop("state_before")
            cloud.store.save(item)

    return undo


def discard(kind: str) -> Callable[[Cloud, Operation, Exception], None]:
    """The undo of a failed create: no object is left behind."""

    def undo(cloud: Cloud, operation: Operation, _failure: Exception) -> None:
        cloud.store.remove(kind, operation.resource_id)

    return undo
