"""What failures cost a job, and how often it should save: pure functions. Times in seconds."""

from __future__ import annotations

import math
from dataclasses import dataclass

HOURS = 3600.0

MTBF_HOURS = {8: 47 * 24.0, 1024: 8.0, 16384: 1.8}
"""Hours from one failure to the next by the number of GPUs.

Crusoe's blog on AutoClusters, which takes them from Meta's study of its clusters. Between them the logarithms are taken
to lie on a straight line, beyond them each GPU to fail as often as at the nearest one.
"""

RESTART = 180.0
"""From a failure to the next step: detection, requeue, start, load. An assumption; a drill measures yours."""


@dataclass(frozen=True)
class Cost:
    """What failures cost at an interval of `interval` seconds, and the interval at which they and the saves cost least.

    `each` is the work of all ranks that one failure loses, in seconds of the run; `daily` that of a day's failures;
    `saving` the part of the time that goes into saves. `best` is Young's and Daly's interval.
    """

    mtbf: float
    each: float
    daily: float
    saving: float
    best: float


def mtbf(gpus: int) -> float:
    """The expected time from one failure of a job to the next."""
    sizes = sorted(MTBF_HOURS)
    if gpus <= sizes[0]:
        return MTBF_HOURS[sizes[0]] * sizes[0] / max(gpus, 1) * HOURS
    if gpus >= sizes[-1]:
        return MTBF_HOURS[sizes[-1]] * sizes[-1] / gpus * HOURS
    below = max(size for size in sizes if size <= gpus)
    above = min(size for size in sizes if size > gpus)
    part = math.log(gpus / below) / math.log(above / below)
    return math.exp(math.log(MTBF_HOURS[below]) * (1 - part) + math.log(MTBF_HOURS[above]) * part) * HOURS


def cost(gpus: int, interval: float, save: float, failures: float | None = None) -> Cost:
    """The cost of failures of a job on so many GPUs that saves every `interval`, which takes it `save`.

    `failures` is the expected time between failures where one knows it better. A failure loses half an interval on
    average, and the restart. The best interval is the square root of 2 x save x time between failures (Young 1974;
    Daly's refinement is below a save's length here).
    """
    between = failures or mtbf(gpus)
    each = interval / 2 + RESTART
    return Cost(between, each, each * 24 * HOURS / between, save / (interval + save), math.sqrt(2 * save * between))
