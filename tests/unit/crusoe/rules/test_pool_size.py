"""How many nodes a pool has."""

from __future__ import annotations

import pytest

from crusoe.rules import pool_size

BOUNDS = {"autoscaling": {"min": 2, "max": 8}}


def test_bounds_of_a_pool() -> None:
    assert (pool_size.least_nodes({"count": 3}), pool_size.most_nodes({"count": 3})) == (3, 3)
    assert (pool_size.least_nodes(BOUNDS), pool_size.most_nodes(BOUNDS)) == (2, 8)
    assert (pool_size.least_nodes({"count": 3.0}), pool_size.most_nodes({})) == (3, None)


@pytest.mark.parametrize("pool", [{"count": 0}, BOUNDS, {"autoscaling": "wrong"}, {}, None, "text"])
def test_a_size_is_declared_or_somebody_elses_business(pool: object) -> None:
    assert pool_size.declared("p", pool) == []


def test_a_pool_without_a_size() -> None:
    (finding,) = pool_size.declared("p", {"type": "c1a.8x"})
    assert (finding.path, finding.fix) == ("p.count", "Write 2")


@pytest.mark.parametrize(
    ("spares", "pool"), [(0, {"count": 0}), (1, {"count": 2}), (1, BOUNDS), (None, {}), ("1", {"count": 1}), (3, {})]
)
def test_spares_that_leave_something(spares: object, pool: object) -> None:
    assert pool_size.reserve("p", spares, pool) == []


@pytest.mark.parametrize(
    ("spares", "pool", "fix"),
    [
        (2, {"count": 2}, "Write 1, or ask for at least 3 nodes"),
        (2, BOUNDS, "Write 1, or ask for at least 3 nodes"),
        (1, {"count": 0}, "Write 0, or ask for at least 2 nodes"),
        (-1, {"count": 2}, "Write 0 for no spares"),
    ],
)
def test_spares_that_leave_nothing(spares: object, pool: object, fix: str) -> None:
    (finding,) = pool_size.reserve("p", spares, pool)
    assert finding.fix == fix
