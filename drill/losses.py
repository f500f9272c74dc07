"""The losses of a run beside those of the undisturbed run: pure functions.

A run's `steps.jsonl` has a line for each step that an attempt took, with the loss as hexadecimal text, so that equal
means equal bit for bit. Steps that a failure took back are there twice, and both have to be right.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Step:
    """One step of one attempt; `loss` is `float.hex()`, `at` seconds since 1970."""

    step: int
    loss: str
    attempt: int
    at: float

    @property
    def value(self) -> float:
        """The loss as a number."""
        return float.fromhex(self.loss)


@dataclass(frozen=True)
class Comparison:
    """A run beside the undisturbed one.

    Attributes:
        band: how far a loss may be off, as a part of it.
        steps: how many the undisturbed run has.
        missing: steps that the run never took.
        beyond: steps that only the run took.
        different: steps of which some attempt's loss is another one.
        repeated: how many steps were taken again.
        lost: by attempt that followed a failure, how many steps it had to take again.
    """

    steps: int
    missing: tuple[int, ...] = ()
    beyond: tuple[int, ...] = ()
    different: tuple[int, ...] = ()
    repeated: int = 0
    lost: tuple[int, ...] = ()
    band: float = 0.0

    @property
    def exact(self) -> bool:
        """Whether every loss is the undisturbed run's, as far as asked, and no step is missing."""
        return self.steps > 0 and not (self.missing or self.beyond or self.different)


def parse(text: str) -> list[Step]:
    """The steps of a `steps.jsonl`; a last line that was cut off by a failure is left out."""
    found: list[Step] = []
    for line in text.splitlines():
        try:
            row = json.loads(line)
            found.append(Step(int(row["step"]), str(row["loss"]), int(row["attempt"]), float(row["time"])))
        except (ValueError, KeyError, TypeError):
            continue
    return found


def compare(reference: Iterable[Step], run: Sequence[Step], band: float = 0.0) -> Comparison:
    """Put a run beside the undisturbed one; `band` is how far a loss may be off, as a part of it: 0 for bit for bit."""
    wanted = {step.step: step for step in reference}
    taken = {step.step for step in run}
    different = {step.step for step in run if step.step in wanted and not _same(wanted[step.step], step, band)}
    return Comparison(
        steps=len(wanted),
        missing=tuple(sorted(wanted.keys() - taken)),
        beyond=tuple(sorted(taken - wanted.keys())),
        different=tuple(sorted(different)),
        repeated=len(run) - len(taken),
        lost=_lost(run),
        band=band,
    )


def _same(wanted: Step, taken: Step, band: float) -> bool:
    return wanted.loss == taken.loss or abs(wanted.value - taken.value) <= band * abs(wanted.value)


def _lost(run: Sequence[Step]) -> tuple[int, ...]:
    """What each attempt but the first had to do again."""
    attempts = sorted({step.attempt for step in run})
    found: list[int] = []
    for attempt in attempts[1:]:
        first = min(step.step for step in run if step.attempt == attempt)
        furthest = max(step.step for step in run if step.attempt < attempt)
        found.append(max(0, furthest + 1 - first))
    return tuple(found)
