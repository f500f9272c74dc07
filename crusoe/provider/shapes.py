"""Shapes of property values: what fits, when two values mean the same, and where two values differ.

Pure. A value that is not known yet fits everywhere and is the same as nothing.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from crusoe.provider.values import UNKNOWN, Value, has_unknown


class Change(Enum):
    """How a value differs from the one before."""

    ADD = "add"
    DELETE = "delete"
    UPDATE = "update"


@dataclass(frozen=True)
class Failure:
    """A property that can't be accepted: its path, and one sentence that says what would be right."""

    path: str
    reason: str


class Shape(Protocol):
    """What a property's value looks like."""

    def check(self, value: Value, path: str) -> Iterator[Failure]:
        """Yield what doesn't fit; `value` is neither None nor unknown."""
        ...

    def same(self, old: Value, new: Value) -> bool:
        """Say whether two fitting values mean the same."""
        ...

    def changes(self, old: Value, new: Value, path: str) -> Iterator[tuple[str, Change]]:
        """Yield the paths at which two values differ."""
        ...

    def describe(self) -> str:
        """Name the shape in a message, such as `a whole number`."""
        ...


def nested(path: str, key: str | int) -> str:
    """Return the property path of an element, in the engine's notation."""
    if isinstance(key, int):
        return f"{path}[{key}]"
    return f"{path}.{key}" if re.fullmatch(r"[A-Za-z_][\w-]*", key) else f"{path}[{json.dumps(key)}]"


def did_you_mean(wrong: str, known: Iterable[str]) -> str:
    """Return ` Did you mean 'x'?` for the closest known name, or nothing."""
    names = list(known)
    close = difflib.get_close_matches(wrong.lower(), [name.lower() for name in names], n=1, cutoff=0.6)
    match = next((name for name in names if close and name.lower() == close[0]), None)
    return f" Did you mean {match!r}?" if match else ""


def describe_value(value: Value) -> str:
    """Name the type of a value in a message, never the value, which may be secret."""
    names: dict[type, str] = {bool: "true or false", int: "a number", float: "a number", str: "text"}
    return names.get(type(value), "a list" if isinstance(value, list) else "an object")


def _misfit(value: Value, path: str, shape: Shape) -> Failure:
    return Failure(path, f"must be {shape.describe()}, not {describe_value(value)}")


def _plain_changes(shape: Shape, old: Value, new: Value, path: str) -> Iterator[tuple[str, Change]]:
    if not shape.same(old, new):
        yield path, Change.UPDATE


def _equal(old: str, new: str) -> bool:
    return old == new


def _anything(_: str) -> str | None:
    return None


@dataclass(frozen=True)
class Text:
    """Text; `equal` says when two spellings mean the same, `fault` what is wrong with one (None: nothing)."""

    choices: tuple[str, ...] = ()
    equal: Callable[[str, str], bool] = _equal
    fault: Callable[[str], str | None] = _anything

    def check(self, value: Value, path: str) -> Iterator[Failure]:
        """Yield wrong types, values outside of the choices, and what `fault` says."""
        if not isinstance(value, str):
            yield _misfit(value, path, self)
        elif self.choices and value not in self.choices:
            hint = did_you_mean(value, self.choices)
            yield Failure(path, f"must be one of {', '.join(self.choices)}.{hint}")
        elif problem := self.fault(value):
            yield Failure(path, problem)

    def same(self, old: Value, new: Value) -> bool:
        """Compare by meaning."""
        return isinstance(old, str) and isinstance(new, str) and self.equal(old, new)

    def changes(self, old: Value, new: Value, path: str) -> Iterator[tuple[str, Change]]:
        """Yield the path when the meaning differs."""
        return _plain_changes(self, old, new, path)

    def describe(self) -> str:
        """Name the shape."""
        return "text"


@dataclass(frozen=True)
class Whole:
    """A whole number between `least` and `most`."""

    least: int = 0
    most: int | None = None

    def check(self, value: Value, path: str) -> Iterator[Failure]:
        """Yield wrong types and numbers out of range."""
        if isinstance(value, bool) or not isinstance(value, int):
            yield _misfit(value, path, self)
        elif value < self.least or (self.most is not None and value > self.most):
            span = f"at least {self.least}" if self.most is None else f"between {self.least} and {self.most}"
            yield Failure(path, f"must be {span}")

    def same(self, old: Value, new: Value) -> bool:
        """Compare."""
        return old == new

    def changes(self, old: Value, new: Value, path: str) -> Iterator[tuple[str, Change]]:
        """Yield the path when the numbers differ."""
        return _plain_changes(self, old, new, path)

    def describe(self) -> str:
        """Name the shape."""
        return "a whole number"


@dataclass(frozen=True)
class Flag:
    """True or false."""

    def check(self, value: Value, path: str) -> Iterator[Failure]:
        """Yield wrong types."""
        if not isinstance(value, bool):
            yield _misfit(value, path, self)

    def same(self, old: Value, new: Value) -> bool:
        """Compare."""
        return old is new

    def changes(self, old: Value, new: Value, path: str) -> Iterator[tuple[str, Change]]:
        """Yield the path when they differ."""
        return _plain_changes(self, old, new, path)

    def describe(self) -> str:
        """Name the shape."""
        return "true or false"


@dataclass(frozen=True)
class ListOf:
    """A list whose order has no meaning, as with every list of this API; `equal` compares two whole lists by meaning.

    A change is shown for the whole list: paths by index would blame the wrong items after an insertion.
    """

    item: Shape
    equal: Callable[[list[Value], list[Value]], bool] | None = None

    def check(self, value: Value, path: str) -> Iterator[Failure]:
        """Yield wrong types and what doesn't fit inside."""
        if not isinstance(value, list):
            yield _misfit(value, path, self)
            return
        for index, item in enumerate(value):
            yield from check_value(self.item, item, nested(path, index))

    def same(self, old: Value, new: Value) -> bool:
        """Compare as multisets, item by item in meaning."""
        if not isinstance(old, list) or not isinstance(new, list) or has_unknown(old) or has_unknown(new):
            return False
        if self.equal is not None:
            return self.equal(old, new)
        rest = list(old)
        for item in new:
            match = next((index for index, other in enumerate(rest) if self.item.same(other, item)), None)
            if match is None:
                return False
            del rest[match]
        return not rest

    def changes(self, old: Value, new: Value, path: str) -> Iterator[tuple[str, Change]]:
        """Yield the path when the lists differ."""
        return _plain_changes(self, old, new, path)

    def describe(self) -> str:
        """Name the shape."""
        return "a list"


@dataclass(frozen=True)
class MapOf:
    """A map from free names to values of one shape."""

    item: Shape

    def check(self, value: Value, path: str) -> Iterator[Failure]:
        """Yield wrong types and what doesn't fit inside."""
        if not isinstance(value, dict):
            yield _misfit(value, path, self)
            return
        for key, item in value.items():
            yield from check_value(self.item, item, nested(path, key))

    def same(self, old: Value, new: Value) -> bool:
        """Compare key by key."""
        return next(self.changes(old, new, ""), None) is None

    def changes(self, old: Value, new: Value, path: str) -> Iterator[tuple[str, Change]]:
        """Yield the path of each key that differs."""
        if not isinstance(old, dict) or not isinstance(new, dict):
            yield path, Change.UPDATE
            return
        for key in sorted({*old, *new}):
            yield from value_changes(self.item, old.get(key), new.get(key), nested(path, key))

    def describe(self) -> str:
        """Name the shape."""
        return "a map"


@dataclass(frozen=True)
class Field:
    """A named part of a record."""

    name: str
    shape: Shape
    description: str
    required: bool = False


@dataclass(frozen=True)
class Record:
    """An object with fixed fields; `name` is its type's name in the schema."""

    name: str
    fields: tuple[Field, ...]
    fault: Callable[[Mapping[str, Value]], str | None] | None = None

    def check(self, value: Value, path: str) -> Iterator[Failure]:
        """Yield wrong types, unknown and missing fields, and what doesn't fit inside."""
        if not isinstance(value, dict):
            yield _misfit(value, path, self)
            return
        failures = list(check_fields(self.fields, value, path))
        yield from failures
        if not failures and self.fault is not None and not has_unknown(value) and (problem := self.fault(value)):
            yield Failure(path, problem)

    def same(self, old: Value, new: Value) -> bool:
        """Compare field by field."""
        return next(self.changes(old, new, ""), None) is None

    def changes(self, old: Value, new: Value, path: str) -> Iterator[tuple[str, Change]]:
        """Yield the path of each field that differs."""
        if not isinstance(old, dict) or not isinstance(new, dict):
            yield path, Change.UPDATE
            return
        for part in self.fields:
            yield from value_changes(part.shape, old.get(part.name), new.get(part.name), nested(path, part.name))

    def describe(self) -> str:
        """Name the shape."""
        return "an object with " + ", ".join(part.name for part in self.fields)


def check_value(shape: Shape, value: Value, path: str) -> Iterator[Failure]:
    """Yield what doesn't fit; an unknown value fits, a null inside a list or map doesn't."""
    if value is None:
        yield Failure(path, f"must be {shape.describe()}, not empty")
    elif value is not UNKNOWN:
        yield from shape.check(value, path)


def check_fields(fields: Iterable[Field], values: Mapping[str, Value], path: str = "") -> Iterator[Failure]:
    """Yield unknown names, missing required ones and values that don't fit, all at once."""
    known = {part.name: part for part in fields}

    def at(name: str) -> str:
        return nested(path, name) if path else name

    for name in values:
        if name not in known:
            hint = did_you_mean(name, known)
            yield Failure(at(name), f"is not a property here.{hint or ' Known are ' + ', '.join(known) + '.'}")
    for name, part in known.items():
        value = values.get(name)
        if value is None:
            if part.required:
                yield Failure(at(name), f"is required: {part.description}")
        elif value is not UNKNOWN:
            yield from part.shape.check(value, at(name))


def value_changes(shape: Shape, old: Value, new: Value, path: str) -> Iterator[tuple[str, Change]]:
    """Yield the paths at which two values differ, either of which may be absent (None) or, if new, unknown."""
    if old is None and new is None:
        return
    if old is None:
        yield path, Change.ADD
    elif new is None:
        yield path, Change.DELETE
    elif old is UNKNOWN or new is UNKNOWN:
        yield path, Change.UPDATE
    else:
        yield from shape.changes(old, new, path)
