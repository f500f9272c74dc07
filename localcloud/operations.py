"""Asynchronous operations: kept in the state file, carried out in the background, resumed after a restart.

One kind of operation is one `Work`. Its `act` does what takes long (control planes, nodes) and may run twice, since the
process may be killed at any point of it; its `settle` runs in the transaction that closes the operation as SUCCEEDED,
and its `undo` in the one that closes it as FAILED. So an object and its operation always agree in the file, an
interrupted operation is continued from the start of its `act`, and a failed create leaves no object behind.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import time
import uuid
from collections.abc import Awaitable, Callable, Mapping
from contextvars import Context
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from localcloud import faults
from localcloud.clock import rfc3339
from localcloud.control_plane import ControlPlaneError
from localcloud.store import Json, Value

if TYPE_CHECKING:
    import sqlite3

    from localcloud.cloud import Cloud

_LOG = logging.getLogger(__name__)
_KEPT_SECONDS = 24 * 3600.0
_FOREVER_SECONDS = 10 * 365 * 86400.0
_LONGEST_NAP_SECONDS = 3600.0
IN_PROGRESS, SUCCEEDED, FAILED = "IN_PROGRESS", "SUCCEEDED", "FAILED"


class OperationFailedError(Exception):
    """Ends an operation as FAILED with this code and message."""

    def __init__(self, message: str, code: str = "failed_precondition") -> None:
        """Keep code and message."""
        super().__init__(message)
        self.code = code
        self.message = message


@dataclass(frozen=True)
class OperationFault:
    """What a fault does to an operation: end it with a message, or hold it until a time of the machine's clock."""

    fail: str | None = None
    stall_until: float | None = None


@dataclass(frozen=True)
class Operation:
    """One operation. Times are seconds of the cloud's clock, but `due_at` is the machine's, which nobody moves."""

    id: str
    family: str
    work: str
    project_id: str
    resource_id: str
    state: str
    payload: Json
    fault: OperationFault
    result: Any
    metadata: Json
    due_at: float
    started_at: float
    completed_at: float | None

    def view(self) -> Json:
        """The operation as the API answers it."""
        return {
            "operation_id": self.id,
            "state": self.state,
            "metadata": self.metadata,
            "result": self.result,
            "started_at": rfc3339(self.started_at),
            "completed_at": "" if self.completed_at is None else rfc3339(self.completed_at),
        }


async def _nothing(_cloud: Cloud, _operation: Operation) -> None:
    pass


def _no_result(_cloud: Cloud, _operation: Operation) -> Json | None:
    return None


def _keep(_cloud: Cloud, _operation: Operation, _failure: OperationFailedError) -> None:
    pass


@dataclass(frozen=True)
class Work:
    """How one kind of operation is carried out; see the module's text."""

    act: Callable[[Cloud, Operation], Awaitable[None]] = _nothing
    settle: Callable[[Cloud, Operation], Json | None] = _no_result
    undo: Callable[[Cloud, Operation, OperationFailedError], None] = _keep
    uses_control_plane: bool = False


@dataclass
class Operations:
    """Opens, runs and reads operations."""

    cloud: Cloud
    works: Mapping[str, Work]
    _tasks: dict[str, asyncio.Task[None]] = field(default_factory=dict[str, "asyncio.Task[None]"])
    _released: asyncio.Event = field(default_factory=asyncio.Event)

    def open(
        self,
        family: str,
        work: str,
        project_id: str,
        resource_id: str,
        payload: Json | None = None,
        *,
        metadata: Json | None = None,
    ) -> Operation:
        """Write a new operation, inside the caller's transaction. `launch` sets it going afterwards."""
        operation = Operation(
            id=str(uuid.uuid4()),
            family=family,
            work=work,
            project_id=project_id,
            resource_id=resource_id,
            state=IN_PROGRESS,
            payload=payload or {},
            fault=_fault_of(faults.current.get()),
            result=None,
            metadata=metadata or {},
            due_at=time.time() + self.cloud.operation_seconds,
            started_at=self.cloud.clock.now(),
            completed_at=None,
        )
        row = asdict(operation)
        row |= {key: json.dumps(row[key]) for key in ("payload", "fault", "metadata")}
        self.cloud.store.connection.execute(
            "INSERT INTO operations"
            " (id, family, work, project_id, resource_id, state, payload, fault, metadata, due_at, started_at)"
            " VALUES (:id, :family, :work, :project_id, :resource_id, :state, :payload, :fault, :metadata, :due_at,"
            " :started_at)",
            row,
        )
        return operation

    async def launch(self, operation: Operation) -> Json:
        """Start a written operation and answer `{"operation": ...}`.

        With operations that take no time, one that need not wait for a control plane is finished in this answer.
        """
        work = self.works[operation.work]
        quick = not work.uses_control_plane or self.cloud.planes.instant
        task = self._start(operation)
        if self.cloud.operation_seconds == 0 and quick and operation.fault.stall_until is None:
            await asyncio.shield(task)
            operation = self.get(operation.id) or operation
        return {"operation": operation.view()}

    def open_later(
        self, family: str, work: str, project_id: str, resource_id: str, payload: Json | None = None
    ) -> None:
        """Write a new operation that nobody waits for; it starts once the caller's transaction is over."""
        operation = self.open(family, work, project_id, resource_id, payload)
        asyncio.get_running_loop().call_soon(self._start, operation)

    def resume(self) -> int:
        """Continue every operation that was in progress when the process ended; answers how many."""
        self.cloud.store.connection.execute(
            "DELETE FROM operations WHERE completed_at < ?", (self.cloud.clock.now() - _KEPT_SECONDS,)
        )
        waiting = self._select("state = 'IN_PROGRESS'")
        for operation in waiting:
            self._start(operation)
        return len(waiting)

    def release(self) -> None:
        """Let every stalled operation go on."""
        with self.cloud.store.transaction():
            self.cloud.store.connection.execute(
                "UPDATE operations SET fault = json_set(fault, '$.stall_until', NULL) WHERE state = 'IN_PROGRESS'"
            )
        self._released.set()
        self._released = asyncio.Event()

    async def stop(self) -> None:
        """End the background tasks; what they were doing is continued at the next start."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def get(self, identifier: str) -> Operation | None:
        """One operation by id."""
        found = self._select("id = ?", identifier)
        return found[0] if found else None

    def list(
        self, family: str, project_id: str, *, resource_id: str | None = None, state: str | None = None
    ) -> list[Operation]:
        """Operations of a family and project, oldest first."""
        return self._select(
            "family = ? AND project_id = ? AND coalesce(resource_id = ?, 1) AND coalesce(state = ?, 1)",
            family,
            project_id,
            resource_id,
            state,
        )

    def in_progress(self, resource_id: str) -> Operation | None:
        """The operation that is working on an object, if any."""
        found = self._select("resource_id = ? AND state = 'IN_PROGRESS'", resource_id)
        return found[0] if found else None

    def _select(self, where: str, *values: Value) -> list[Operation]:
        # `where` is written in this module; values are always bound, so S608 doesn't apply.
        rows = self.cloud.store.connection.execute(
            f"SELECT * FROM operations WHERE {where} ORDER BY seq",  # noqa: S608
            values,
        )
        return [_read(row) for row in rows]

    def _start(self, operation: Operation) -> asyncio.Task[None]:
        # A context of its own: the fault that met the request must not meet what the operation itself starts.
        task = asyncio.create_task(self._run(operation), name=f"operation {operation.id}", context=Context())
        self._tasks[operation.id] = task
        task.add_done_callback(lambda _: self._tasks.pop(operation.id, None))
        return task

    async def _run(self, operation: Operation) -> None:
        await asyncio.sleep(max(0.0, operation.due_at - time.time()))
        await self._wait_while_stalled(operation)
        work = self.works[operation.work]
        try:
            _fail_on_demand(operation)
            await work.act(self.cloud, operation)
            with self.cloud.store.transaction():
                self._close(operation, SUCCEEDED, work.settle(self.cloud, operation))
        except OperationFailedError as failure:
            self._fail(operation, failure)
        except ControlPlaneError as error:
            self._fail(operation, OperationFailedError(str(error), "internal_error"))
        except Exception:  # noqa: BLE001  whatever breaks, the operation must end and its caller be told
            _LOG.exception("operation %s (%s) broke", operation.id, operation.work)
            self._fail(operation, OperationFailedError("an internal error ended the operation", "internal_error"))

    async def _wait_while_stalled(self, operation: Operation) -> None:
        while (current := self.get(operation.id)) and (until := current.fault.stall_until):
            if (remaining := until - time.time()) <= 0:
                return
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._released.wait(), min(remaining, _LONGEST_NAP_SECONDS))

    def _fail(self, operation: Operation, failure: OperationFailedError) -> None:
        with self.cloud.store.transaction():
            self.works[operation.work].undo(self.cloud, operation, failure)
            self._close(operation, FAILED, {"code": failure.code, "message": failure.message})
        self.cloud.journal.record(
            "operation.failed", operation.resource_id, work=operation.work, message=failure.message
        )

    def _close(self, operation: Operation, state: str, result: Value) -> None:
        self.cloud.store.connection.execute(
            "UPDATE operations SET state = ?, result = ?, completed_at = ? WHERE id = ?",
            (state, json.dumps(result), self.cloud.clock.now(), operation.id),
        )


def _fail_on_demand(operation: Operation) -> None:
    if operation.fault.fail is not None:
        raise OperationFailedError(operation.fault.fail, "internal_error")


def _fault_of(fault: faults.Fault | None) -> OperationFault:
    if fault is None:
        return OperationFault()
    if fault.kind == "fail-operation":
        return OperationFault(fail=fault.options.message or "the operation failed")
    if fault.kind == "stall-operation":
        return OperationFault(stall_until=time.time() + (fault.options.seconds or _FOREVER_SECONDS))
    return OperationFault()


def _read(row: sqlite3.Row) -> Operation:
    fault = json.loads(row["fault"])
    return Operation(
        id=row["id"],
        family=row["family"],
        work=row["work"],
        project_id=row["project_id"],
        resource_id=row["resource_id"],
        state=row["state"],
        payload=json.loads(row["payload"]),
        fault=OperationFault(fault["fail"], fault["stall_until"]),
        result=None if row["result"] is None else json.loads(row["result"]),
        metadata=json.loads(row["metadata"]),
        due_at=row["due_at"],
        started_at=row["started_at"],
        completed_at=row["completed_at"],
    )
