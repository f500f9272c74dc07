"""The sums of times that decide whether a checkpoint survives, for this stack and for prod: pure functions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from drill.report import Sum

DEFAULTS: Mapping[str, float] = {
    "killWait": 90,
    "torchrunShutdown": 80,
    "warnedSave": 70,
    "drainBudget": 30,
    "slurmdTimeout": 120,
    "credExpire": 30,
}
"""What `platform.slurm.timing` has where the settings say nothing; a test compares it with the settings' own."""

POD_MARGIN = 30.0
"""What a worker's pod has beyond drain budget and KillWait."""


def sums(stack: str, slurm: Mapping[str, Any]) -> Sequence[Sum]:
    """The sums of a stack's settings of Slurm."""
    given: Mapping[str, Any] = slurm.get("timing") or {}
    value = {name: float(given.get(name, default)) for name, default in DEFAULTS.items()}
    drain = {"drain budget": value["drainBudget"], "KillWait": value["killWait"]}
    return (
        Sum(
            f"{stack}: a warned job has been requeued at the latest after",
            {**drain, "cred_expire": value["credExpire"]},
        ),
        Sum(f"{stack}: a worker's pod is killed at the earliest after", {**drain, "margin": POD_MARGIN}),
        Sum(
            f"{stack}: a silent node's job is back in the queue after about",
            {"SlurmdTimeout": value["slurmdTimeout"], "cred_expire": value["credExpire"]},
        ),
    )
