"""The one anatomy of a resource kind: what it is as data, and what check, diff, create, read, update and delete do.

A kind declares its properties and outputs; check and diff follow from them, and a kind only adds what its declarations
can't say. How an object comes into being and is kept is up to the kind: `ApiObject` (objects.py) for what the API makes
under a name, and kinds of their own for the rest.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from crusoe.provider import properties
from crusoe.provider.properties import Difference, Effect, Output, Property
from crusoe.provider.run import Run
from crusoe.provider.session import Session
from crusoe.provider.shapes import Change, Failure
from crusoe.provider.values import UNKNOWN, Value, Values

PACKAGE = "crusoe"

PENDING = "__pending"
"""State of an object whose last change was not confirmed: the names of the properties to send again."""


@dataclass(frozen=True)
class Reading:
    """An object as a refresh or an import found it; `object_id` differs from the one asked for only after an import."""

    object_id: str
    inputs: Values
    state: Values


class Kind(ABC):
    """A resource kind.

    Attributes:
        name: of the kind, such as `VpcNetwork`; its token is `crusoe:index:VpcNetwork`.
        title: in messages, such as `VPC network`.
        description: for the schema.
        properties: the inputs.
        outputs: what is known of the object beyond them.
        delete_before_replace: two of the same name can't exist side by side.
        seconds: bounds for create, update and delete, unless the resource's `customTimeouts` say otherwise.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    description: ClassVar[str]
    properties: ClassVar[tuple[Property, ...]]
    outputs: ClassVar[tuple[Output, ...]] = ()
    delete_before_replace: ClassVar[bool] = True
    seconds: ClassVar[Mapping[str, float]] = {"create": 600, "update": 600, "delete": 600, "read": 120}

    @property
    def token(self) -> str:
        """The kind's token."""
        return f"{PACKAGE}:index:{self.name}"

    @property
    def secrets(self) -> frozenset[str]:
        """Names of inputs and outputs that are secret whatever they are made from."""
        return frozenset(one.name for one in (*self.properties, *self.outputs) if one.secret)

    # Check

    def check(self, session: Session, olds: Values, news: Values) -> list[Failure]:
        """Return every fault of the inputs at once; `olds` are the inputs of the run before, empty for a new one."""
        failures = properties.check(self.properties, news)
        told = {failure.path for failure in failures}
        failures += [failure for failure in self.faults(news) if failure.path not in told]
        return failures or self.remote_faults(session, olds, news)

    def faults(self, news: Values) -> list[Failure]:
        """Return faults by rules and between properties; values of a wrong type are passed over."""
        del news
        return []

    def remote_faults(self, session: Session, olds: Values, news: Values) -> list[Failure]:
        """Return faults that only the API can tell; asked on every preview, so it has to cost nothing without news."""
        del session, olds, news
        return []

    # Diff

    def differences(self, old_inputs: Values, state: Values, news: Values) -> list[Difference]:
        """Return what an update would change; see `properties.differences`."""
        found = properties.differences(self.properties, old_inputs, state, news, self.replacing(state))
        pending = state.get(PENDING)
        seen = {difference.property for difference in found}
        for name in pending if isinstance(pending, list) else ():
            if isinstance(name, str) and name not in seen:
                found.append(Difference(name, name, Change.UPDATE, replaces=False, of_inputs=False))
        return found

    def replacing(self, state: Values) -> Collection[str]:
        """Return properties declared as in place whose change replaces this very object."""
        del state
        return ()

    def upkeep(self, state: Values) -> list[Difference]:
        """Return what an `up` has to do although nothing was asked for: no drift, so a refresh doesn't show it."""
        del state
        return []

    def refusal(self, state: Values, news: Values, changes: Sequence[Difference]) -> str | None:
        """Return why a change in place can't be made and what the way out is, or None."""
        del state, news, changes
        return None

    def lost_by_replacing(self, state: Values) -> str | None:
        """Return what a replacement destroys beyond the object itself, for a warning in the preview, or None."""
        del state
        return None

    def stands_for(self, session: Session, object_id: str, urn: str) -> None:
        """Note that the resource `urn` stands for this object."""
        del session, object_id, urn

    # Preview

    def planned(self, inputs: Values) -> Values:
        """Return the state that a preview shows for a new object: what is not yet known is UNKNOWN."""
        state: Values = {name: value for name, value in inputs.items() if value is not None}
        for spec in self.properties:
            if spec.name not in state and spec.computed:
                state[spec.name] = UNKNOWN
            elif spec.name not in state and spec.assumed not in (None, {}, []) and spec.effect is not Effect.LOCAL:
                state[spec.name] = spec.assumed
        return {**state, **{output.name: UNKNOWN for output in self.outputs}}

    def planned_update(self, state: Values, news: Values, changes: Sequence[Difference]) -> Values:
        """Return the state that a preview shows after an update: only what the update may change is UNKNOWN."""
        touched = {change.property for change in changes}
        unseen: Values = {output.name: UNKNOWN for output in self.outputs if output.name not in state}
        after = {**state, **unseen, **news}
        for spec in self.properties:
            if spec.name in touched and spec.name not in news:
                after.pop(spec.name, None)
                if spec.assumed not in (None, {}, []):
                    after[spec.name] = spec.assumed
        return after

    def preflight(self, run: Run, state: Values, inputs: Values) -> None:
        """Refuse in the preview what would fail for lack of quota; `state` is empty for a new object."""
        del run, state, inputs

    # Operations

    @abstractmethod
    def create(self, run: Run, inputs: Values) -> tuple[str, Values]:
        """Make the object and return its id and state.

        Raises:
            RefusalError: it can't or must not be made; nothing is left behind.
            PartlyDoneError: it exists, but is not yet what was asked for.
            CrusoeError: the API refused or could not be reached.
        """

    @abstractmethod
    def read(self, run: Run, object_id: str, inputs: Values, state: Values) -> Reading | None:
        """Return the object as it is, None when it is gone; without inputs and state it is an import."""

    @abstractmethod
    def update(self, run: Run, object_id: str, state: Values, news: Values, changes: Sequence[Difference]) -> Values:
        """Make the changes, finish what an earlier run left unfinished, and return the state."""

    @abstractmethod
    def delete(self, run: Run, object_id: str, state: Values) -> None:
        """Delete the object with everything it brought; one that is gone already is fine."""

    # For kinds

    def state_of(self, inputs: Values, actual: Mapping[str, Value], old: Mapping[str, Value] | None = None) -> Values:
        """Return the state to record: `actual` is what the API tells, `old` the state before."""
        state = properties.recorded(self.properties, inputs, actual)
        before = old or {}
        for output in self.outputs:
            value = actual[output.name] if output.name in actual else before.get(output.name)
            if value is not None:
                state[output.name] = value
        hidden = {name: value for name, value in {**before, **actual}.items() if name.startswith("__")}
        hidden.pop(PENDING, None)
        return {**state, **hidden}
