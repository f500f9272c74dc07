"""What a team can say about monitoring, and the checks that need nothing but the settings and their secrets."""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Annotated, Literal

from pydantic import Field

from components.observability.rules import Limits
from components.settings import Form, Plain, Settings
from components.slurm.charts import WAIT_SECONDS, holds
from crusoe.rules.finding import Finding
from crusoe.rules.values import items, table, text

CHART = "kube-prometheus-stack"

Kind = Literal["slack", "pagerduty", "email", "webhook"]
Level = Literal["page", "ticket", "info"]
Url = Annotated[str, Form(r"https?://[^\s/?#@]+(/[^\s?#]*)?", "not an http or https address")]
Size = Annotated[str, Form(r"[1-9]\d*[GT]i", "not a size in Gi or Ti")]


class RouteSettings(Settings):
    """Where some alerts go."""

    kind: Kind = Field(description="What receives them.", examples=["slack"])
    secret: str = Field(
        description="Name of the stack's secret, set by `pulumi config set --secret <name>`: Slack's or the webhook's "
        "URL, PagerDuty's routing key, or the mail server's password.",
        examples=["slackUrl"],
        min_length=1,
    )
    severities: tuple[Level, ...] = Field(
        default=("page", "ticket"),
        description="Alerts that go there: `page` for what does not heal by itself, `ticket` for working hours, `info` "
        "for reading.",
        examples=[["page"]],
        min_length=1,
    )
    channel: str | None = Field(default=None, description="Slack's channel.", examples=["#gpu-alerts"])
    to: str | None = Field(default=None, description="Address that mail goes to.", examples=["oncall@example.com"])
    sender: str | None = Field(default=None, description="Address that mail is from.", examples=["gpu@example.com"])
    server: str | None = Field(
        default=None, description="The mail server and its port.", examples=["smtp.example.com:587"]
    )
    user: str | None = Field(default=None, description="User at the mail server.", examples=["gpu@example.com"])


class HeartbeatSettings(Settings):
    """A service outside that notices when monitoring has stopped: an alert that always fires is sent to it."""

    secret: str = Field(
        description="Name of the stack's secret with the service's URL.", examples=["heartbeatUrl"], min_length=1
    )
    minutes: int = Field(default=5, description="How often.", examples=[5], ge=1, le=60)


class ForwardSettings(Settings):
    """Crusoe's own metrics of the project, read from its metrics endpoint (limited availability)."""

    url: Url = Field(
        description="Address of the project's scrape endpoint.",
        examples=["https://api.cloud.crusoe.ai/v1/projects/11111111-2222-4333-8444-555555555555/metrics/scrape"],
    )
    token_secret: str = Field(
        description="Name of the stack's secret with the monitoring token.", examples=["crusoeMonitoringToken"]
    )


class LimitSettings(Settings):
    """From where on something is too much."""

    repair_minutes: int = Field(default=30, description="Minutes that a repair may take.", examples=[45], ge=5)
    repairs_per_hour: int = Field(
        default=4,
        description="Repairs in one hour, in all or in one leaf, beyond which they alert.",
        examples=[8],
        ge=1,
    )
    requeues: int = Field(default=5, description="Restarts of one job, beyond which it alerts.", examples=[10], ge=1)
    checkpoint_minutes: int = Field(
        default=60, description="Age of the last checkpoint of a job that says no interval.", examples=[120], ge=5
    )
    quota_percent: int = Field(default=90, description="Used part of a quota.", examples=[80], ge=1, le=99)
    expiry_days: int = Field(default=14, description="Days before a key ends.", examples=[30], ge=1)

    @property
    def values(self) -> Limits:
        """As the rules take them."""
        return Limits(**self.model_dump())


class ObservabilitySettings(Settings):
    """Monitoring: what is scraped, alerts and who is told, dashboards."""

    stack: Literal["own", "bring"] = Field(
        default="own",
        description="`own` installs kube-prometheus-stack: Prometheus, Alertmanager, Grafana. `bring` only adds "
        "monitors, rules and dashboards as objects for a Prometheus operator that is there already.",
        examples=["bring"],
    )
    labels: Mapping[str, str] = Field(
        default={},
        description="Labels on monitors and rules, by which the operator of `bring` selects them.",
        examples=[{"release": "prometheus"}],
    )
    chart_source: str | None = Field(
        default=None,
        description="An OCI registry, a chart repository or a folder of this project that has the chart, for networks "
        "that can't reach the public one.",
        examples=["oci://registry.example.com/charts"],
    )
    timeout_seconds: int = Field(
        default=WAIT_SECONDS,
        description="How long the release may take until its pods are available.",
        examples=[600],
        ge=30,
        le=3600,
    )
    routes: Mapping[str, RouteSettings] = Field(
        default={},
        description="Who is told, by a name of your own. An alert goes to every route that takes its severity.",
        examples=[{"oncall": {"kind": "pagerduty", "secret": "pagerdutyKey", "severities": ["page"]}}],
    )
    heartbeat: HeartbeatSettings | None = Field(
        default=None,
        description="A service outside that notices when monitoring has stopped; none unless it is here.",
        examples=[{"secret": "heartbeatUrl"}],
    )
    forward: ForwardSettings | None = Field(
        default=None,
        description="Crusoe's metrics endpoint; not read unless it is here.",
        examples=[{"url": "https://metrics.example.com/scrape", "tokenSecret": "crusoeMonitoringToken"}],
    )
    limits: LimitSettings = Field(
        default=LimitSettings(),
        description="When alerts find something too much.",
        examples=[{"repairsPerHour": 8}],
    )
    runbooks: Url | None = Field(
        default=None,
        description="Address of docs/alerts.md as your team reads it: each alert links to its entry. Left out, alerts "
        "name the file.",
        examples=["https://git.example.com/platform/docs/alerts.md"],
    )
    retention_days: int = Field(default=15, description="How long Prometheus keeps.", examples=[30], ge=1)
    storage: Size = Field(default="100Gi", description="Prometheus' volume.", examples=["500Gi"])


def findings(observability: Plain, path: str) -> Iterator[Finding]:
    """Check routes against their kinds, and the settings against the kind of stack."""
    source = text(observability.get("chartSource"))
    if source and not source.startswith(("oci://", "https://")):
        if "://" in source:
            yield Finding(f"{path}.chartSource", f"{source!r} is neither oci:// nor https://", "Write one, or a folder")
        elif not holds(source, CHART):
            yield Finding(f"{path}.chartSource", f"the folder {source!r} has no {CHART}", "Put the chart there")
    routes = table(observability.get("routes"))
    if observability.get("stack") == "bring":
        for key in ("routes", "heartbeat", "chartSource"):
            if observability.get(key):
                problem = "the Alertmanager that is there has routes of its own"
                yield Finding(f"{path}.{key}", problem, "Leave it out, or write stack: own")
    for name, value in routes.items():
        if not _NAME.fullmatch(name) or name in TAKEN:
            problem = "a name of this project's own" if name in TAKEN else "not lower-case letters, digits and hyphens"
            yield Finding(f"{path}.routes.{name[:60]}", problem, "Write one such as oncall")
        yield from _route(f"{path}.routes.{name[:60]}", table(value))


TAKEN = ("heartbeat", "nobody")
"""Receivers of this project's own."""

_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,30}[a-z0-9])?")

_FIELDS: Mapping[str, tuple[str, ...]] = {
    "slack": ("channel",),
    "email": ("to", "sender", "server", "user"),
    "pagerduty": (),
    "webhook": (),
}
"""Settings that a kind of route needs; others have no use for it."""


def _route(path: str, route: Plain) -> Iterator[Finding]:
    kind = text(route.get("kind")) or ""
    if kind not in _FIELDS:
        return
    for field in ("channel", "to", "sender", "server", "user"):
        needed, given = field in _FIELDS[kind], route.get(field) is not None
        if needed and not given:
            yield Finding(f"{path}.{field}", f"missing, and {kind} needs it", f"Write {field}")
        if given and not needed:
            yield Finding(f"{path}.{field}", f"{kind} has no use for it", "Leave it out")
    if not items(route.get("severities")):
        yield Finding(f"{path}.severities", "empty, so nothing would go there", "Write page, ticket or info")


_HTTPS = re.compile(r"https?://[^\s/?#@]+(/\S*)?")
_KEY = re.compile(r"[A-Za-z0-9+/_-]{16,}")

Look = Callable[[str], str | None]
"""A secret of the stack by its name; None where there is none."""


def secret_findings(settings: ObservabilitySettings, path: str, look: Look) -> Iterator[Finding]:
    """Check the secrets themselves, without repeating any: missing, empty, ending in a line break, of another form."""
    for name, route in settings.routes.items():
        yield from _secret(f"{path}.routes.{name}.secret", route.secret, route.kind, look)
    if settings.heartbeat:
        yield from _secret(f"{path}.heartbeat.secret", settings.heartbeat.secret, "webhook", look)
    if settings.forward:
        yield from _secret(f"{path}.forward.tokenSecret", settings.forward.token_secret, "token", look)


def _secret(path: str, name: str, kind: str, look: Look) -> Iterator[Finding]:
    value = look(name)
    fix = f"`pulumi config set --secret {name}` sets it"
    if value is None:
        yield Finding(path, f"the stack has no secret {name}", fix)
    elif not value.strip():
        yield Finding(path, f"the secret {name} is empty", fix)
    elif value != value.strip():
        yield Finding(path, f"the secret {name} begins or ends with a blank or a line break", f"{fix}, without it")
    elif kind in ("slack", "webhook") and not _HTTPS.fullmatch(value):
        yield Finding(path, f"the secret {name} is not the URL of a {kind} receiver", fix)
    elif kind == "pagerduty" and not _KEY.fullmatch(value):
        yield Finding(path, f"the secret {name} is not a routing key of PagerDuty", fix)
