"""What resources may be called.

Crusoe publishes no naming rule for these kinds. Names become parts of host names (`<vm>.<location>.compute.internal`),
so the stricter reading is taken: a DNS label of at most 63 characters.
"""

from __future__ import annotations

import re
from types import MappingProxyType
from typing import TYPE_CHECKING

from crusoe.rules.finding import Finding
from crusoe.rules.values import items, table, text

if TYPE_CHECKING:
    from collections.abc import Mapping

LONGEST = 63

_LABEL = re.compile(r"[a-z]([a-z0-9-]*[a-z0-9])?")


def name(path: str, value: object) -> list[Finding]:
    """Check a name that is used as it is."""
    given = text(value)
    if given is None:
        return [] if value is None or not isinstance(value, str) else [Finding(path, "the name is empty", _example())]
    if len(given) > LONGEST:
        return [
            Finding(
                path,
                f"the name {_shown(given)} has {len(given)} characters, {LONGEST} are allowed",
                f"Shorten it, for example to {_label(given)!r}",
            )
        ]
    if not _LABEL.fullmatch(given):
        return [
            Finding(
                path,
                f"the name {_shown(given)} has other characters than lower-case letters, digits and hyphens inside",
                f"Write {_label(given)!r}" if _label(given) else _example(),
            )
        ]
    return []


def physical(path: str, stack: object, thing: object, by_hand: object = None) -> list[Finding]:
    """Check the name that a thing gets: `<stack>-<thing>`, or the one given by hand."""
    if by_hand is not None:
        return name(path, by_hand)
    stack_name, thing_name = text(stack), text(thing)
    if stack_name is None or thing_name is None:
        return []
    whole = f"{stack_name}-{thing_name}"
    if len(whole) > LONGEST:
        room = LONGEST - len(stack_name) - 1
        way = (
            f"Use a key of at most {room} characters, for example {thing_name[:room].rstrip('-')!r}"
            if room >= 3
            else f"Use a stack name of at most {LONGEST - 1 - len(thing_name)} characters"
        )
        problem = f"it would be called {_shown(whole)}, {len(whole)} characters; {LONGEST} are allowed"
        return [Finding(path, problem, way)]
    return name(path, whole)


def unique(paths: object) -> list[Finding]:
    """Check that no two things of one kind get the same name; `paths` maps each path to its name."""
    owners: dict[str, str] = {}
    found: list[Finding] = []
    for path, value in table(paths).items():
        given = text(value)
        if given is None:
            continue
        if given in owners:
            found.append(
                Finding(path, f"the name {_shown(given)} is already that of {owners[given]}", f"Write {f'{given}-2'!r}")
            )
        owners.setdefault(given, path)
    return found


RESERVED_POOLS: Mapping[str, str] = MappingProxyType(
    {
        "all": "the Slurm partition over all pools",
        "login": "Slurm's login nodes",
        "controller": "Slurm's controller",
        "accounting": "Slurm's accounting",
        "spare": "hosts kept for repairs",
        # Their workers would be called like a pod of Slurm's own.
        "mariadb": "the accounting's database",
        "slurm-accounting": "Slurm's accounting",
        "slurm-controller": "Slurm's controller",
    }
)
"""Pool names that other parts of a platform give a meaning of their own, with that meaning."""


def reserved(path: str, keys: object, taken: Mapping[str, str] = RESERVED_POOLS) -> list[Finding]:
    """Check that no key of `keys` (a mapping or a list of names) is one that another part reserves."""
    given = list(table(keys)) or [each for each in items(keys) if isinstance(each, str)]
    return [
        Finding(f"{path}.{key}", f"{key!r} is reserved for {taken[key]}", f"Call it {f'{key}-nodes'!r}")
        for key in given
        if key in taken
    ]


def _label(given: str) -> str:
    """Return the name that `given` was probably meant to be, empty when nothing is left of it."""
    bare = re.sub(r"-{2,}", "-", re.sub(r"[^a-z0-9]+", "-", given.lower())).lstrip("-0123456789")
    return bare[:LONGEST].rstrip("-")


def _example() -> str:
    return "Write a name such as 'train'"


def _shown(given: str) -> str:
    return repr(given if len(given) <= 80 else given[:77] + "…")
