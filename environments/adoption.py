"""Taking over what exists: which of a preview's creates are in the cloud already.

Objects are found by the names that the settings give them. What is not found stays a create.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import cast

from crusoe.client import Client
from crusoe.rules.values import items, table, text

COLLECTIONS: Mapping[str, str] = {
    "VpcNetwork": "networking/vpc-networks",
    "VpcSubnet": "networking/vpc-subnets",
    "VpcFirewallRule": "networking/vpc-firewall-rules",
    "IbPartition": "networking/ib-partitions",
    "StorageDisk": "storage/disks",
    "KubernetesCluster": "kubernetes/clusters",
    "KubernetesNodePool": "kubernetes/nodepools",
}
"""Kinds that have a name of their own, with where the API lists them."""

_TYPE = "crusoe:index:"


class AdoptionError(Exception):
    """The preview can't be used; `str()` is one sentence."""


@dataclass(frozen=True)
class Create:
    """A resource that a preview would create: logical `name`, and what it is to be `called` in the cloud."""

    kind: str
    name: str
    called: str


@dataclass(frozen=True)
class Adoption:
    """What is taken over: ids by logical name, and a line for each create that says what becomes of it."""

    ids: Mapping[str, str]
    lines: tuple[str, ...]


def creates(digest: object) -> list[Create]:
    """Return the creates of Crusoe's resources in the digest of `pulumi preview --json`.

    Raises:
        AdoptionError: it is no digest, or the preview failed.
    """
    steps = table(digest).get("steps")
    if not isinstance(steps, list):
        raise AdoptionError("This is no `pulumi preview --json`: it has no steps. Run the preview again.")
    wrong = [message for one in items(table(digest).get("diagnostics")) if (message := _error(table(one)))]
    if wrong:
        raise AdoptionError(f"The preview failed, so what it would create is not known: {wrong[0]}")
    return [*_creates(cast("list[object]", steps))]


def _error(diagnostic: Mapping[str, object]) -> str | None:
    return text(diagnostic.get("message")) if diagnostic.get("severity") == "error" else None


def _creates(steps: Iterable[object]) -> Iterator[Create]:
    for step in map(table, steps):
        new = table(step.get("newState"))
        kind = (text(new.get("type")) or "").removeprefix(_TYPE)
        called = text(table(new.get("inputs")).get("name"))
        if step.get("op") == "create" and kind in COLLECTIONS and called:
            yield Create(kind, (text(new.get("urn")) or "").rpartition("::")[2], called)


def existing(client: Client, wanted: Iterable[Create]) -> dict[tuple[str, str], list[str]]:
    """Ask the cloud, with nothing but GETs, for the ids of what has the kind and name of a create."""
    kinds = {each.kind for each in wanted}
    found: dict[tuple[str, str], list[str]] = {}
    for kind in sorted(kinds):
        for one in client.list(COLLECTIONS[kind]):
            name, identity = text(one.get("name")), text(one.get("id"))
            if name and identity:
                found.setdefault((kind, name), []).append(identity)
    return found


def adopt(wanted: Iterable[Create], ids: Mapping[tuple[str, str], list[str]]) -> Adoption:
    """Return what is taken over.

    Raises:
        AdoptionError: two objects have the name of one create.
    """
    taken: dict[str, str] = {}
    lines: list[str] = []
    for each in wanted:
        found = ids.get((each.kind, each.called), [])
        if len(found) > 1:
            raise AdoptionError(
                f"{len(found)} objects of the kind {each.kind} are called {each.called} ({', '.join(found)}): rename "
                "all but the one that is meant."
            )
        if found:
            taken[each.name] = found[0]
        lines.append(f"{'adopted' if found else 'new':8} {each.kind} {each.called} {' '.join(found)}".rstrip())
    return Adoption(taken, tuple(lines))


def left(client: Client, stack: str, others: Iterable[str]) -> list[str]:
    """Return a line for each object that is called `<stack>-...`, but for those of `others`, stacks of longer names."""
    longer = tuple(f"{other}-" for other in others if other.startswith(f"{stack}-"))
    return [
        f"{kind} {name} ({text(one.get('id'))})"
        for kind, path in COLLECTIONS.items()
        for one in client.list(path)
        if (name := text(one.get("name"))) and name.startswith(f"{stack}-") and not name.startswith(longer)
    ]
