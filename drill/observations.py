"""What was observed, by whom, and when: the one thing that stages, verdict and report are made of."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

Source = Literal["drill", "job", "webhook", "kubernetes", "api", "slurm"]
"""Who said it: this program's own deeds, the job's run folder, the notices that AutoClusters sent, the cluster's API
server, Crusoe's REST API, Slurm."""


@dataclass(frozen=True)
class Observation:
    """One thing that one system said.

    Attributes:
        at: seconds since 1970; the record's own time where it has one with fractions, else when it was seen.
        kind: what it is about, such as `node` or `step`.
        what: its values.
    """

    at: float
    source: Source
    kind: str
    what: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def line(self) -> str:
        """The observation as one line of JSON."""
        return json.dumps({"at": self.at, "source": self.source, "kind": self.kind, "what": self.what})


def write(path: Path, observations: Iterable[Observation]) -> None:
    """Keep observations, one a line."""
    path.write_text("".join(f"{each.line()}\n" for each in observations), encoding="utf-8")


def read(path: Path) -> list[Observation]:
    """The observations of a file that `write` wrote. Raises OSError or ValueError."""
    rows = (json.loads(line) for line in path.read_text(encoding="utf-8").splitlines())
    return [Observation(row["at"], row["source"], row["kind"], row["what"]) for row in rows]
