"""Which samples a rank gets in a step, and seeds: functions of (seed, step, rank), so that nothing of it is saved.

The order is one stream of samples, epoch after epoch, each epoch in an order of its own. A global batch is the next
piece of that stream: it may reach into the next epoch, every sample comes once in each epoch whatever the number of
ranks, and another number of ranks gets the same batches.
"""

from __future__ import annotations

import hashlib
import random
from functools import lru_cache


def seed_of(*parts: int | str) -> int:
    """A seed of 63 bits from parts such as (seed, "dropout", step, rank)."""
    text = "/".join(map(str, parts))
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest()) >> 1


@lru_cache(maxsize=2)
def order(seed: int, epoch: int, samples: int) -> tuple[int, ...]:
    """The order of all samples in an epoch."""
    shuffled = list(range(samples))
    random.Random(seed_of(seed, "order", epoch)).shuffle(shuffled)  # noqa: S311 - no secret, and to be repeated
    return tuple(shuffled)


def batch(seed: int, step: int, size: int, samples: int) -> list[int]:
    """The `size` samples of the global batch of a step (from 0)."""
    places = range(step * size, (step + 1) * size)
    return [order(seed, place // samples, samples)[place % samples] for place in places]


def share(batch: list[int], rank: int, ranks: int) -> list[int]:
    """A rank's part of a global batch; parts differ by one sample at most."""
    return batch[rank::ranks]
