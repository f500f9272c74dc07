"""Monitoring at the front door: `make test-alert`. What it does is in components/observability."""

from collections.abc import Mapping
from typing import Any

from tools.errors import ToolMissingError
from tools.front_door.session import Session
from tools.front_door.slurm import with_kubectl
from tools.toolchain import ensure

TEST_SECONDS = 180.0
_OUTPUTS = ("observability", "kubeconfig")


def get_alertmanager(session: Session, settings: Mapping[str, Any]) -> None:
    """Have what the local cloud runs for a stack with monitoring.

    A machine that can't have it is told so, and has the rest.
    """
    if settings.get("observability") is None:
        return
    try:
        ensure("monitoring")
    except ToolMissingError as error:
        session.say(str(error))


def test_alert(session: Session) -> int:
    """Send one alert through the stack's Alertmanager; return 0 where every route took it."""
    return with_kubectl(session, "components.observability.alert_command", _OUTPUTS, TEST_SECONDS)
