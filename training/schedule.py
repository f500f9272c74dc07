"""The learning rate as a function of the step, so that a resume can't begin its schedule anew."""

from __future__ import annotations

import math


def learning_rate(step: int, *, peak: float, warmup: int, steps: int) -> float:
    """The rate of a step (from 0): up to `peak` over `warmup` steps, then down to a tenth of it by half a cosine."""
    if step < warmup:
        return peak * (step + 1) / warmup
    done = min((step - warmup) / max(steps - warmup, 1), 1.0)
    return peak * (0.55 + 0.45 * math.cos(math.pi * done))
