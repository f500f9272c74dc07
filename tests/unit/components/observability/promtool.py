"""Cases as promtool's test files, and the real promtool that runs them."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from components.observability.alerts import all_rules
from components.observability.rules import Alert, Limits, Record, group
from tests.unit.components.observability.cases import Case
from tools.errors import ToolMissingError
from tools.toolchain import binary

RUNBOOK = "https://example.com/alerts.md"
SECONDS = 120


def promtool() -> Path:
    """The real one; where it is not there the test says what gets it."""
    try:
        return binary("promtool")
    except ToolMissingError as error:
        pytest.skip(str(error))


RULES = all_rules(Limits())
RECORDS = [each for each in RULES if isinstance(each, Record)]


def rule_file(folder: Path, *alerts: str) -> Path:
    """The rules as Prometheus reads them: all of them, or some alerts with what they are made of, for speed."""
    path = folder / f"{'-'.join(alerts) or 'all'}.rules.yaml"
    some = [each for each in RULES if isinstance(each, Alert) and each.name in alerts]
    needed = [each for each in RECORDS if any("gpuplatform:" in alert.expr for alert in some)]
    path.write_text(json.dumps({"groups": [group([*needed, *some] if alerts else RULES, RUNBOOK)]}))
    return path


def write_test(folder: Path, alert: str, cases: Sequence[Case]) -> Path:
    """Write promtool's test file of an alert's cases."""
    path = folder / f"{alert}.test.yaml"
    document = {
        "rule_files": [rule_file(folder, alert).name],
        "evaluation_interval": "1m",
        "tests": [
            {
                "name": f"{alert}: {case.what}",
                "interval": "1m",
                "input_series": [{"series": name, "values": values} for name, values in case.series.items()],
                "promql_expr_test": [*_alerts(alert, case), *_samples(case)],
            }
            for case in cases
        ],
    }
    path.write_text(yaml.safe_dump(document, sort_keys=False))
    return path


def _alerts(alert: str, case: Case) -> list[dict[str, Any]]:
    """Alerts that fire, by the labels that the case names."""
    found: list[dict[str, Any]] = []
    for minute, expected in case.fires.items():
        keys = sorted({key for labels in expected for key in labels})
        samples = [{"labels": _written(labels), "value": 1} for labels in expected]
        expr = f'count by ({", ".join(keys)}) (ALERTS{{alertname="{alert}", alertstate="firing"}})'
        found.append({"expr": expr, "eval_time": f"{minute}m", "exp_samples": samples})
    return found


def _samples(case: Case) -> list[dict[str, Any]]:
    return [
        {"expr": expr, "eval_time": f"{minute}m", "exp_samples": [{"labels": "{}", "value": value}]}
        for (minute, expr), value in case.samples.items()
    ]


def _written(labels: Mapping[str, str]) -> str:
    return "{" + ", ".join(f'{key}="{value}"' for key, value in labels.items()) + "}"


def run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run promtool."""
    return subprocess.run([promtool(), *arguments], capture_output=True, text=True, timeout=SECONDS, check=False)


def try_cases(folder: Path, cases: Mapping[str, Sequence[Case]]) -> subprocess.CompletedProcess[str]:
    """Have promtool try the cases of some alerts."""
    return run("test", "rules", *(write_test(folder, alert, some) for alert, some in cases.items()))
