"""How far a job is, in the job's own Comment in Slurm: `training[attempt=1 step=340 saved=320 ...]`.

Whoever may see the job reads it there, such as the platform's exporter or a person with `squeue -o %k`, without a look
into anybody's files. What the user has written into the Comment stays.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

_NOTE = re.compile(r"\s*training\[([^\]]*)\]")


@dataclass(frozen=True)
class Progress:
    """What a job tells. Moments are seconds since 1970, and 0 is none.

    Attributes:
        attempt: restarts of the Slurm job so far.
        step, steps: the last step that was taken, and those in all.
        saved, saved_at: step of the newest whole checkpoint, and when it was one; -1 for none.
        save_every: seconds between the two newest checkpoints of this attempt.
        useful: seconds that went into steps that count: those whose result is still there. A step taken again counts
            once; a save between two steps counts to the second.
        allocated: seconds that Slurm gave the job its nodes, over all attempts.
        own: how often the batch script put the job back into the queue because it had crashed.
        lost: steps that were taken again, over all attempts.
        stopped_at, stopped: when the last step before this attempt was taken, and which it was.
        resumed_at, resumed: when this attempt had loaded its checkpoint, and of which step.
        first_at: when the first step of this attempt was taken.
    """

    attempt: int = 0
    step: int = 0
    steps: int = 0
    saved: int = -1
    saved_at: float = 0.0
    save_every: float = 0.0
    useful: float = 0.0
    allocated: float = 0.0
    own: int = 0
    lost: int = 0
    stopped_at: float = 0.0
    stopped: int = 0
    resumed_at: float = 0.0
    resumed: int = 0
    first_at: float = 0.0


_NONE = Progress()
_KINDS: Mapping[str, type[int] | type[float]] = {
    each.name: float if isinstance(getattr(_NONE, each.name), float) else int for each in fields(Progress)
}


def read(comment: str) -> Progress | None:
    """The progress in a Comment; None where there is none, or not what `write` wrote: anybody may write a Comment."""
    found = _NOTE.search(comment)
    if found is None:
        return None
    pairs = (word.partition("=") for word in found[1].split())
    try:
        given: dict[str, Any] = {key: _KINDS[key](value) for key, _, value in pairs}
        possible = all(math.isfinite(value) and value >= getattr(_NONE, key) for key, value in given.items())
    except (KeyError, ValueError, OverflowError):
        return None
    return Progress(**given) if possible else None


def write(comment: str, progress: Progress) -> str:
    """The Comment with this progress in place of that which it has; what is as in `Progress()` is left out."""
    said = ((name, getattr(progress, name)) for name in _KINDS)
    words = (
        f"{name}={value:.3f}".rstrip("0").rstrip(".") if isinstance(value, float) else f"{name}={value}"
        for name, value in said
        if value != getattr(_NONE, name)
    )
    return " ".join(part for part in (_NOTE.sub("", comment).strip(), f"training[{' '.join(words)}]") if part)
