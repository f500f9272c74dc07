"""The pack as a process that the engine starts and ends."""

from __future__ import annotations

from policies import examples
from tests.policy.analyzer import started


def test_what_is_under_way_when_it_is_told_to_end_is_answered() -> None:
    with started() as (process, pack):
        many = [examples.pool(f"p{number}", count=1) for number in range(1000)]
        assert pack.cancel_during(*many)
        assert process.wait(20) == 0
