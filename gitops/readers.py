"""Which keys of a Kubernetes Secret a plan changes, and what reads them.

Kubernetes restarts nothing for it: a mounted file changes within about a minute, a variable of the environment only
with a new pod. So what reads a changed Secret restarts where the plan changes it too; else somebody has to.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import cast

from crusoe.rules.values import items, table, text
from gitops import paths
from gitops.changes import Resource
from gitops.model import Op, Reader, SecretChange

_SECRET = "kubernetes:core/v1:Secret"  # noqa: S105 - a type
_DATA = ("data", "stringData")


def changes(known: Iterable[Resource]) -> list[SecretChange]:
    """Return what changes in each Secret of a plan that is there already; `known` has also what stays the same."""
    resources = [each for each in known if each.type.startswith("kubernetes:")]
    return [*_changes(resources)]


def _changes(resources: Sequence[Resource]) -> Iterator[SecretChange]:
    for each in resources:
        if each.type != _SECRET or each.op not in (Op.UPDATE, Op.REPLACE):
            continue
        keys = sorted({key for one in each.properties for key in _keys(each, one.path)})
        if not keys:
            continue
        place = _place(each)
        readers = [
            Reader(kind=one.type.rpartition(":")[2], name=_place(one)[1], restarts=one.op is not Op.SAME)
            for one in resources
            if one.type != _SECRET and _place(one)[0] == place[0] and _refers(_inputs(one), place[1])
        ]
        yield SecretChange(namespace=place[0], name=place[1], keys=tuple(keys), readers=tuple(readers))


def _keys(secret: Resource, path: str) -> set[str]:
    """The keys that a changed property stands for; all there are where only the whole is known to change."""
    first, *rest = paths.parse(path) or ("",)
    if first not in _DATA:
        return set()
    whole = {*table(secret.before.get(str(first))), *table(secret.after.get(str(first)))}
    return {str(rest[0])} if rest else whole


def _inputs(resource: Resource) -> object:
    side = resource.new or resource.old
    return side.inputs if side else None


def _place(resource: Resource) -> tuple[str, str]:
    """An object's namespace and name; Kubernetes' own where there is one, since the program may leave it open."""
    found = [table(side.get("metadata")) for side in (resource.after, resource.before)]
    namespace, name = (
        next((one for each in found if (one := text(each.get(key)))), "") for key in ("namespace", "name")
    )
    return namespace or "default", name or resource.name


def _refers(value: object, secret: str) -> bool:
    """Whether something names the Secret: by `secretName`, or by `name` below a key that speaks of a secret or key."""
    if isinstance(value, list):
        return any(_refers(item, secret) for item in cast("list[object]", value))
    for key, inner in table(value).items():
        if key == "secretName" and inner == secret:
            return True
        about = key.lower()
        names = [*items(inner), inner]
        if ("secret" in about or about.endswith("keyref")) and any(table(one).get("name") == secret for one in names):
            return True
        if _refers(inner, secret):
            return True
    return False
