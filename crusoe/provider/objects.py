"""Kinds whose objects the API makes under a name: never two, never an orphan, and done only when they work.

How one comes into being is in making.py; here is what a kind says of its API, and reading, updating and deleting.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence, Set
from typing import ClassVar, cast

from crusoe.client import (
    BadRequest,
    Cancelled,
    Conflict,
    CrusoeError,
    NotFound,
    Operation,
    OperationFailed,
    TransportError,
)
from crusoe.provider import properties
from crusoe.provider.existing import JsonObject, text
from crusoe.provider.faults import PartlyDoneError, RefusalError
from crusoe.provider.kind import PENDING, Kind, Reading
from crusoe.provider.making import Making
from crusoe.provider.properties import Difference, Effect, Property
from crusoe.provider.run import Run
from crusoe.provider.session import Session
from crusoe.provider.shapes import Flag
from crusoe.provider.values import Value, Values

ADOPT = Property(
    "adoptExisting",
    Flag(),
    "Whether the name belongs to this program alone. Then an existing object of this name whose every readable property"
    " agrees is adopted, as after a run that was killed; otherwise it is refused with the command that imports it.",
    effect=Effect.LOCAL,
    assumed=False,
)

NEW_OBJECT_SECONDS = 30.0
"""For how long a 404 is not believed right after the object was made."""

CHANGE_SECONDS = 10.0
"""For how long the API may still show the old values after a change that it reported as done."""

IN_USE_SECONDS = 120.0
"""For how long a delete is asked again that is refused because other objects still use this one."""


class ApiObject(Kind):
    """A kind whose objects have a name and an id of their own.

    Attributes:
        collection: path of the collection below the project, also that of its operations.
        wrapper: the field of a synchronous create's answer that holds the object; None: the answer is the object.
    """

    collection: str
    wrapper: ClassVar[str | None] = None

    # What a kind says of its API

    @abstractmethod
    def body(self, run: Run, inputs: Values) -> JsonObject:
        """Return the create request."""

    @abstractmethod
    def actual(self, run: Run, fields: JsonObject, asked: Values) -> Values:
        """Return properties and outputs as the API tells them: None for what it says is unset, nothing for what it
        doesn't tell. `asked` are the inputs, where the answer can only be read in their light; empty for an import.
        """

    def patch(self, names: Set[str], state: Values, news: Values) -> JsonObject:
        """Return the request that changes exactly these properties; empty when nothing is to be sent."""
        del names, state, news
        return {}

    def before_create(self, run: Run, inputs: Values) -> None:
        """Refuse what the API would take but shouldn't."""
        del run, inputs

    def settle(
        self, run: Run, object_id: str, inputs: Values, fields: JsonObject, state: Values
    ) -> tuple[JsonObject, Values]:
        """Wait until the object truly works; return it as it is then, and outputs that no GET tells.

        `state` is what was recorded before, empty for a new object.

        Raises:
            RefusalError: it doesn't, or not in time; the text says why.
        """
        del run, object_id, inputs, state
        return fields, {}

    def explain(self, run: Run, inputs: Values, error: CrusoeError) -> str:
        """Return the sentences for an error of the API."""
        del inputs
        return run.about(error)

    def unwrap(self, operation: Operation) -> JsonObject:
        """Return the object in a create operation's result."""
        return operation.object

    def imported_outputs(self, run: Run, object_id: str, fields: JsonObject) -> Values:
        """Return outputs that no GET tells, for an import."""
        del run, object_id, fields
        return {}

    def refreshed(self, state: Values, fields: JsonObject) -> Values:
        """Return outputs that a refresh knows from the state before."""
        del state, fields
        return {}

    def reference(self, object_id: str) -> str:
        """Return the id by which a person imports an object."""
        return object_id

    def stands_for(self, session: Session, object_id: str, urn: str) -> None:
        """Remember whose object it is, so that no other resource adopts or deletes it."""
        session.existing.claim(object_id, urn)

    # Create

    def create(self, run: Run, inputs: Values) -> tuple[str, Values]:
        """Make the object, or adopt it, and wait until it works."""
        object_id, fields = Making(self, run, inputs).make()
        run.existing.claim(object_id, run.urn)
        return object_id, self._settled(run, object_id, inputs, fields, {})

    def _settled(self, run: Run, object_id: str, inputs: Values, fields: JsonObject, old: Values) -> Values:
        """Wait until the object works and return its state; whatever goes wrong now leaves a recorded object."""
        try:
            fields = fields if self._whole(run, fields, inputs) else self._new(run, object_id)
            now, outputs = self.settle(run, object_id, inputs, fields, old)
            return self.state_of(inputs, {**self.actual(run, now, inputs), **outputs}, old)
        except PartlyDoneError:
            raise
        except Cancelled:
            reached = f"in state {state}" if (state := text(fields, "state")) else "with its operation ended"
            reason = (
                f"The run was cancelled while {self.title} {inputs.get('name')} was getting ready; it exists as"
                f" {object_id}, {reached}. The next `pulumi up` goes on with it."
            )
            raise PartlyDoneError(object_id, self._known(run, inputs, fields, old), [reason]) from None
        except RefusalError as error:
            raise PartlyDoneError(object_id, self._known(run, inputs, fields, old), [str(error)]) from None
        except CrusoeError as error:
            raise PartlyDoneError(object_id, self._known(run, inputs, fields, old), [run.about(error)]) from None

    def _known(self, run: Run, inputs: Values, fields: JsonObject, old: Values) -> Values:
        actual = self.actual(run, fields, inputs) if self._whole(run, fields, inputs) else {}
        return self.state_of(inputs, actual, old)

    def _whole(self, run: Run, fields: JsonObject, inputs: Values) -> bool:
        """Say whether an answer held the whole object, by its readable required properties."""
        if not text(fields, "id"):
            return False
        actual = self.actual(run, fields, inputs)
        return all(actual.get(one.name) is not None for one in self.properties if one.required and not one.write_only)

    def _new(self, run: Run, object_id: str) -> JsonObject:
        """GET an object that was just made; a 404 is not believed for a while."""
        found = run.until(lambda: self.get(run, object_id), NEW_OBJECT_SECONDS)
        if found is None:
            raise RefusalError(
                f"The API reported {self.title} {object_id} as created but does not find it after"
                f" {NEW_OBJECT_SECONDS:.0f} s; run `pulumi refresh` and then the same command again."
            )
        return found

    def get(self, run: Run, object_id: str) -> JsonObject | None:
        """GET an object; None when the API says that there is none."""
        try:
            return run.client.get(f"{self.collection}/{object_id}")
        except NotFound:
            return None

    # Read

    def read(self, run: Run, object_id: str, inputs: Values, state: Values) -> Reading | None:
        """Read the object for a refresh or an import; it is gone only when neither GET nor list knows it."""
        fields = self.get(run, object_id)
        if fields is None:
            if state and run.existing.contains(self.collection, object_id):
                fields = run.until(lambda: self.get(run, object_id), NEW_OBJECT_SECONDS)
                if fields is None:
                    raise RefusalError(
                        f"The API lists {self.title} {state.get('name', '')} ({object_id}) but does not find it by its"
                        f" id after {NEW_OBJECT_SECONDS:.0f} s, so it stays in the state; run the same command again"
                        " later."
                    )
            else:
                run.pause(0.5 if state else 0.0)
                fields = self.get(run, object_id)
        if fields is None:
            return None
        run.existing.claim(object_id, run.urn)
        actual = self.actual(run, fields, inputs)
        if not inputs and not state:
            found, unread = properties.imported(self.properties, actual)
            outputs = self.imported_outputs(run, object_id, fields)
            before: Values = {properties.UNREAD: cast("Value", unread)}
            return Reading(object_id, found, self.state_of(found, {**actual, **outputs}, before))
        actual = {**actual, **self.refreshed(state, fields)}
        after = self.state_of(inputs, actual, state)
        if PENDING in state:
            after[PENDING] = state[PENDING]
        return Reading(object_id, properties.refreshed(self.properties, inputs, actual), after)

    # Update

    def update(self, run: Run, object_id: str, state: Values, news: Values, changes: Sequence[Difference]) -> Values:
        """Send exactly what changed, then wait until the object shows it and works."""
        names = {change.property for change in changes}
        run.existing.claim(object_id, run.urn)
        self.apply(run, object_id, names, state, news)

        def look() -> JsonObject | None:
            now = self.get(run, object_id)
            if now is None:
                raise self._missing(object_id, news)
            stale = names.intersection(properties.disagreements(self.properties, news, self.actual(run, now, news)))
            return None if stale else now

        fields = run.until(look, CHANGE_SECONDS) or self.get(run, object_id)
        if fields is None:
            raise self._missing(object_id, news)
        return self._settled(run, object_id, news, fields, state)

    def apply(self, run: Run, object_id: str, names: Set[str], state: Values, news: Values) -> None:
        """Send the changes of these properties and wait for the operation."""
        body = self.patch(names, state, news)
        if body:
            self.send(run, object_id, body, names, state, news)

    def send(self, run: Run, object_id: str, body: JsonObject, names: Set[str], state: Values, news: Values) -> None:
        """PATCH and wait; an unconfirmed change is recorded as such, so that the next run sends it again."""
        what = f"updating {self.title} {news.get('name', object_id)}"
        run.progress(what)
        busy: list[CrusoeError] = []

        def attempt() -> JsonObject | None:
            try:
                return run.client.patch(f"{self.collection}/{object_id}", body)
            except Conflict as error:
                # Something else works on the object, such as an autoscaler.
                busy.append(error)
                self.finish_operations(run, object_id, what)
                return None

        try:
            answer = run.until(attempt, IN_USE_SECONDS)
            if answer is None:
                raise busy[-1]
            if "operation" in answer:
                run.client.wait(answer, self.collection, run.left, progress=run.show(what), reread=lambda: None)
        except NotFound:
            raise self._missing(object_id, news) from None
        except CrusoeError as error:
            if isinstance(error, OperationFailed) or not _may_have_worked(error):
                raise RefusalError(self.explain(run, news, error)) from None
            pending: Values = {PENDING: cast("Value", sorted(names))}
            raise PartlyDoneError(object_id, {**state, **pending}, [run.about(error)]) from None

    def finish_operations(self, run: Run, object_id: str, what: str) -> None:
        """Wait for the operations that are working on an object; how they end shows in what they leave."""
        try:
            running = run.client.list(f"{self.collection}/operations", resource_id=object_id, state="IN_PROGRESS")
        except (NotFound, BadRequest):
            return
        for operation in running:
            try:
                run.client.wait(operation, self.collection, run.left, progress=run.show(what))
            except OperationFailed:
                continue

    def _missing(self, object_id: str, news: Values) -> RefusalError:
        return RefusalError(
            f"The {self.title} {news.get('name')} ({object_id}) no longer exists; run `pulumi refresh` to take it out"
            " of the state, then the same command again."
        )

    # Delete

    def delete(self, run: Run, object_id: str, state: Values) -> None:
        """Delete the object and wait until it is gone."""
        owner = run.existing.owner(object_id)
        if owner not in {None, run.urn} or run.existing.adopted(object_id):
            # A resource renamed in the program, or one replaced by creating first: the new one has adopted the object.
            run.warn(f"Kept the {self.title} {state.get('name', '')} ({object_id}), which now belongs to {owner}.")
            return
        run.progress(f"deleting {self.title} {state.get('name', object_id)}")
        self.remove(run, object_id)

    def remove(self, run: Run, object_id: str) -> None:
        """Delete, asking again while other objects still use this one, and wait for the operation.

        Raises:
            RefusalError: it is still in use.
            OperationFailed: the operation failed.
        """
        refused: list[CrusoeError] = []

        def attempt() -> JsonObject | None:
            try:
                return run.client.delete(f"{self.collection}/{object_id}")
            except NotFound as error:
                # Said of an object that is still there, it would orphan it.
                if self.get(run, object_id) is None:
                    return {}
                refused.append(error)
                return None
            except (BadRequest, Conflict) as error:
                refused.append(error)
                run.progress(f"waiting until {self.title} {object_id} is no longer in use")
                return None

        answer = run.until(attempt, IN_USE_SECONDS)
        if answer is None:
            raise RefusalError(run.about(f"{refused[-1]} It was asked again for {IN_USE_SECONDS:.0f} s."))
        if "operation" in answer:
            what = f"deleting {self.title}"
            run.client.wait(
                answer, self.collection, run.left, progress=run.show(what), reread=lambda: self._gone(run, object_id)
            )
        run.existing.forget(self.collection, object_id)

    def _gone(self, run: Run, object_id: str) -> JsonObject | None:
        """Confirm a deletion whose operation the API no longer knows."""
        if self.get(run, object_id) is not None:
            raise RefusalError(f"{self.title} {object_id} was to be deleted but is still there; run the command again.")
        return None


def _may_have_worked(error: CrusoeError) -> bool:
    """Say whether a change may have been made although this error came back."""
    if isinstance(error, TransportError | Cancelled):
        return error.answer_lost
    return type(error).__name__.startswith("Operation") or getattr(error, "answer_lost", False)
