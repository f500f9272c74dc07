"""Whatever a program declares, the pack answers in words: no rule stumbles over a value of a kind it did not expect."""

from __future__ import annotations

import copy
from typing import Any, cast

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from policies.pack import BY_NAME, POLICIES
from tests.policy.analyzer import UNKNOWN, Pack, secret

JUNK: st.SearchStrategy[object] = (
    st.none()
    | st.booleans()
    | st.sampled_from([0, -1, 8, 1e308, 0.5])
    | st.sampled_from(
        ["", "x", "é\n\x00", "h100-80gb-sxm-ib.8x", "0.0.0.0/0", "1.33.4-cmk.43", "OFF", UNKNOWN, "9" * 400]
    )
    | st.builds(list[object])
    | st.builds(dict[str, object])
    | st.builds(lambda: [None, [list[object]()], {"a": [UNKNOWN]}])
    | st.sampled_from([secret("s"), secret({"a": 1})])
)
PROGRAMS = [copy.deepcopy(example) for policy in POLICIES for example in (policy.good, policy.bad)]


def first(value: object) -> dict[str, Any]:
    """The object that a value is, or that its first entry is."""
    if isinstance(value, list):
        return first(next(iter(cast("list[object]", value)), None))
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


@st.composite
def programs(draw: st.DrawFn) -> list[dict[str, Any]]:
    """The resources of some policy's example, with a few values replaced, taken out or added."""
    resources: list[Any] = [copy.deepcopy(dict(each)) for each in draw(st.sampled_from(PROGRAMS)).resources]
    for _ in range(draw(st.integers(1, 4))):
        inside: dict[str, Any] = draw(st.sampled_from(resources)).setdefault("properties", {})
        while True:
            key = draw(st.sampled_from([*inside, "extra"]))
            deeper = first(inside.get(key))
            if not deeper or draw(st.booleans()):
                inside[key] = copy.deepcopy(draw(JUNK))
                break
            inside = deeper
    return resources


@settings(max_examples=120, deadline=None, database=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(program=programs(), stack=st.sampled_from(["dev", "prod"]))
def test_every_program_is_judged(pack: Pack, program: list[dict[str, Any]], stack: str) -> None:
    for said in pack.judge(*program, stack=stack):
        assert said.policy in BY_NAME
        assert said.text.strip()
        assert "Traceback" not in said.text
