"""Property paths as the engine writes them: `spec.template`, `labels["a.b"]`, `subnets[0].id`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import cast

from crusoe.rules.values import items, table
from gitops.redaction import SECRET, UNKNOWN

_PIECE = re.compile(r"""\[(\d+|\*)\]|\["((?:[^"\\]|\\.)*)"\]|\.?([^.\[\]]+)""")

MISSING = object()
"""What `get` returns where there is nothing."""


def parse(path: str) -> tuple[str | int, ...]:
    """Return a path's steps; what does not look like a path is one name."""
    steps: list[str | int] = []
    at = 0
    while at < len(path):
        match = _PIECE.match(path, at)
        if match is None:
            return (path,)
        index, quoted, name = match.groups()
        if index is not None:
            steps.append(int(index) if index != "*" else index)
        else:
            steps.append(name if quoted is None else re.sub(r"\\(.)", r"\1", quoted))
        at = match.end()
    return tuple(steps)


def get(value: object, steps: tuple[str | int, ...]) -> object:
    """Return what is at a path, MISSING where nothing is; below a hidden or unknown value it is that value."""
    for step in steps:
        if value in (SECRET, UNKNOWN):
            return value
        if isinstance(step, int):
            listed = items(value)
            if step >= len(listed):
                return MISSING
            value = listed[step]
        else:
            entries = table(value)
            if step not in entries:
                return MISSING
            value = entries[step]
    return value


def differences(old: object, new: object, at: str = "") -> Iterator[str]:
    """The paths at which two values differ, as deep as both are mappings."""
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        before, after = table(cast("object", old)), table(cast("object", new))
        for name in dict.fromkeys([*before, *after]):
            place = join(at, name)
            if name not in before or name not in after:
                yield place
            else:
                yield from differences(before[name], after[name], place)
    elif old != new:
        yield at


def join(at: str, name: str) -> str:
    """Return the path of an entry."""
    if re.fullmatch(r"[A-Za-z_$][\w$-]*", name):
        return f"{at}.{name}" if at else name
    escaped = name.replace("\\", "\\\\").replace('"', '\\"')
    return f'{at}["{escaped}"]'
