"""Faults on demand: which requests they meet, and what they do to them.

A fault meets requests by a match such as `POST .../nodepools`: a method (or `*`) and a path, where `...` stands for
anything and `*` for one path segment. It lets the first `after` matching requests pass, then acts on `times` of them
(on all, without a number). Several faults may match one request; the oldest that still acts does.

Kinds that never reach the API: `http-400`, `http-401`, `http-403`, `http-404`, `http-409`, `http-429`, `http-500`,
`http-503`, `capacity-500` (a 500 that speaks of capacity, as an exhausted location answers), `quota-400` (a refusal
that speaks of a quota) and `drop-before` (the connection is cut). Kinds after the work was done:
`http-500-after` and `drop-after`, whose caller can't know what became of the request. `slow` waits `seconds` first.
Kinds that mark the operation which the request starts: `fail-operation`, `stall-operation` (for `seconds`, or until
the faults are cleared) and `partial-capacity` (only `vms` VMs are found, none unless said).
"""

from __future__ import annotations

import json
import re
from contextvars import ContextVar
from dataclasses import asdict, dataclass, field
from typing import Literal, get_args

from localcloud.store import Store

FaultKind = Literal[
    "http-400",
    "http-401",
    "http-403",
    "http-404",
    "http-409",
    "http-429",
    "http-500",
    "http-503",
    "capacity-500",
    "quota-400",
    "http-500-after",
    "slow",
    "drop-before",
    "drop-after",
    "fail-operation",
    "stall-operation",
    "partial-capacity",
]
KINDS: tuple[str, ...] = get_args(FaultKind)
OPERATION_KINDS = frozenset({"fail-operation", "stall-operation", "partial-capacity"})


@dataclass(frozen=True)
class FaultOptions:
    """What a kind may need: seconds to wait, the Retry-After to send, a message, and how many VMs are found."""

    seconds: float | None = None
    retry_after: int | None = None
    message: str | None = None
    vms: int = 0


@dataclass(frozen=True)
class Fault:
    """One fault as it is kept."""

    id: int
    method: str
    path: str
    kind: FaultKind
    skip: int
    remaining: int | None
    fired: int
    options: FaultOptions = field(default_factory=FaultOptions)


# The fault that met the request being handled, for the code that starts its operation.
current: ContextVar[Fault | None] = ContextVar("current_fault", default=None)


def parse_match(match: str) -> tuple[str, str]:
    """`"POST .../nodepools"` as method and path; raises ValueError with what would be right."""
    parts = match.split()
    if len(parts) != 2 or not (parts[0] == "*" or parts[0].isalpha()):
        raise ValueError(f"{match!r} is not METHOD PATH, such as 'POST .../nodepools' or '* .../clusters/*'")
    return parts[0].upper(), parts[1]


def path_matches(pattern: str, path: str) -> bool:
    """Whether a path fits a pattern of `...` (anything) and `*` (one segment)."""
    pieces = re.split(r"(\.\.\.|\*)", pattern)
    wild = {"...": ".*", "*": "[^/]+"}
    return re.fullmatch("".join(wild.get(piece) or re.escape(piece) for piece in pieces), path) is not None


class Faults:
    """The faults of the state file."""

    def __init__(self, store: Store) -> None:
        """Use the state file's table."""
        self._store = store

    def add(
        self,
        match: str,
        kind: FaultKind,
        *,
        times: int | None = None,
        after: int = 0,
        options: FaultOptions | None = None,
    ) -> Fault:
        """Keep a new fault; raises ValueError for a match that can't be read."""
        method, path = parse_match(match)
        options = options or FaultOptions()
        cursor = self._store.connection.execute(
            "INSERT INTO faults (method, path, kind, skip, remaining, options) VALUES (?, ?, ?, ?, ?, ?)",
            (method, path, kind, after, times, json.dumps(asdict(options))),
        )
        return Fault(cursor.lastrowid or 0, method, path, kind, after, times, 0, options)

    def all(self) -> list[Fault]:
        """Every fault, oldest first, spent ones too."""
        rows = self._store.connection.execute("SELECT * FROM faults ORDER BY id")
        return [
            Fault(
                row["id"],
                row["method"],
                row["path"],
                row["kind"],
                row["skip"],
                row["remaining"],
                row["fired"],
                FaultOptions(**json.loads(row["options"])),
            )
            for row in rows
        ]

    def clear(self) -> int:
        """Forget all faults; answers how many there were."""
        return self._store.connection.execute("DELETE FROM faults").rowcount

    def meet(self, method: str, path: str) -> Fault | None:
        """The fault that acts on this request, counted as fired."""
        for fault in self.all():
            if fault.method not in ("*", method) or not path_matches(fault.path, path):
                continue
            if fault.skip > 0:
                self._store.connection.execute("UPDATE faults SET skip = skip - 1 WHERE id = ?", (fault.id,))
                continue
            if fault.remaining == 0:
                continue
            self._store.connection.execute(
                "UPDATE faults SET fired = fired + 1, remaining = remaining - 1 WHERE id = ?", (fault.id,)
            )
            return fault
        return None
