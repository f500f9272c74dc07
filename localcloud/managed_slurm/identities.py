"""User and group ids of a Slurm cluster: pure functions. The ranges are those of Crusoe's user page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

Object = dict[str, Any]

USER_IDS = range(10_000, 30_000)
GROUP_IDS = range(50_000, 65_534)


def assigned(items: Sequence[Object], field: str, ids: range) -> Mapping[str, int | None]:
    """The id of each SlurmUser (`uid`) or SlurmUserGroup (`gid`) by name.

    One that has an id keeps it; the others get the lowest free ones in order of creation, or None when there are none.
    """
    held = {name: number for item in items if (number := _id(item, field)) is not None for name in [_name(item)]}
    taken = set(held.values())
    free = (number for number in ids if number not in taken)
    new = sorted((item for item in items if _name(item) not in held), key=_age)
    return {**held, **{_name(item): next(free, None) for item in new}}


def user_problem(user: Object, cluster: str) -> tuple[str, str] | None:
    """Why a user can't be on the login nodes, as reason and message."""
    return _foreign(user, cluster)


def group_problem(group: Object, cluster: str, users: Sequence[Object]) -> tuple[str, str] | None:
    """Why a group is not whole, as reason and message."""
    if problem := _foreign(group, cluster):
        return problem
    known = {_name(user) for user in users}
    missing = [name for name in group["spec"].get("users", []) if name not in known]
    return ("UserNotFound", f"there is no SlurmUser {', '.join(missing)}") if missing else None


def _foreign(item: Object, cluster: str) -> tuple[str, str] | None:
    reference = item["spec"]["clusterReference"]
    return None if reference == cluster else ("ClusterNotFound", f"there is no SlurmCluster {reference} here")


def _id(item: Object, field: str) -> int | None:
    return item.get("status", {}).get(field)


def _name(item: Object) -> str:
    return item["metadata"]["name"]


def _age(item: Object) -> tuple[str, str]:
    return item["metadata"].get("creationTimestamp", ""), _name(item)
