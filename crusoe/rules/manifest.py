"""Checking the fields of a Kubernetes manifest against a shape: unknown names, wrong types, what is missing.

The API server checks pods only when they are created, and not at all where a custom resource's schema keeps unknown
fields, as those of Slinky do for containers and pod templates: a misspelt `nodeSelectr` is stored, dropped by the
operator, and the pod runs anywhere. So every manifest is checked here, before anything is created.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from crusoe.rules.finding import Finding
from crusoe.rules.values import items, table, whole

_QUANTITY = re.compile(r"[+-]?(\d+|\d+\.\d*|\.\d+)([KMGTPE]i|[numkMGTPE]|[eE][+-]?\d+)?")


@dataclass(frozen=True, slots=True)
class Text:
    """A text, perhaps one of a few."""

    choices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Whole:
    """A whole number, perhaps with bounds."""

    least: int | None = None
    most: int | None = None


@dataclass(frozen=True, slots=True)
class Flag:
    """True or false."""


@dataclass(frozen=True, slots=True)
class Quantity:
    """An amount as Kubernetes writes it: `500m`, `64Gi`."""


@dataclass(frozen=True, slots=True)
class WholeOrText:
    """A whole number, or a text such as a port's name or a percentage."""


@dataclass(frozen=True, slots=True)
class ListOf:
    """A list; `unique` names the field that no two items may share."""

    item: Shape
    unique: str | None = None


@dataclass(frozen=True, slots=True)
class MapOf:
    """A map with any keys."""

    value: Shape


@dataclass(frozen=True, slots=True)
class Fields:
    """An object with known fields; `one_of` says that exactly one of some has to be there."""

    known: Mapping[str, Shape] = field(default_factory=dict[str, "Shape"])
    required: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Anything:
    """Not looked into."""


Shape = Text | Whole | Flag | Quantity | WholeOrText | ListOf | MapOf | Fields | Anything

TEXT, WHOLE, FLAG, QUANTITY, PORT = Text(), Whole(), Flag(), Quantity(), WholeOrText()
TEXTS = ListOf(TEXT)
LABELS = MapOf(TEXT)


def check(path: str, value: object, shape: Shape) -> Iterator[Finding]:
    """Check a value that came from YAML or from a program; None counts as left out."""
    if value is None:
        return
    match shape:
        case Fields():
            yield from _fields(path, value, shape)
        case ListOf():
            yield from _list(path, value, shape)
        case MapOf():
            entries = table(value)
            if not isinstance(value, Mapping):
                yield Finding(path, "not a map", "Write keys and values")
            for key, each in entries.items():
                yield from check(f"{path}.{key}", each, shape.value)
        case Anything():
            return
        case _:
            yield from _scalar(path, value, shape)


def _fields(path: str, value: object, shape: Fields) -> Iterator[Finding]:
    given = table(value)
    if not isinstance(value, Mapping):
        yield Finding(path, "not an object", f"Write fields such as {next(iter(shape.known), 'name')}")
        return
    for key, each in given.items():
        if key in shape.known:
            yield from check(f"{path}.{key}", each, shape.known[key])
        else:
            near = difflib.get_close_matches(key, shape.known, n=1)
            fix = f"Write {near[0]}" if near else f"Known here: {', '.join(sorted(shape.known))}"
            yield Finding(f"{path}.{key}", "there is no such field", fix)
    for key in shape.required:
        if given.get(key) is None:
            yield Finding(f"{path}.{key}", "missing", f"Set {key}")


def _list(path: str, value: object, shape: ListOf) -> Iterator[Finding]:
    seen: set[object] = set()
    given = items(value)
    if not isinstance(value, list | tuple):
        yield Finding(path, "not a list", "Write a list")
    for index, each in enumerate(given):
        place = f"{path}[{index}]"
        yield from check(place, each, shape.item)
        name = table(each).get(shape.unique) if shape.unique else None
        if isinstance(name, str) and name in seen:
            yield Finding(f"{place}.{shape.unique}", f"{name!r} is there twice", "Give each one a name of its own")
        seen.add(name)


def _scalar(path: str, value: object, shape: Shape) -> Iterator[Finding]:
    match shape:
        case Text():
            if not isinstance(value, str):
                yield Finding(path, "not text", "Write text, in quotes if it looks like a number")
            elif shape.choices and value not in shape.choices:
                yield Finding(path, f"{value!r} is not one of the known values", f"Write {' or '.join(shape.choices)}")
        case Whole():
            number = whole(value)
            if number is None:
                yield Finding(path, "not a whole number", "Write it without quotes or decimals")
            elif shape.least is not None and number < shape.least:
                yield Finding(path, f"{number} is too small", f"Write {shape.least} or more")
            elif shape.most is not None and number > shape.most:
                yield Finding(path, f"{number} is too large", f"Write {shape.most} or less")
        case Flag():
            if not isinstance(value, bool):
                yield Finding(path, "neither true nor false", "Write true or false, without quotes")
        case Quantity():
            if whole(value) is None and not (isinstance(value, str) and _QUANTITY.fullmatch(value)):
                yield Finding(path, "not an amount as Kubernetes writes it", "Write one such as 500m or 64Gi")
        case _:
            if whole(value) is None and not isinstance(value, str):
                yield Finding(path, "neither a whole number nor text", "Write a number, or a name or percentage")
