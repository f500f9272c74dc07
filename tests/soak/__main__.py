"""Plays many rounds and writes what came of them into docs/reliability.md: `make soak` (N=200, SEED=1)."""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

from tests import pages
from tests.rest_cloud import rest_cloud
from tests.soak.report import COMMAND, summary
from tests.soak.rounds import OPERATION_SECONDS, Stack, Told


def main(number: int, first: int) -> int:
    """Play rounds up to the first that does not hold; the whole number's result is published, a smaller one's shown."""
    played: list[Told] = []
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="soak-") as folder, rest_cloud(Path(folder), OPERATION_SECONDS) as cloud:
        stack = Stack(Path(folder), cloud)
        for seed in range(first, first + number):
            try:
                told = stack.play(seed - first, seed)
            except AssertionError as error:
                print(f"seed {seed} (round {seed - first + 1} from seed {first}): {error}", flush=True)
                return 1
            played.append(told)
            print(f"{len(played)} of {number}: {told.line}", flush=True)
    text = summary(played, first)
    print(f"\n{text}\n{time.monotonic() - began:.0f} s in all")
    if number >= 200:
        pages.write(COMMAND, text)
    return 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2])))
