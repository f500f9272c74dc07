"""Whatever a preview's events hold, there is a report: within the limit, whole as JSON, and never safe by mistake."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Mapping

from hypothesis import given, settings
from hypothesis import strategies as st

from gitops import diagram, markdown, report_json
from gitops.events import OtherFormatError
from gitops.model import Outcome
from tests.unit.gitops.making import (
    DISK,
    POOL,
    UNKNOWN,
    Json,
    diagnostic,
    review,
    secret,
    state,
    step,
    summary,
    violation,
)

KINDS = (POOL, DISK, "crusoe:index:KubernetesCluster", "kubernetes:core/v1:Secret", "shop:index:Part", "", "a:b", "💥")
TEXTS = st.sampled_from(["", "x", "a`b|c<script>\n```\n# x", "é💥" * 40, UNKNOWN, "h100-80gb-sxm-ib.8x", "-1", "\x00"])
VALUES: st.SearchStrategy[object] = st.recursive(
    st.none() | st.booleans() | st.sampled_from([0, -1, 2, 10**18, 1.5]) | TEXTS | st.builds(secret),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(TEXTS, inner, max_size=2),
    max_leaves=4,
)
PROPERTIES = st.dictionaries(
    st.sampled_from(["type", "count", "name", "data", "size", "spec", "a.b/c", "", "[0]"]), VALUES, max_size=4
)
OPS = (
    "create",
    "update",
    "delete",
    "replace",
    "create-replacement",
    "delete-replaced",
    "import",
    "same",
    "read",
    "new-op",
)
PATHS = st.dictionaries(
    st.sampled_from(["type", "count", "data.key", 'spec["a.b"][0]', "", "[", "a[", "..", "spec[9]"]),
    st.sampled_from(["add", "update", "delete", "update-replace", "add-replace", "something"]),
    max_size=3,
)


@st.composite
def steps(draw: st.DrawFn) -> Json:
    kind, name = draw(st.sampled_from(KINDS)), draw(TEXTS)
    old, new = (
        None if draw(st.integers(0, 2)) == 0 else state(kind, name, draw(PROPERTIES), draw(PROPERTIES)) for _ in "ab"
    )
    detailed: Mapping[str, str] | None = draw(st.none() | PATHS)
    return step(draw(st.sampled_from(OPS)), old, new or (None if old else state(kind, name, {})), detailed)


EVENTS = (
    steps()
    | st.builds(diagnostic, TEXTS, st.sampled_from(["error", "warning", "info", "info#err", "?"]))
    | st.builds(violation, TEXTS, st.sampled_from(["mandatory", "advisory", "?"]))
)
BAD_ENDINGS = [summary("failed"), summary("canceled"), diagnostic("it broke"), None]


@settings(max_examples=120)
@given(told=st.lists(EVENTS, max_size=8), ending=st.sampled_from([summary(), *BAD_ENDINGS]), status=st.integers(0, 6))
def test_every_plan_has_a_report(told: list[Json], ending: Json | None, status: int) -> None:
    try:
        seen = review([*told, *([ending] if ending else [])], status)
    except OtherFormatError:
        return
    text = markdown.render(seen.report, more="https://example.com/run/1")
    assert len(text) <= markdown.LIMIT
    assert report_json.load(report_json.dump(seen.report)) == seen.report
    ET.fromstring(diagram.draw("shop", "prod", seen.resources))
    if ending in BAD_ENDINGS or status:
        assert seen.report.verdict.outcome is not Outcome.SAFE
