"""Reading plain values that may be of any type: settings, another program's resource inputs, values not yet known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast


def text(value: object) -> str | None:
    """Return a text that is not empty, None for anything else."""
    return value if isinstance(value, str) and value else None


def whole(value: object) -> int | None:
    """Return a whole number, None for anything else; Pulumi hands whole numbers over as floats."""
    if isinstance(value, bool):
        return None
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value if isinstance(value, int) else None


def table(value: object) -> Mapping[str, object]:
    """Return a mapping's entries with text keys, nothing for anything else."""
    if not isinstance(value, Mapping):
        return {}
    return {key: item for key, item in cast("Mapping[object, object]", value).items() if isinstance(key, str)}


def items(value: object) -> Sequence[object]:
    """Return a list's or tuple's items, nothing for anything else."""
    return cast("Sequence[object]", value) if isinstance(value, list | tuple) else ()
