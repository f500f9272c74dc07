"""Asynchronous operations: what a mutating answer holds, and waiting for its end.

`{"operation": {"operation_id", "state", "result", ...}}` comes from the mutating call, the bare operation from polls.
States are IN_PROGRESS, SUCCEEDED and FAILED; any other is taken as still under way, so that a new one does no harm.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from crusoe.client.answers import JsonObject, as_object, clean, reason_of
from crusoe.client.errors import (
    Cancelled,
    Forbidden,
    MalformedAnswer,
    NotFound,
    OperationExpired,
    OperationFailed,
    OperationTimeout,
    RateLimited,
    ServerError,
    TransportError,
)

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Mapping

    from crusoe.client.clock import Clock

    Poll = Callable[[str, float], Mapping[str, object]]
    Reread = Callable[[], JsonObject | None]

FIRST_PAUSE = 0.1
LONGEST_PAUSE = 2.0
"""Seconds between polls: the first poll is made at once, then doubling up to what Crusoe's own tools use."""

UNKNOWN_POLLS = 3
"""Polls that may answer "unknown operation": right after the start one node of the service may not know it yet."""

LONGEST_SILENCE = 180.0
"""Seconds without any usable answer after which the wait is given up; the operation goes on."""


@dataclass(frozen=True, slots=True)
class Operation:
    """`result` is the object made or changed, `{code, message}` of a failure, or None; the API fixes no shape."""

    id: str
    state: str
    result: object = None

    @property
    def object(self) -> JsonObject:
        """The result as a JSON object, empty when it is none."""
        return as_object(self.result)


def parse(answer: Mapping[str, object]) -> Operation | None:
    """Read the operation of a mutating answer or a poll; None when there is none."""
    fields = as_object(answer.get("operation", answer))
    state, operation_id = fields.get("state"), fields.get("operation_id")
    if not isinstance(state, str) or not state:
        return None
    return Operation(operation_id if isinstance(operation_id, str) else "", state.upper(), fields.get("result"))


def wait(
    answer: Mapping[str, object],
    poll: Poll,
    *,
    clock: Clock,
    timeout: float,
    cancel: threading.Event,
    progress: Callable[[Operation, float], None] | None = None,
    reread: Reread | None = None,
) -> Operation:
    """Wait until the operation of `answer` ends; see `Client.wait`. `poll(id, seconds)` asks once."""
    operation = parse(answer)
    if operation is None:
        if reread is not None:
            return Operation("", "SUCCEEDED", reread())
        raise MalformedAnswer("The answer holds no operation to wait for; look at the object itself.", answer_lost=True)
    start = heard = clock.monotonic()
    pause, unknown = 0.0, 0
    while True:
        if operation.state == "SUCCEEDED":
            return operation
        if operation.state == "FAILED":
            raise failure(operation)
        if not operation.id:
            raise MalformedAnswer(
                f"The answer holds an operation in state {operation.state} without an id; look at the object itself.",
                answer_lost=True,
            )
        if progress is not None:
            progress(operation, clock.monotonic() - start)
        if clock.monotonic() - start + pause > timeout:
            raise OperationTimeout(
                f"Operation {operation.id} is still {operation.state} after {timeout:.0f} s; it goes on in the cloud."
                " Run the same command again later to pick it up.",
                operation_id=operation.id,
                state=operation.state,
            )
        try:
            clock.sleep(pause, cancel)
            fresh = parse(poll(operation.id, max(1.0, timeout - (clock.monotonic() - start))))
            if fresh is not None:
                operation = Operation(operation.id, fresh.state, fresh.result)
                heard, unknown = clock.monotonic(), 0
        except (NotFound, Forbidden) as error:
            unknown, pause = unknown + 1, LONGEST_PAUSE / 2
            if unknown >= UNKNOWN_POLLS:
                if reread is not None:
                    return Operation(operation.id, "SUCCEEDED", reread())
                raise OperationExpired(
                    f"The API no longer knows operation {operation.id} ({error.message.rstrip('.')}); look at the"
                    " object itself.",
                    operation_id=operation.id,
                ) from None
        except Cancelled:
            raise Cancelled(
                f"The run was cancelled while operation {operation.id} was {operation.state}; it goes on in the cloud.",
                operation_id=operation.id,
                state=operation.state,
                answer_lost=True,
            ) from None
        except (TransportError, ServerError, RateLimited) as error:
            # An outage of the API does not end the operation: keep asking for a while.
            if clock.monotonic() - heard > LONGEST_SILENCE:
                raise TransportError(
                    f"Nothing was heard of operation {operation.id} for {LONGEST_SILENCE:.0f} s, last: {error}",
                    answer_lost=True,
                ) from None
        pause = min(max(FIRST_PAUSE, pause * 2), LONGEST_PAUSE)


def failure(operation: Operation) -> OperationFailed:
    """Return the error of a FAILED operation, whatever its result looks like: object, text, or nothing."""
    fields = operation.object
    code, message = clean(fields.get("code")), clean(fields.get("message"))
    if isinstance(operation.result, str):
        message = clean(operation.result)
    said = message or (f"code {code}" if code else "the API gave no reason")
    return OperationFailed(
        f"Operation {operation.id or 'without id'} failed: {said.rstrip('.')}. See to that, or run the same command"
        " again.",
        operation_id=operation.id,
        code=code,
        reason=reason_of(message, code),
    )
