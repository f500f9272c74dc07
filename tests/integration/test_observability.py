"""A stack with monitoring on the local cloud: it comes up, says nothing in clear, and refuses bad secrets."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.harness import ROOT, Project, changes, until
from tests.integration.conftest import NewProject
from tests.unit.components.observability.promtool import run
from tools.errors import ToolMissingError
from tools.front_door.autoclusters import PAUSED, TARGETS
from tools.toolchain import binary

pytestmark = pytest.mark.integration

CANARY = "https://hooks.example.com/services/T000/B000/canary-of-the-webhook"
SETTINGS = {
    "nodePools": {"train": None},
    "network": {"infiniband": None},
    "observability": {
        "chartSource": "localcloud/charts",
        "routes": {
            "team": {"kind": "slack", "secret": "slackUrl", "channel": "#gpus"},
            "hook": {"kind": "webhook", "secret": "hookUrl"},
        },
    },
}


@pytest.fixture(scope="module")
def project(new_project: NewProject) -> Generator[Project]:
    project = new_project("watched")
    project.use_settings("dev", SETTINGS)
    url = f"http://127.0.0.1:{project.cloud.port}/_local/receiver/hook"
    project.pulumi("config", "set", "--secret", "hookUrl", url, "-s", project.stack)
    yield project
    project.destroy()


def secret(project: Project, value: str) -> None:
    project.pulumi("config", "set", "--secret", "slackUrl", value, "-s", project.stack)


BAD = {"missing": None, "no URL": "canary-of-the-webhook"}


@pytest.mark.parametrize("value", BAD.values(), ids=[*BAD])
def test_a_route_whose_secret_can_not_be_right_is_found_before_anything_is_made(
    project: Project, value: str | None
) -> None:
    if value is not None:
        secret(project, value)
    refused = project.up(check=False)
    assert refused.code != 0
    assert "platform.observability.routes.team.secret" in refused.text
    assert "pulumi config set --secret slackUrl" in refused.text
    assert "Traceback" not in refused.text
    assert "canary" not in refused.text
    assert [each for each in project.resources() if each["type"].startswith("crusoe:")] == []


@pytest.fixture(scope="module")
def up(project: Project) -> Project:
    secret(project, CANARY)
    project.up()
    return project


@pytest.fixture
def kubectl(up: Project, tmp_path: Path) -> Any:
    path = tmp_path / "kubeconfig"
    path.write_text(up.outputs("--show-secrets")["kubeconfig"])

    def get(*arguments: str) -> Any:
        command = ["kubectl", f"--kubeconfig={path}", *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True, env=up.environment())
        return json.loads(done.stdout) if "json" in arguments else done.stdout

    return get


def test_it_comes_up_whole_and_a_second_up_changes_nothing(up: Project, kubectl: Any) -> None:
    assert changes(up.preview()) == {}
    names: Sequence[str] = [
        each["metadata"]["name"] for each in kubectl("get", "configmaps", "-n", "monitoring", "-o", "json")["items"]
    ]
    assert {f"dashboard-{name}" for name in ("overview", "training", "sharing", "repairs", "network")} <= set(names)
    services = kubectl("get", "services", "-n", "monitoring", "-o", "json")["items"]
    assert {each["spec"]["type"] for each in services} == {"ClusterIP"}


def test_the_rules_in_the_cluster_are_read_by_promtool(kubectl: Any, tmp_path: Path) -> None:
    found = kubectl("get", "prometheusrule", "gpuplatform", "-n", "monitoring", "-o", "json")
    path = tmp_path / "rules.json"
    path.write_text(json.dumps({"groups": found["spec"]["groups"]}))
    checked = run("check", "rules", path)
    assert checked.returncode == 0, checked.stderr
    alerts = {each["alert"] for each in found["spec"]["groups"][0]["rules"] if "alert" in each}
    # A cluster without GPUs has nothing to say about any.
    assert "Watchdog" in alerts
    assert not {"GpuLost", "XidHardware", "GpuMetricsSilent", "AmdGpuMetricsSilent"} & alerts


def test_the_routes_secret_is_nowhere_in_clear(up: Project, kubectl: Any) -> None:
    assert "canary-of-the-webhook" not in json.dumps(up.exported())
    config = kubectl(
        "get", "secret", "alertmanager-kube-prometheus-stack-alertmanager", "-n", "monitoring", "-o", "yaml"
    )
    assert "canary-of-the-webhook" not in config
    release = kubectl("get", "secret", "-n", "monitoring", "-l", "owner=helm", "-o", "yaml")
    assert "canary-of-the-webhook" not in release


def try_alert(project: Project) -> subprocess.CompletedProcess[str]:
    """What `make test-alert` runs."""
    outputs = project.outputs("--show-secrets")
    given = json.dumps({"observability": outputs["observability"], "kubeconfig": outputs["kubeconfig"]})
    return subprocess.run(
        [sys.executable, "-m", "components.observability.alert_command", f"--kubectl={binary('kubectl')}"],
        cwd=ROOT,
        input=given,
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )


def test_a_test_alert_arrives_at_a_receiver_of_the_local_cloud(up: Project, kubectl: Any) -> None:
    try:
        binary("alertmanager")
    except ToolMissingError as error:
        pytest.skip(str(error))
    pod = ("get", "pod", "alertmanager-kube-prometheus-stack-alertmanager-0", "-n", "monitoring", "-o", "json")

    def ready() -> bool:
        conditions = kubectl(*pod)["status"].get("conditions", [])
        return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)

    until(ready, 60, "Alertmanager's pod is ready")
    tried = try_alert(up)
    assert tried.returncode == 1
    assert "ok   hook" in tried.stdout, tried.stdout + tried.stderr
    assert "Not delivered: team." in tried.stdout
    arrived = [each["body"]["alerts"][0]["labels"] for each in up.cloud.admin("GET", "/receiver")["items"]]
    assert arrived[-1]["alertname"] == "TestAlert"


def test_repairs_are_stopped_by_one_command_that_the_next_up_keeps(up: Project) -> None:
    """What `make autoclusters ACTION=off` runs; the monitoring of a stack that gets GPUs gets their alerts."""
    pool = {"type": "h100-80gb-sxm-ib.8x", "count": 1}
    ib = {"networkId": "00000000-0000-4000-8000-000000000101"}
    settings = {"nodePools": {"train": pool}, "network": {"infiniband": ib}}
    up.change_settings({**settings, "autoClusters": {"actions": {"XID_79": "REPLACE_NODE"}}})
    up.up()
    assert _repaired(up) == ["XID_79"]
    up.pulumi("config", "set", "--path", PAUSED, "true", "--type", "bool", "-s", up.stack)
    targets = [f"--target={each}" for each in TARGETS]
    up.pulumi("up", "--yes", "--skip-preview", *targets, "-s", up.stack)
    assert _repaired(up) == []
    up.up("--expect-no-changes")
    assert _repaired(up) == []


def _repaired(project: Project) -> list[str]:
    """Issues that the cloud would answer with a repair."""
    cluster = project.outputs()["clusterId"]
    config = project.cloud.api("GET", f"/kubernetes/clusters/{cluster}/autoclusters/config")
    return [each["issue_name"] for each in config["remediation_configs"] if each["effective_action"] == "REPLACE_NODE"]
