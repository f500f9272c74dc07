"""The dashboards beside a drill: the real Prometheus with the stack's own exporter has something for each panel.

What exporters on machines and in Slurm say, and the shares of a stack that shares, is given by a page of the same
names: this stack has none of them.
"""

from __future__ import annotations

import pytest

from components.observability.dashboards import DASHBOARDS
from tests.integration.drills.conftest import Drilled
from tests.prometheus import Prometheus

pytestmark = pytest.mark.integration


@pytest.fixture
def server(drilled: Drilled) -> Prometheus:
    if drilled.prometheus is None:
        pytest.skip("Prometheus is missing: python -m tools ensure --for monitoring")
    return drilled.prometheus


def test_no_panel_is_empty_during_a_drill(drilled: Drilled, server: Prometheus) -> None:
    since, until = drilled.began, drilled.ended
    empty = [
        f"{dashboard.name}: {panel.title}"
        for dashboard in DASHBOARDS
        for panel in dashboard.panels
        if not panel.quiet and not any(server.over(query.expr, since, until) for query in panel.queries)
    ]
    assert empty == []


def test_the_time_line_and_the_recovery_are_the_drill_s(drilled: Drilled, server: Prometheus) -> None:
    """A made-up page could not show these: the repair's states in their order, and the job's steps."""
    # Those of earlier repairs are kept for a day.
    states = (
        'gpuplatform_repair_state{{state="{0}"}} unless on (operation) gpuplatform_repair_state{{state="done"}} @ {1}'
    )
    first = {
        state: min(at for series in found for at, _ in series)
        for state in ("detected", "draining", "replacing", "done")
        if (found := server.over(states.format(state, drilled.began), drilled.began, drilled.ended))
    }
    assert "done" in first
    assert list(first) == sorted(first, key=lambda state: first[state])
    [jobs] = server.over("max(gpuplatform_job_step)", drilled.began, drilled.ended)
    steps = [value for _, value in jobs]
    assert max(steps) > 60
