"""The columns of the matrix: faults, what each does in each operation, and why some cells are empty."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from tests.provider.faults.kinds import ROWS, Row

Operation = Literal["create", "read", "update", "delete"]
OPERATIONS: tuple[Operation, ...] = ("create", "read", "update", "delete")
SAID = "so says the API in this test"
"""The words that a fault puts into the API's answer; a message has to hand them on."""


@dataclass(frozen=True)
class Fault:
    """One fault.

    Attributes:
        title: in the table.
        kind: of the local cloud; None for what somebody else does.
        options: how it acts.
        says: whether the API's answer has words to hand on.
    """

    title: str
    kind: str | None
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])
    says: bool = True


def _refused(kind: str, title: str, **options: Any) -> Fault:
    return Fault(title, kind, {"message": SAID, **options})


FAULTS = (
    _refused("http-400", "400"),
    _refused("http-401", "401"),
    _refused("http-403", "403"),
    _refused("http-404", "404"),
    _refused("http-409", "409"),
    _refused("http-429", "429, Retry-After", retry_after=7),
    _refused("http-500", "500"),
    _refused("http-503", "503"),
    Fault("500, work done", "http-500-after", {"message": SAID, "times": 1}),
    Fault("connection lost before the work", "drop-before", says=False),
    Fault("connection lost after the work", "drop-after", {"times": 1}, says=False),
    Fault("slow answer", "slow", {"seconds": 0.05, "times": 1}, says=False),
    Fault("operation fails", "fail-operation", {"message": SAID, "times": 1}),
    Fault("operation never ends", "stall-operation", {"times": 1}, says=False),
    Fault("partial capacity", "partial-capacity", {"times": 1}, says=False),
    _refused("quota-400", "quota exhausted"),
    Fault("changed by somebody else", None, says=False),
    Fault("deleted by somebody else", None, says=False),
)


@dataclass(frozen=True)
class Cell:
    """One cell."""

    row: Row
    operation: Operation
    fault: Fault

    @property
    def options(self) -> dict[str, Any]:
        """How the fault acts here: of a new pool's two machines there is one, of the one that an update adds none."""
        found = {"vms": 1 if self.operation == "create" else 0} if self.fault.kind == "partial-capacity" else {}
        return {**self.fault.options, **found}

    @property
    def name(self) -> str:
        """For tests and messages."""
        return f"{self.row.title}, {self.operation}, {self.fault.title}"


def why_not(row: Row, operation: Operation, fault: Fault) -> str | None:
    """Why a cell makes no sense, or None."""
    if operation == "update" and row.changed is None:
        return "the API changes nothing of it: every change replaces it, which is a delete and a create"
    match fault.title:
        case "operation fails" | "operation never ends" if operation not in row.asynchronous:
            return "the API answers it at once, without an operation"
        case "partial capacity" if not row.takes_machines or operation not in ("create", "update"):
            return "it starts no machines"
        case "quota exhausted" if row.quota is None or operation not in ("create", "update"):
            return "it counts against no quota"
        case "changed by somebody else" if operation != "create" and row.by_hand is None:
            return "nobody can change it in place"
        case "changed by somebody else" if operation == "create" and not row.has_name:
            return "it is part of its cluster, so nobody else can make one"
        case "deleted by somebody else" if operation == "create":
            return "there is nothing to delete yet"
        case "deleted by somebody else" if not row.has_name:
            return "it is part of its cluster and can't be deleted alone"
        case _:
            return None


CELLS = tuple(
    Cell(row, operation, fault)
    for operation in OPERATIONS
    for fault in FAULTS
    for row in ROWS
    if why_not(row, operation, fault) is None
)
"""The whole matrix."""


def _few() -> tuple[Cell, ...]:
    """Each fault in each operation once, on a kind for which it makes sense; the kinds take their turns."""
    found: list[Cell] = []
    turn = 0
    for operation in OPERATIONS:
        for fault in FAULTS:
            cells = [cell for cell in CELLS if (cell.operation, cell.fault) == (operation, fault)]
            if cells:
                found.append(cells[turn % len(cells)])
                turn += 5  # No divisor of the number of kinds: none comes twice before all have come.
    return tuple(found)


FEW = _few()
"""A part of it that takes a tenth of the time."""
