"""Monitoring at the front door: `make test-alert`. What it does is in components/observability."""

from tools.front_door.session import Session
from tools.front_door.slurm import with_kubectl

TEST_SECONDS = 180.0
_OUTPUTS = ("observability", "kubeconfig")


def test_alert(session: Session) -> int:
    """Send one alert through the stack's Alertmanager; return 0 where every route took it."""
    return with_kubectl(session, "components.observability.alert_command", _OUTPUTS, TEST_SECONDS)
