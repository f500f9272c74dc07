"""Alertmanager's configuration: who is told of what. Pure functions.

Secrets are files that Alertmanager reads when it sends, never part of the configuration. So a receiver whose secret is
empty or no URL fails by itself, and the others go on: as text in the configuration it would stop all of them, since
Alertmanager then refuses the whole.
"""

from collections.abc import Mapping
from typing import Any

from components.observability.settings import TAKEN, ObservabilitySettings, RouteSettings

SECRETS = "alertmanager-routes"
"""The Secret with a key for each route, and its folder in Alertmanager's pods."""
FOLDER = f"/etc/alertmanager/secrets/{SECRETS}"
HEARTBEAT, NOBODY = TAKEN
TEST = "TestAlert"
"""The alert that `make test-alert` sends; every route gets it."""
SEND_SECONDS = 10
"""How long a receiver may take; one that hangs holds up nobody else."""

Config = Mapping[str, Any]


def config(settings: ObservabilitySettings, folder: str = FOLDER) -> Config:
    """The configuration; `folder` has the secrets by the names of their routes."""
    heartbeat = settings.heartbeat
    receivers = [{"name": NOBODY}, *(_receiver(name, route, folder) for name, route in settings.routes.items())]
    routes = [_test(name) for name in settings.routes]
    if heartbeat:
        receivers.append(_heartbeat(folder))
        routes.append(
            {
                "receiver": HEARTBEAT,
                "matchers": ['severity="heartbeat"'],
                "group_wait": "0s",
                "group_interval": "1m",
                "repeat_interval": f"{heartbeat.minutes}m",
            }
        )
    # What only says that monitoring lives is for nobody else.
    routes.append({"receiver": NOBODY, "matchers": [f'alertname=~"{TEST}|Watchdog"']})
    routes += [
        {"receiver": name, "matchers": [f'severity=~"{"|".join(route.severities)}"'], "continue": True}
        for name, route in settings.routes.items()
    ]
    return {
        "global": {"resolve_timeout": "5m"},
        "route": {
            "receiver": NOBODY,
            "group_by": ["alertname", "pool"],
            "group_wait": "30s",
            "group_interval": "5m",
            "repeat_interval": "4h",
            "routes": routes,
        },
        "inhibit_rules": _INHIBITED,
        "receivers": receivers,
    }


# One cause, one alert: what explains another keeps it quiet.
_INHIBITED = [
    {
        "source_matchers": ['alertname="EverythingSilent"'],
        "target_matchers": ['alertname=~".+Silent.*"', 'severity!="page"'],
    },
    {"source_matchers": ['alertname="NoSpare"'], "target_matchers": ['alertname="SpareGone"'], "equal": ["pool"]},
    {"source_matchers": ['alertname="SlurmControllerDown"'], "target_matchers": ['alertname="SlurmMetricsSilent"']},
    {
        "source_matchers": ['alertname="RepairStuck"'],
        "target_matchers": ['alertname="RepairStarted"'],
        "equal": ["node"],
    },
]


def _test(name: str) -> Config:
    return {
        "receiver": name,
        "matchers": [f'alertname="{TEST}"'],
        # Each test is a group of its own, or the one before would swallow it.
        "group_by": ["alertname", "test"],
        "group_wait": "0s",
        "group_interval": "1m",
        "continue": True,
    }


def _receiver(name: str, route: RouteSettings, folder: str) -> Config:
    secret = f"{folder}/{name}"
    match route.kind:
        case "slack":
            kind, field = (
                "slack_configs",
                {
                    "api_url_file": secret,
                    "channel": route.channel,
                    "title": _TITLE,
                    "text": _TEXT,
                },
            )
        case "pagerduty":
            kind, field = (
                "pagerduty_configs",
                {
                    "routing_key_file": secret,
                    "description": _TITLE,
                    "details": {"alerts": _TEXT},
                },
            )
        case "email":
            kind, field = (
                "email_configs",
                {
                    "to": route.to,
                    "from": route.sender,
                    "smarthost": route.server,
                    "auth_username": route.user,
                    "auth_password_file": secret,
                    "headers": {"subject": _TITLE},
                    "text": _TEXT,
                },
            )
        case "webhook":
            kind, field = "webhook_configs", {"url_file": secret, "timeout": f"{SEND_SECONDS}s"}
    return {"name": name, kind: [{"send_resolved": True, **field}]}


def _heartbeat(folder: str) -> Config:
    hook = {"url_file": f"{folder}/{HEARTBEAT}", "send_resolved": False, "timeout": f"{SEND_SECONDS}s"}
    return {"name": HEARTBEAT, "webhook_configs": [hook]}


_TITLE = "[{{ .Status | toUpper }}] {{ .CommonLabels.alertname }} ({{ .Alerts | len }})"
_TEXT = "{{ range .Alerts }}{{ .Annotations.summary }}\n{{ .Annotations.runbook_url }}\n{{ end }}"
