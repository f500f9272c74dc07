"""Reading JSON objects of which any part may be absent."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any, cast

Object = dict[str, Any]


def at(value: object, *keys: str) -> Any:  # noqa: ANN401  any JSON value
    """The value at a path of fields; None where it, or anything before it, is absent or null."""
    for key in keys:
        value = cast(Mapping[str, object], value).get(key) if isinstance(value, Mapping) else None
    return value


def part(value: object, *keys: str) -> Object:
    """The object at a path of fields; empty where there is none."""
    found = at(value, *keys)
    return cast(Object, found) if isinstance(found, dict) else {}


def items(value: object, *keys: str) -> list[Object]:
    """The list of objects at a path of fields; empty where there is none."""
    found = at(value, *keys)
    return cast(list[Object], found) if isinstance(found, list) else []


def words(value: object, *keys: str) -> dict[str, str]:
    """The map of texts at a path of fields, such as labels; empty where there is none."""
    return part(value, *keys)


def digest(*values: object) -> str:
    """A short hash of JSON values that is the same in every process."""
    return hashlib.sha256(json.dumps(values, sort_keys=True, default=str).encode()).hexdigest()[:10]


def name_of(item: Mapping[str, Any]) -> str:
    """An object's name."""
    return str(item["metadata"]["name"])


def without_empty(item: Mapping[str, Any]) -> Object:
    """The fields that have a value: no null, no empty list or map or text."""
    return {key: value for key, value in item.items() if value is not None and value not in ("", [], {})}


def names(references: Sequence[Mapping[str, Any]]) -> list[str]:
    """The names in a list of `{name}`."""
    return [str(item.get("name", "")) for item in references]
