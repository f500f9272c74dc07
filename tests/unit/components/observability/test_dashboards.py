"""The dashboards: whole panels, queries that Prometheus can read and that ask for what is there, Grafana's schema."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from components.observability.dashboards import DASHBOARDS
from components.observability.monitors import dashboard_objects
from components.observability.panels import Dashboard, model, written
from tests.unit.components.observability.promtool import run
from tests.unit.components.observability.queries import faults, labels

NAMES = [each.name for each in DASHBOARDS]
QUERIES = [(each.name, panel.title, query) for each in DASHBOARDS for panel in each.panels for query in panel.queries]


def test_the_five_are_there() -> None:
    assert NAMES == ["overview", "training", "sharing", "repairs", "network"]


@pytest.mark.parametrize("dashboard", DASHBOARDS, ids=NAMES)
def test_each_panel_is_whole(dashboard: Dashboard) -> None:
    titles = [panel.title for panel in dashboard.panels]
    assert len(set(titles)) == len(titles)
    for panel in dashboard.panels:
        assert panel.title
        assert panel.description.endswith(".")
        assert panel.unit
        assert panel.queries
        assert len(panel.queries) == 1 or all(query.legend for query in panel.queries), panel.title


@pytest.mark.parametrize("dashboard", DASHBOARDS, ids=NAMES)
def test_panels_lie_beside_and_below_each_other(dashboard: Dashboard) -> None:
    taken: set[tuple[int, int]] = set()
    for panel in model(dashboard)["panels"]:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken, panel["title"]
        assert max(x for x, _ in cells) < 24
        taken |= cells


def test_each_query_asks_for_what_somebody_exports() -> None:
    asked = {**{f"{name}: {title}: {query.expr}": query.expr for name, title, query in QUERIES}}
    asked |= {annotation["expr"]: annotation["expr"] for annotation in model(DASHBOARDS[0])["annotations"]["list"]}
    assert {place: found for place, expr in asked.items() if (found := [*faults(expr)])} == {}


def test_each_legend_names_labels_that_its_query_keeps() -> None:
    for name, title, query in QUERIES:
        named = set(re.findall(r"{{(\w+)}}", query.legend))
        if " by (" in query.expr:
            assert named <= labels(query.expr), (name, title)


def test_prometheus_can_read_each_query(tmp_path: Path) -> None:
    rules = [{"record": f"query:{number}", "expr": query.expr} for number, (_, _, query) in enumerate(QUERIES)]
    path = tmp_path / "queries.yaml"
    path.write_text(json.dumps({"groups": [{"name": "queries", "rules": rules}]}))
    checked = run("check", "rules", path)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert f"{len(QUERIES)} rules found" in checked.stdout


@pytest.mark.parametrize("dashboard", DASHBOARDS, ids=NAMES)
def test_grafanas_own_schema_reads_it_whole(dashboard: Dashboard) -> None:
    sdk = pytest.importorskip("grafana_foundation_sdk.models.dashboard", reason="python -m pip install -e '.[dev]'")
    cogs: list[str] = []
    plain: dict[str, Any] = json.loads(written(dashboard))
    read = sdk.Dashboard.from_json(plain)
    assert (read.uid, read.title, read.schema_version) == (plain["uid"], plain["title"], plain["schemaVersion"])
    for given, panel in zip(plain["panels"], read.panels, strict=True):
        assert panel.type_val == given["type"]
        assert panel.grid_pos.w == given["gridPos"]["w"]
        assert panel.field_config.defaults.unit == given["fieldConfig"]["defaults"]["unit"]
        cogs.append(panel.title)
    assert len(cogs) == len(dashboard.panels)


def test_grafanas_sidecar_finds_them() -> None:
    found = dashboard_objects({each.name: written(each) for each in DASHBOARDS})
    assert [each["metadata"]["name"] for each in found] == [f"dashboard-{name}" for name in NAMES]
    for each in found:
        assert each["metadata"]["labels"] == {"grafana_dashboard": "1"}
        assert len(json.dumps(each)) < 200_000, "an apply keeps a copy in an annotation of 256 kB at most"
