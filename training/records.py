"""What a run writes down, as JSON lines in its folder.

`steps.jsonl` has one line for each step, by rank 0: `step` (from 1), `loss` (of the global batch, as a hex float),
`attempt`, `round`, `time`. `events.jsonl` has rank 0's events, `events.<writer>.jsonl` those of other ranks, of each
node's launcher and of the batch script: several nodes can't append to one file of a network file system without loss.
An event has `event`, `time` (s since 1970), `attempt` (restarts of the Slurm job so far), `round` (restarts by torchrun
within it), `node`, `rank` (null for a launcher and the batch script) and its own facts. Lines are whole, except for the
last one of a node that lost its power.
"""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

STEPS = "steps.jsonl"


class Records:
    """Appends to the files of one run.

    `writer` is what stands in the file's name: None for rank 0, else such as `rank3`, `launch-gpu-1`, `job`.
    """

    def __init__(
        self,
        folder: Path,
        environ: Mapping[str, str],
        *,
        rank: int | None = None,
        writer: str | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._folder = folder
        self._events = f"events.{writer}.jsonl" if writer else "events.jsonl"
        self._clock = clock
        self.attempt = int(environ.get("SLURM_RESTART_COUNT") or 0)
        self.round = int(environ.get("TORCHELASTIC_RESTART_COUNT") or 0)
        self._who = {"rank": rank, "node": environ.get("SLURMD_NODENAME") or socket.gethostname()}
        folder.mkdir(parents=True, exist_ok=True)

    def event(self, event: str, **facts: object) -> None:
        """Write down an event."""
        self._append(self._events, {"event": event, **self._about(), **self._who, **facts})

    def step(self, step: int, loss: float) -> None:
        """Write down a step that is done."""
        self._append(STEPS, {"step": step, "loss": loss.hex(), **self._about()})

    def _about(self) -> dict[str, Any]:
        return {"time": round(self._clock(), 3), "attempt": self.attempt, "round": self.round}

    def _append(self, name: str, record: Mapping[str, Any]) -> None:
        file = os.open(self._folder / name, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        try:
            os.write(file, f"{json.dumps(record)}\n".encode())
        finally:
            os.close(file)


def read(path: Path) -> Iterator[dict[str, Any]]:
    """The records of one file in order; none where it is missing. A torn line is left out."""
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return
    for line in text.splitlines():
        try:
            record = json.loads(line)
        except ValueError:
            continue
        if isinstance(record, dict):
            yield record


def steps(folder: Path) -> list[dict[str, Any]]:
    """The steps of a run in the order in which they were done; one that was done again is there twice."""
    return list(read(folder / STEPS))


def events(folder: Path) -> list[dict[str, Any]]:
    """The events of all writers by time."""
    found = [record for path in sorted(folder.glob("events*.jsonl")) for record in read(path)]
    return sorted(found, key=lambda record: record["time"])
