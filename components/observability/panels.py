"""Dashboards as values, and Grafana's JSON of them. Pure functions.

Written for Grafana's dashboard schema (version 41, Grafana 12). Each panel has a title, a unit and a description, and
asks Prometheus only.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

Kind = Literal["stat", "timeseries", "table", "state-timeline"]
Unit = Literal["short", "s", "percent", "percentunit", "Bps", "celsius", "watt", "dateTimeFromNow", "none"]

SCHEMA_VERSION = 41
_COLUMNS = 24
_SOURCE = {"type": "prometheus", "uid": "${datasource}"}
_HEIGHTS: dict[Kind, int] = {"stat": 4, "timeseries": 8, "table": 8, "state-timeline": 8}


@dataclass(frozen=True)
class Query:
    """A query, and the legend of its series in Grafana's template."""

    expr: str
    legend: str = ""


@dataclass(frozen=True)
class Panel:
    """One panel.

    Attributes:
        width: of 24 columns.
        quiet: what it says where there is nothing to show, if that is as it should be; it has to hold too where the
            source is silent, which is the alerts' business.
    """

    title: str
    description: str
    kind: Kind
    unit: Unit
    queries: Sequence[Query]
    width: int = 12
    quiet: str = ""

    @property
    def height(self) -> int:
        """In Grafana's rows."""
        return _HEIGHTS[self.kind]


@dataclass(frozen=True)
class Dashboard:
    """One dashboard: panels, in lines as they fit."""

    name: str
    title: str
    description: str
    panels: Sequence[Panel]


def written(dashboard: Dashboard) -> str:
    """The dashboard as Grafana reads it."""
    return json.dumps(model(dashboard), indent=1, ensure_ascii=False) + "\n"


def model(dashboard: Dashboard) -> dict[str, Any]:
    """The dashboard in Grafana's schema."""
    variable = {"name": "datasource", "type": "datasource", "label": "Prometheus", "query": "prometheus", "hide": 0}
    placed = zip(dashboard.panels, _places(dashboard.panels), strict=True)
    return {
        "uid": f"gpuplatform-{dashboard.name}",
        "title": dashboard.title,
        "description": dashboard.description,
        "tags": ["gpuplatform"],
        "schemaVersion": SCHEMA_VERSION,
        "editable": False,
        "timezone": "browser",
        "refresh": "30s",
        "time": {"from": "now-6h", "to": "now"},
        "templating": {"list": [variable]},
        "annotations": {"list": [_REPAIRS]},
        "links": [
            {
                "title": "GPU platform",
                "type": "dashboards",
                "tags": ["gpuplatform"],
                "asDropdown": True,
                "includeVars": True,
                "keepTime": True,
            }
        ],
        "panels": [_panel(number, panel, place) for number, (panel, place) in enumerate(placed, start=1)],
    }


_REPAIRS = {
    "name": "Repairs",
    "datasource": _SOURCE,
    "enable": True,
    "iconColor": "orange",
    "expr": "max by (node, issue) (gpuplatform_repair_start_timestamp_seconds) * 1000",
    "titleFormat": "Repair of {{node}}: {{issue}}",
    "useValueForTime": "on",
}
"""The beginning of each repair, on every graph."""


def _places(panels: Sequence[Panel]) -> Iterator[dict[str, int]]:
    """Left to right, then below the highest of the line."""
    x = y = line = 0
    for panel in panels:
        if x + panel.width > _COLUMNS:
            x, y, line = 0, y + line, 0
        yield {"x": x, "y": y, "w": panel.width, "h": panel.height}
        x, line = x + panel.width, max(line, panel.height)


def _panel(number: int, panel: Panel, place: dict[str, int]) -> dict[str, Any]:
    defaults: dict[str, Any] = {"unit": panel.unit}
    if panel.kind == "stat" or panel.quiet:
        # A series that is not there is no zero.
        defaults["noValue"] = panel.quiet or "no data"
    found: dict[str, Any] = {
        "id": number,
        "type": panel.kind,
        "title": panel.title,
        "description": panel.description,
        "gridPos": place,
        "datasource": _SOURCE,
        "fieldConfig": {"defaults": defaults, "overrides": []},
        "targets": [_target(number, each, panel.kind) for number, each in enumerate(panel.queries)],
        "options": _OPTIONS[panel.kind],
    }
    if panel.kind == "table":
        found["transformations"] = [{"id": "merge", "options": {}}]
    return found


_OPTIONS: dict[Kind, dict[str, Any]] = {
    "stat": {"reduceOptions": {"calcs": ["lastNotNull"], "values": False, "fields": ""}, "colorMode": "value"},
    "timeseries": {"legend": {"displayMode": "list", "placement": "bottom"}, "tooltip": {"mode": "multi"}},
    "table": {"showHeader": True},
    "state-timeline": {"showValue": "never", "mergeValues": True, "legend": {"displayMode": "list"}},
}


def _target(number: int, query: Query, kind: Kind) -> dict[str, Any]:
    instant = kind in ("stat", "table")
    return {
        "refId": chr(ord("A") + number),
        "datasource": _SOURCE,
        "expr": query.expr,
        "legendFormat": query.legend,
        "instant": instant,
        "range": not instant,
        **({"format": "table"} if kind == "table" else {}),
    }
