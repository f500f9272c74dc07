"""What is measured of a recovery. The drill measures by the same definitions (`drill/report.py`).

A figure is the time from one moment to another. The moments are those of the drill's stages (`drill/stages.py`):
`fault`, the machine fails; `told`, AutoClusters has seen it; `isolated`, the node is marked and cordoned; `drained`,
Slurm gives it no more jobs; `requeued`, the job is back in the queue; `replaced`, AutoClusters' history has the
replacement; `stepping`, the first step after the failure was taken.
"""

from collections.abc import Mapping
from typing import Literal

Moment = Literal["fault", "told", "isolated", "drained", "requeued", "replaced", "stepping"]

FIGURES: Mapping[str, tuple[Moment, Moment]] = {
    "detect": ("fault", "told"),
    "notify": ("told", "isolated"),
    "drain": ("isolated", "drained"),
    "requeue": ("drained", "requeued"),
    "replace": ("isolated", "replaced"),
    "resume": ("requeued", "stepping"),
    "total": ("fault", "stepping"),
}
"""Each figure's first and last moment."""

RECORD_SECONDS = 1.0
"""How far two records may be in the wrong order: most count whole seconds."""


def figures(moments: Mapping[Moment, float]) -> dict[str, float]:
    """Seconds of each figure whose moments are known; `moments` in seconds since 1970.

    A figure that would be negative is none: its moments belong to different events, such as the last step of a job that
    went on after its node's fault was seen.
    """
    found: dict[str, float] = {}
    for name, (first, last) in FIGURES.items():
        if first in moments and last in moments and moments[last] - moments[first] >= -RECORD_SECONDS:
            found[name] = max(0.0, moments[last] - moments[first])
    return found
