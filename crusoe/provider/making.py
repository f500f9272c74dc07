"""How an object comes into being: never two, never an orphan.

* Before a POST the names in use are looked at. An object of that name is adopted when the program says that the name is
  its own (`adoptExisting`) and every readable property agrees; otherwise it is refused with the import command.
* A POST whose answer was lost, or that answered 5xx although the work was done, is followed by another look.
* The id is known as soon as a list shows it, so that a wait that ends early leaves a recorded object.
"""

from __future__ import annotations

import shlex
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, NoReturn, cast

from crusoe.client import (
    Cancelled,
    Conflict,
    CrusoeError,
    Operation,
    OperationFailed,
    OperationTimeout,
    ServerError,
    TransportError,
)
from crusoe.provider import properties
from crusoe.provider.existing import JsonObject, text
from crusoe.provider.faults import PartlyDoneError, RefusalError

if TYPE_CHECKING:
    from crusoe.provider.objects import ApiObject
    from crusoe.provider.run import Run
    from crusoe.provider.values import Values

LOOKS = (0.0, 1.0, 2.0)
"""Seconds before each look for an object whose POST had no usable answer."""

BUSY_SECONDS = 120.0
"""For how long a create is asked again that is refused because something else works on what it needs."""

ID_SECONDS = 2.0
"""How long an operation runs before its object's id is looked for; shorter ones tell it at their end."""

NOT_IMPLEMENTED = 501

LAST_LOOK_SECONDS = 1.5
"""How long a cancelled run may look for the id of what it was making."""


class Making:
    """One object of `kind` being made from `inputs`."""

    def __init__(self, kind: ApiObject, run: Run, inputs: Values) -> None:
        self.kind = kind
        self.run = run
        self.inputs = inputs
        self.name = str(inputs["name"])
        self.what = f"{kind.title} {self.name}"

    def make(self) -> tuple[str, JsonObject]:
        """Return id and fields (as far as an answer held them) of the new or adopted object.

        Raises:
            RefusalError: it can't be made, or an object of that name must not be adopted; nothing is left behind.
            PartlyDoneError: it exists, but the wait for it ended early.
            CrusoeError: the API could not be asked.
        """
        found = self._at_rest(self.run.existing.find(self.kind.collection, self.name))
        if found:
            return self._adopt(found)
        self.kind.before_create(self.run, self.inputs)
        self.run.progress(f"creating {self.what}")
        try:
            answer = self._post()
        except _FoundError as after:
            return self._adopt(after.objects)
        except Cancelled as error:
            self._cancelled(error, None)
        except CrusoeError as error:
            raise RefusalError(self.kind.explain(self.run, self.inputs, error)) from None
        object_id, fields = self._made(answer) if "operation" in answer else self._told(answer)
        self.run.existing.remember(self.kind.collection, self.name, object_id)
        return object_id, fields

    def _post(self) -> JsonObject:
        body = self.kind.body(self.run, self.inputs)
        busy: list[Conflict] = []
        asked_again = False

        def attempt() -> JsonObject | None:
            nonlocal asked_again
            try:
                return self.run.client.post(self.kind.collection, body)
            except (Conflict, ServerError, TransportError) as error:
                self._stop_if_found(error)
                if isinstance(error, Conflict):
                    # The name is free, so something else works on what this object needs.
                    busy.append(error)
                elif asked_again or not isinstance(error, ServerError) or error.status == NOT_IMPLEMENTED:
                    # A lost answer may still turn into an object; only a 5xx without work is asked again, once.
                    raise
                else:
                    asked_again = True
                return None

        answer = self.run.until(attempt, BUSY_SECONDS)
        if answer is None:
            raise busy[-1]
        return answer

    def _stop_if_found(self, error: CrusoeError) -> None:
        if isinstance(error, TransportError) and not error.answer_lost:
            return
        if objects := self._look():
            raise _FoundError(objects) from None

    def _look(self) -> list[JsonObject]:
        for pause in LOOKS:
            self.run.pause(pause)
            if found := self._named():
                return self._at_rest(found)
        return []

    def _named(self, since: float | None = None) -> list[JsonObject]:
        """Return the objects of the name, from a list of `since` or later; default: of now."""
        since = self.run.now if since is None else since
        return self.run.existing.find(self.kind.collection, self.name, since=since)

    def _told(self, answer: JsonObject) -> tuple[str, JsonObject]:
        """Read a synchronous answer."""
        inner = answer.get(self.kind.wrapper) if self.kind.wrapper else answer
        fields = cast("JsonObject", inner) if isinstance(inner, dict) else {}
        return text(fields, "id") or self._id_by_name(), fields

    def _made(self, answer: JsonObject) -> tuple[str, JsonObject]:
        """Wait for the operation of an asynchronous answer."""
        kind, run = self.kind, self.run
        known: list[str] = []
        tell, posted = run.show(f"creating {self.what}"), run.now

        def progress(operation: Operation, waited: float) -> None:
            tell(operation, waited)
            if not known and waited >= ID_SECONDS:
                known.extend(_ids(self._named(since=posted)))
                for object_id in known[:1]:
                    run.existing.claim(object_id, run.urn)

        try:
            ended = run.client.wait(answer, kind.collection, run.left, progress=progress, reread=lambda: None)
        except OperationFailed as error:
            told = kind.explain(run, self.inputs, error)  # It may look at what the failure left behind.
            self._clean_up()
            raise RefusalError(told) from None
        except OperationTimeout as error:
            object_id = known[0] if known else self._id_by_name()
            raise PartlyDoneError(object_id, kind.state_of(self.inputs, {}), [run.about(error)]) from None
        except Cancelled as error:
            self._cancelled(error, known[0] if known else None)
        fields = kind.unwrap(ended)
        return text(fields, "id") or (known[0] if known else self._id_by_name()), fields

    def _id_by_name(self) -> str:
        """Return the id of what was just made, when no answer told it."""
        ids = _ids(self._look())
        if len(ids) != 1:
            raise RefusalError(
                f"The {self.what} was created, but the API does not say under which id; run the same command again to"
                " pick it up by its name."
            )
        return ids[0]

    def _clean_up(self) -> None:
        """Delete what a failed create left behind: the name was free before, so it is ours."""
        for object_id in _ids(self._named()):
            self.kind.remove(self.run, object_id)

    def _cancelled(self, error: Cancelled, object_id: str | None) -> NoReturn:
        """Record what exists when a create is cancelled."""
        known = object_id or self._last_look()
        if known is None:
            raise error
        state = f", its operation {error.operation_id} in state {error.state}" if error.operation_id else ""
        reason = (
            f"The run was cancelled while {self.what} was being created; it exists as {known}{state}. The next"
            " `pulumi up` goes on with it."
        )
        raise PartlyDoneError(known, self.kind.state_of(self.inputs, {}), [reason]) from None

    def _last_look(self) -> str | None:
        """Find the id by name after a cancel, when the session's client no longer sends anything."""
        found: list[str] = []

        def look() -> None:
            try:
                client = self.run.session.uncancelled()
                named = [each for each in client.list(self.kind.collection) if each.get("name") == self.name]
                found.extend(_ids(named))
            except CrusoeError:
                return

        thread = threading.Thread(target=look, daemon=True)
        thread.start()
        thread.join(LAST_LOOK_SECONDS)
        return found[0] if len(found) == 1 else None

    # Objects that exist already

    def _at_rest(self, objects: Sequence[JsonObject]) -> list[JsonObject]:
        """Wait for whatever is under way with these objects and return those that are still there."""
        return [fields for each in objects if (fields := self._rested(text(each, "id") or "")) is not None]

    def _rested(self, object_id: str) -> JsonObject | None:
        kind, run = self.kind, self.run
        kind.finish_operations(run, object_id, f"waiting for {self.what}")

        def look() -> JsonObject | None:
            now = kind.get(run, object_id)
            if now is None:
                return {}
            if "DELET" not in (text(now, "state") or "").upper():
                return now
            run.progress(f"waiting until the {self.what} of before is deleted")
            return None

        fields = run.until(look)
        if fields is None:
            raise RefusalError(
                f"The {self.what} ({object_id}) is still being deleted; run the same command again when it is gone."
            )
        return fields or None

    def _adopt(self, objects: Sequence[JsonObject]) -> tuple[str, JsonObject]:
        kind, run, ids = self.kind, self.run, _ids(objects)
        if len(ids) != 1:
            raise RefusalError(
                f"There are {len(ids)} objects named {self.name} ({', '.join(ids)}): delete those that are not wanted,"
                " or import the right one."
            )
        object_id, fields = ids[0], objects[0]
        owner = run.existing.owner(object_id)
        if owner not in {None, run.urn}:
            raise RefusalError(f"The {self.what} ({object_id}) already belongs to {owner}; use another name.")
        command = f"pulumi import {kind.token} {shlex.quote(run.name)} {kind.reference(object_id)}"
        if self.inputs.get("adoptExisting") is not True:
            raise RefusalError(
                f"A {self.what} exists already ({object_id}). Import it with `{command}`, or use another name."
            )
        actual = kind.actual(run, fields, self.inputs)
        differing = sorted(properties.disagreements(kind.properties, self.inputs, actual))
        if differing:
            raise RefusalError(
                f"A {self.what} exists already ({object_id}) but differs in {', '.join(differing)}. Delete it, or"
                f" import it with `{command}` and see what would change."
            )
        run.existing.note_adopted(object_id)
        run.warn(f"Adopted the existing {self.what} ({object_id}).")
        return object_id, fields


class _FoundError(Exception):
    """A create that seemed to fail left these objects of its name."""

    def __init__(self, objects: list[JsonObject]) -> None:
        super().__init__()
        self.objects = objects


def _ids(objects: Sequence[JsonObject]) -> list[str]:
    return [object_id for fields in objects if (object_id := text(fields, "id"))]
