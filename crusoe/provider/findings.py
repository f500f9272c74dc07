"""From the findings of `crusoe.rules` to the engine's check failures."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from crusoe.provider.shapes import Failure

if TYPE_CHECKING:
    from crusoe.rules.finding import Finding

ROOT = "inputs"
"""The path under which rules that build paths from a prefix see a resource's inputs."""


def failures(found: Iterable[Finding]) -> list[Failure]:
    """Return the findings as failures, their paths relative to the inputs."""
    return [
        Failure(
            one.path.removeprefix(f"{ROOT}."),
            f"{one.problem.rstrip('.')}. {one.fix.rstrip('.')}.",
        )
        for one in found
    ]
