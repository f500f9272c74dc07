"""The organization, its projects, and who is calling."""

from typing import Annotated

from fastapi import APIRouter, Query

from localcloud.api.family import Caller, CloudDep, Family, open_project
from localcloud.api.wire import Answer, Filters
from localcloud.cloud import Cloud
from localcloud.errors import unauthorized
from localcloud.store import Json

router = APIRouter(tags=["Organizations"])


class Count(Answer):
    """How many there are."""

    count: int


class ProjectResources(Answer):
    """What a project holds."""

    instances: Count
    disks: Count
    snapshots: Count
    images: Count
    vpc_networks: Count


class ProjectView(Answer):
    """A project."""

    id: str
    organization_id: str
    name: str
    relation: str
    resources: ProjectResources


class ProjectList(Answer):
    """The projects that the key opens."""

    items: list[ProjectView]


class Entity(Answer):
    """An organization."""

    id: str
    name: str


class EntityList(Answer):
    """The organizations that the key belongs to."""

    items: list[Entity]


class Identity(Answer):
    """The user behind the key."""

    id: str
    email: str
    name: str
    role: str


class IdentityAnswer(Answer):
    """The user behind the key."""

    identity: Identity


class ProjectFilters(Filters):
    """Filters of the project list."""

    org_id: str | None = None
    project_name: str | None = None


@router.get("/organizations/projects", response_model=ProjectList)
async def list_projects(cloud: CloudDep, caller: Caller, filters: Annotated[ProjectFilters, Query()]) -> Json:
    """The projects that the key opens."""
    organization = filters.org_id in (None, "", cloud.facts.organization["id"])
    named = filters.project_name in (None, "", caller.project)
    mine = cloud.facts.projects[caller.project]
    return {"items": [_view(cloud, caller.project, mine)] if organization and named else []}


@router.get("/organizations/projects/{project_id}", response_model=ProjectView)
async def get_project(project_id: str, cloud: CloudDep, caller: Caller) -> Json:
    """One project."""
    return _view(cloud, caller.project, open_project(cloud, caller, project_id))


@router.get("/organizations/entities", response_model=EntityList)
async def list_entities(cloud: CloudDep) -> Json:
    """The organizations that the key belongs to."""
    return {"items": [dict(cloud.facts.organization)]}


@router.get("/users/identities", response_model=IdentityAnswer)
async def get_identity(caller: Caller) -> Json:
    """The user behind the key."""
    return {
        "identity": {"id": f"user-{caller.project}", "email": caller.email, "name": caller.project, "role": "org-admin"}
    }


def own_organization(cloud: Cloud, organization_id: str) -> None:
    """Raises 403 for an organization that the key doesn't belong to."""
    if organization_id != cloud.facts.organization["id"]:
        raise unauthorized(f"the access key does not belong to organization {organization_id}")


def _view(cloud: Cloud, name: str, project_id: str) -> Json:
    def count(kind: str) -> Json:
        return {"count": len(cloud.store.all(kind, project_id))}

    return {
        "id": project_id,
        "organization_id": cloud.facts.organization["id"],
        "name": name,
        "relation": "owner",
        "resources": {
            "instances": count("vm"),
            "disks": count("disk"),
            "snapshots": {"count": 0},
            "images": {"count": 0},
            "vpc_networks": count("vpc-network"),
        },
    }


FAMILY = Family(router)
