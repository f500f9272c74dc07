"""What a rule has to say."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, order=True)
class Finding:
    """One fault: where it is, what is wrong, and what would be right with a concrete value.

    `path` is the setting as the user wrote it (`platform.nodePools.train.type`); `str()` is one line for a message.
    """

    path: str
    problem: str
    fix: str

    def __str__(self) -> str:
        """`platform.nodePools.train.type: unknown VM type 'h100'. Use 'h100-80gb-sxm-ib.8x'.`."""
        return f"{self.path}: {self.problem.rstrip('.')}. {self.fix.rstrip('.')}."
