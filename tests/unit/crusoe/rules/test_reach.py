"""How nodes reach the world."""

from __future__ import annotations

import pytest

from crusoe.rules import reach

HIDDEN, OPEN = {"publicIpType": "none"}, {"publicIpType": "dynamic"}


@pytest.mark.parametrize(
    ("nat", "pools"), [(True, {"a": HIDDEN}), (False, {"a": OPEN}), (None, {"a": HIDDEN}), (False, {}), (False, None)]
)
def test_there_is_a_way_out(nat: object, pools: object) -> None:
    assert reach.way_out("net.nat", nat, "pools", pools) == []


def test_there_is_none() -> None:
    (finding,) = reach.way_out("net.nat", False, "pools", {"a": OPEN, "b": HIDDEN, "c": HIDDEN})
    assert finding.path == "net.nat"
    assert "pools.b" in finding.problem
    assert "true" in finding.fix
