"""Rules as values: what an alert and a recording rule are, and what the operator gets of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

Severity = Literal["page", "ticket", "info", "heartbeat"]
"""`page` wakes somebody: only for what doesn't heal by itself. `ticket` is for working hours, `info` for reading,
`heartbeat` fires always, so that its absence is noticed from outside."""

Need = Literal["gpu", "nvidia", "amd", "slurm", "slinky", "sharing", "kueue", "autoclusters", "exporter", "own"]
"""What a stack has to have for a rule to make sense in it. A rule on what is not there would be silent, or fire."""

EVALUATED_EVERY = "1m"
"""All groups; what counts events compares with the look before, so it has to be the same everywhere."""

GROUP = "gpuplatform"

RUNBOOKS = "docs/alerts.md"
"""The page with an entry for each alert, in this project."""


@dataclass(frozen=True)
class Record:
    """A recording rule.

    Attributes:
        name: of the series, `gpuplatform:<what>`.
        expr: PromQL.
        labels: that a query may use.
        needs: what the stack has to have.
    """

    name: str
    expr: str
    labels: tuple[str, ...]
    needs: frozenset[Need] = frozenset()


@dataclass(frozen=True)
class Alert:
    """One alert, with the page that a person reads who gets it.

    Attributes:
        name: of the alert.
        expr: PromQL; each series that it gives is one alert.
        lasts: how long it has to hold first.
        severity: who is told.
        says: one plain sentence; Prometheus fills its templates.
        means: what it means, and what it doesn't.
        look: where to look.
        do: what to do.
        needs: what the stack has to have.
        labels: more labels, such as a class.
    """

    name: str
    expr: str
    lasts: str
    severity: Severity
    says: str
    means: str
    look: str
    do: str
    needs: frozenset[Need] = frozenset()
    labels: Mapping[str, str] | None = None


@dataclass(frozen=True)
class Limits:
    """From where on something is too much.

    Attributes:
        repair_minutes: that a repair may take.
        repairs_per_hour: in the whole stack or in one leaf.
        requeues: of one job.
        checkpoint_minutes: age of the last checkpoint of a job that does not say how often it saves.
        quota_percent: of a quota that is used.
        expiry_days: before a key or certificate ends.
    """

    repair_minutes: int = 30
    repairs_per_hour: int = 4
    requeues: int = 5
    checkpoint_minutes: int = 60
    quota_percent: int = 90
    expiry_days: int = 14


def wanted(rules: Sequence[Record | Alert], has: frozenset[Need]) -> list[Record | Alert]:
    """The rules that make sense in a stack that has these things."""
    return [each for each in rules if each.needs <= has]


def group(rules: Sequence[Record | Alert], runbook: str) -> Mapping[str, Any]:
    """The one group of rules, as Prometheus and PrometheusRule have it; `runbook` is the address of docs/alerts.md.

    One group, since its rules are evaluated one after another: an alert sees what was recorded in the same look.
    """
    return {
        "name": GROUP,
        "interval": EVALUATED_EVERY,
        "rules": [_record(each) if isinstance(each, Record) else _alert(each, runbook) for each in rules],
    }


def _record(rule: Record) -> Mapping[str, Any]:
    return {"record": rule.name, "expr": rule.expr}


def _alert(alert: Alert, runbook: str) -> Mapping[str, Any]:
    return {
        "alert": alert.name,
        "expr": alert.expr,
        **({"for": alert.lasts} if alert.lasts != "0s" else {}),
        "labels": {"severity": alert.severity, **(alert.labels or {})},
        "annotations": {"summary": alert.says, "runbook_url": f"{runbook}#{alert.name.lower()}"},
    }
