"""Properties of a resource kind as data, and the two pure engines over them: check, and exact differences."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum

from crusoe.provider.shapes import Change, Failure, Field, Shape, check_fields, value_changes
from crusoe.provider.values import Value, Values


class Effect(Enum):
    """What a changed property does to the object."""

    UPDATE = "update"
    REPLACE = "replace"
    LOCAL = "local"
    """Nothing in the cloud: it only tells this provider how to act, so a change of it is no difference."""


@dataclass(frozen=True)
class Property(Field):
    """An input property.

    Attributes:
        effect: what a change does.
        assumed: the value that leaving it out means; None: leaving it out means none.
        computed: the service chooses when it is left out, and its choice stands.
        write_only: the API never returns it, so after an import it is taken from the program without a change.
        secret: marked as a secret wherever it appears.
    """

    effect: Effect = Effect.UPDATE
    assumed: Value = None
    computed: bool = False
    write_only: bool = False
    secret: bool = False


@dataclass(frozen=True)
class Output:
    """An output property beyond the inputs; `stable` ones never change while the object lives."""

    name: str
    shape: Shape
    description: str
    secret: bool = False
    stable: bool = True


@dataclass(frozen=True)
class Difference:
    """One difference between what is and what is asked for."""

    path: str
    property: str
    change: Change
    replaces: bool
    of_inputs: bool
    """Whether the old value is to be seen in the old inputs; otherwise only in the recorded state."""


UNREAD = "__unread"
"""State of an imported object: which of its properties the API did not tell. Two underscores hide it from displays."""


def check(properties: Iterable[Property], values: Mapping[str, Value]) -> list[Failure]:
    """Return every fault of a property bag; names that start with two underscores are the engine's own."""
    return list(check_fields(properties, {name: value for name, value in values.items() if not name.startswith("__")}))


def differences(
    properties: Iterable[Property],
    old_inputs: Mapping[str, Value],
    state: Mapping[str, Value],
    news: Mapping[str, Value],
    replacing: Collection[str] = (),
) -> list[Difference]:
    """Return what an update from `state` to `news` would change.

    `state` is what is known of the object, so that work a failed update left undone shows up again; `old_inputs` tell
    what was asked for before. `replacing` names properties that replace although they are declared as in place.
    """
    found: list[Difference] = []
    unread = state.get(UNREAD)
    for spec in properties:
        new, before = news.get(spec.name), old_inputs.get(spec.name)
        if spec.effect is Effect.LOCAL or (new is None and spec.computed):
            continue
        untold = spec.write_only or (isinstance(unread, list) and spec.name in unread and spec.name not in state)
        if untold and before is None and isinstance(unread, list) and spec.name in unread:
            continue
        is_now = before if untold else state.get(spec.name)
        if _differs(spec, is_now, new):
            replaces = spec.effect is Effect.REPLACE or spec.name in replacing
            found += [
                Difference(path, spec.name, change, replaces, of_inputs)
                for path, change, of_inputs in _where(spec, before, is_now, new)
            ]
    return found


def _where(spec: Property, before: Value, is_now: Value, new: Value) -> Iterator[tuple[str, Change, bool]]:
    """Yield the paths to show, each with the place of its old value: the old inputs where they tell, else the state."""
    of_inputs = before is not None and (new is None or _differs(spec, before, new))
    old = before if of_inputs else is_now
    if old is None or new is None:
        change = Change.DELETE if new is None and of_inputs else Change.ADD if old is None else Change.UPDATE
        yield spec.name, change, of_inputs or old is None
        return
    for path, change in value_changes(spec.shape, old, new, spec.name):
        yield path, change, of_inputs


def recorded(properties: Iterable[Property], inputs: Mapping[str, Value], actual: Mapping[str, Value]) -> Values:
    """Return the state to record: what the API told, in the words of the inputs where they mean the same.

    In `actual`, a name with None is a property that the API says is unset; a name that is missing was not told, and is
    recorded as it was asked for.
    """
    state: Values = {}
    for spec in properties:
        value = inputs.get(spec.name)
        told = spec.name in actual and not spec.write_only and spec.effect is not Effect.LOCAL
        if told and (value is None or _differs(spec, value, actual[spec.name])):
            value = actual[spec.name]
        if value is not None:
            state[spec.name] = value
    return state


def refreshed(properties: Iterable[Property], inputs: Mapping[str, Value], actual: Mapping[str, Value]) -> Values:
    """Return the inputs after a refresh: as they were written where they still hold, else as the API tells.

    A property that was left out appears only when its value is not what leaving it out means.
    """
    result: Values = {}
    for spec in properties:
        value = inputs.get(spec.name)
        told = spec.name in actual and not spec.write_only and spec.effect is not Effect.LOCAL
        if told and not (value is None and spec.computed) and _differs(spec, value, actual[spec.name]):
            value = actual[spec.name]
        if value is not None:
            result[spec.name] = value
    return result


def imported(properties: Iterable[Property], actual: Mapping[str, Value]) -> tuple[Values, list[str]]:
    """Return the inputs of an object that is being imported, and which properties the API doesn't tell."""
    inputs: Values = {}
    unread: list[str] = []
    for spec in properties:
        value = actual.get(spec.name)
        if spec.write_only or (spec.effect is not Effect.LOCAL and spec.name not in actual):
            unread.append(spec.name)
        elif value is not None and _differs(spec, None, value):
            inputs[spec.name] = value
    return inputs, unread


def disagreements(
    properties: Iterable[Property], inputs: Mapping[str, Value], actual: Mapping[str, Value]
) -> Iterator[str]:
    """Yield the names of readable properties in which an existing object is not what is asked for."""
    for spec in properties:
        asked = inputs.get(spec.name)
        told = spec.name in actual and not spec.write_only and spec.effect is not Effect.LOCAL
        if told and not (asked is None and spec.computed) and _differs(spec, asked, actual[spec.name]):
            yield spec.name


def _differs(spec: Property, one: Value, other: Value) -> bool:
    """Compare by meaning; a value that is left out means the assumed one."""
    one = spec.assumed if one is None else one
    other = spec.assumed if other is None else other
    return next(value_changes(spec.shape, one, other, spec.name), None) is not None
