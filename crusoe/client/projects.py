"""Finding the project that a stack names, by id or by name."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from crusoe.client.errors import ConfigurationError, Forbidden, MalformedAnswer, NotFound

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from crusoe.client.answers import JsonObject

    Get = Callable[[str], JsonObject]
    List = Callable[[Mapping[str, str]], Sequence[JsonObject]]

_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Project:
    """A project as the API knows it; `name` is empty when the API does not tell."""

    id: str
    name: str


def is_id(text: str) -> bool:
    """Say whether `text` is a project's id rather than its name."""
    return _UUID.fullmatch(text) is not None


def resolve(wanted: str | None, get: Get, list_projects: List) -> Project:
    """Return the project; `wanted` is an id, a name, or None when the key sees exactly one.

    Raises:
        ConfigurationError: there is no such project for this key; names what it can see.
    """
    if wanted and is_id(wanted):
        try:
            found = get(f"/organizations/projects/{wanted.lower()}")
        except (NotFound, Forbidden):
            raise ConfigurationError(
                f"The access key has no access to project {wanted}: use a key of that project, or correct the stack's"
                " project."
            ) from None
        name = found.get("name")
        return Project(wanted.lower(), name if isinstance(name, str) else "")
    named = [_project(item) for item in list_projects({"project_name": wanted} if wanted else {})]
    fitting = [project for project in named if not wanted or project.name == wanted]
    if len(fitting) == 1:
        return fitting[0]
    if wanted and len(fitting) > 1:
        raise ConfigurationError(
            f"More than one project is named {wanted!r}: give the id instead, one of"
            f" {', '.join(project.id for project in fitting)}."
        )
    seen = named if not wanted else [_project(item) for item in list_projects({})]
    names = ", ".join(sorted(project.name or project.id for project in seen)) or "no project at all"
    if wanted:
        raise ConfigurationError(f"The access key sees no project named {wanted!r}; it sees {names}.")
    raise ConfigurationError(f"Name the project: the access key sees {names}.")


def _project(item: JsonObject) -> Project:
    project_id, name = item.get("id"), item.get("name")
    if not isinstance(project_id, str) or not project_id:
        raise MalformedAnswer("The API listed a project without an id.", answer_lost=False)
    return Project(project_id, name if isinstance(name, str) else "")
