"""The component: what a stack with monitoring declares, and what it refuses."""

from __future__ import annotations

import json
from typing import Any

import pytest

from components.observability.monitors import NAMESPACE, SLURM_PATHS
from components.observability.settings import ObservabilitySettings, secret_findings
from components.settings import parse
from components.slurm.charts import OFF_GPU_NODES
from components.slurm.policies import MONITORING
from tests.unit.components.support import Deployment, Json, deploy_platform, faults, settings_document

ROUTES: Json = {
    "oncall": {"kind": "pagerduty", "secret": "pagerdutyKey", "severities": ["page"]},
    "team": {"kind": "slack", "secret": "slackUrl", "channel": "#gpus"},
}
SECRETS = {
    "crusoe-gpu-platform:pagerdutyKey": "R" * 32,
    "crusoe-gpu-platform:slackUrl": "https://hooks.slack.example.com/services/T/B/canary",
    "crusoe-gpu-platform:heartbeatUrl": "https://heartbeat.example.com/canary",
    "crusoe-gpu-platform:crusoeToken": "canary",
}


def document(**observability: object) -> Json:
    """A platform with monitoring and the exporter that most alerts ask."""
    watched = {"chartSource": "localcloud/charts", **observability}
    return {**settings_document(), "exporter": {}, "observability": watched}


@pytest.fixture(scope="module")
def deployment() -> Deployment:
    forward = {"url": "https://metrics.example.com/scrape", "tokenSecret": "crusoeToken"}
    settings = document(routes=ROUTES, heartbeat={"secret": "heartbeatUrl"}, forward=forward)
    return deploy_platform(settings, config=SECRETS)


def objects(deployment: Deployment, kind: str) -> dict[str, Any]:
    """Objects of a kind that monitoring declares, by name."""
    found = [each for each in deployment.resources if each.name.startswith("platform-observability-")]
    return {each.inputs["metadata"]["name"]: each for each in found if each.type.endswith(f":{kind}")}


def test_the_release_is_pinned_and_stands_before_what_it_brings(deployment: Deployment) -> None:
    release = deployment.one("platform-observability-release")
    assert release.inputs["chart"] == "./localcloud/charts/kube-prometheus-stack"
    ready = deployment.one("platform-observability-release-ready")
    assert release.name in deployment.depends_on(ready)
    for kind in ("PrometheusRule", "PodMonitor", "ConfigMap"):
        for each in objects(deployment, kind).values():
            assert ready.name in deployment.depends_on(each), each.name


def test_the_public_chart_is_pinned() -> None:
    settings = document()
    del settings["observability"]["chartSource"]
    inputs = deploy_platform(settings).one("platform-observability-release").inputs
    assert inputs["repositoryOpts"] == {"repo": "https://prometheus-community.github.io/helm-charts"}
    assert (inputs["chart"], inputs["version"]) == ("kube-prometheus-stack", "88.4.0")


def test_nothing_is_exposed_and_gpu_nodes_are_left_alone(deployment: Deployment) -> None:
    values = deployment.one("platform-observability-release").inputs["values"]
    for part in ("prometheus", "alertmanager", "grafana"):
        assert values[part]["service"]["type"] == "ClusterIP"
        assert values[part]["ingress"] == {"enabled": False}
    specs = [
        values["prometheusOperator"],
        values["prometheus"]["prometheusSpec"],
        values["alertmanager"]["alertmanagerSpec"],
        values["grafana"],
        values["kube-state-metrics"],
    ]
    assert all(json.loads(json.dumps(each["affinity"])) == OFF_GPU_NODES for each in specs)
    assert all(each["resources"]["limits"]["memory"] for each in specs)
    policies = objects(deployment, "NetworkPolicy")
    assert policies["within"].inputs["spec"]["ingress"] == [{"from": [{"podSelector": {}}]}]
    assert NAMESPACE == MONITORING


def test_secrets_are_secrets_and_never_values(deployment: Deployment) -> None:
    release = json.dumps(deployment.one("platform-observability-release").inputs)
    assert "canary" not in release
    assert "R" * 32 not in release
    secrets = objects(deployment, "Secret")
    assert set(secrets) == {"grafana-admin", "alertmanager-routes", "crusoe-metrics"}
    assert set(secrets["alertmanager-routes"].inputs["stringData"]) == {"oncall", "team", "heartbeat"}
    mounted = deployment.one("platform-observability-release").inputs["values"]["alertmanager"]["alertmanagerSpec"]
    assert mounted["secrets"] == ["alertmanager-routes"]


@pytest.mark.parametrize("protect", [True, False])
def test_what_was_drawn_is_guarded_as_everything_is(protect: bool) -> None:
    deployment = deploy_platform({**document(), "protect": protect})
    guarded = [each.name for each in deployment.resources if "observability" in each.name and each.protect]
    assert guarded == (["platform-observability-grafana-password"] if protect else [])


def test_the_output_has_what_a_test_alert_needs(deployment: Deployment) -> None:
    assert deployment.exports["observability"] == {
        "stack": "own",
        "namespace": "monitoring",
        "service": "kube-prometheus-stack-alertmanager",
        "port": 9093,
        "routes": {"oncall": "pagerduty", "team": "slack"},
    }


def test_a_stack_without_it_says_so() -> None:
    without = deploy_platform(settings_document())
    assert without.exports["observability"] == {"stack": "none", "routes": {}}
    assert not [each for each in without.resources if "observability" in each.name]


def test_brought_along_it_is_only_objects_with_the_labels_of_the_operator() -> None:
    settings = {**settings_document(), "observability": {"stack": "bring", "labels": {"release": "ours"}}}
    deployment = deploy_platform(settings)
    assert objects(deployment, "Namespace") == {}
    assert not [each for each in deployment.resources if "observability-release" in each.name]
    for kind in ("PrometheusRule", "PodMonitor"):
        found = objects(deployment, kind)
        assert found
        assert all(each.inputs["metadata"]["labels"] == {"release": "ours"} for each in found.values())


def alerts(deployment: Deployment) -> set[str]:
    group = objects(deployment, "PrometheusRule")["gpuplatform"].inputs["spec"]["groups"][0]
    return {each["alert"] for each in group["rules"] if "alert" in each}


VENDORS = {
    "c1a.8x": (set[str](), {"GpuLost", "XidHardware", "GpuUnhealthy", "GpuMetricsSilent"}),
    "l40s-48gb.10x": ({"XidHardware", "GpuMetricsSilent"}, {"GpuUnhealthy"}),
    "mi300x-192gb-ib.8x": ({"GpuUnhealthy", "AmdGpuMetricsSilent"}, {"XidHardware"}),
}


@pytest.mark.parametrize(("vm_type", "there", "left_out"), [(key, *value) for key, value in VENDORS.items()])
def test_alerts_are_about_what_the_pools_have(vm_type: str, there: set[str], left_out: set[str]) -> None:
    pools = {"system": {"type": "c1a.8x", "count": 2}, "more": {"type": vm_type, "count": 2}}
    add_ons = [add_on for each in ("nvidia", "amd") for add_on in (f"{each}_gpu_operator", f"{each}_network_operator")]
    cluster = {"version": "1.33.4-cmk.43", "addOns": add_ons}
    found = alerts(deploy_platform({**document(), "nodePools": pools, "cluster": cluster}))
    assert there <= found
    assert not left_out & found
    assert "Watchdog" in found


def test_without_the_exporter_nothing_asks_for_it() -> None:
    settings = document()
    whole = deploy_platform(settings)
    del settings["exporter"]
    bare = deploy_platform(settings)
    assert "ExporterSilent" in alerts(whole) - alerts(bare)
    assert alerts(bare) < alerts(whole)
    assert {*objects(whole, "PodMonitor")} - {*objects(bare, "PodMonitor")} == {"gpuplatform-exporter"}
    assert "Watchdog" in alerts(bare)


def test_slurms_controller_is_scraped_by_its_metrics_user() -> None:
    slurm = {
        "login": {"cidrs": ["203.0.113.0/24"]},
        "home": {"disk": "home"},
        "charts": {"source": "localcloud/charts"},
    }
    settings = {**document(), "slurm": slurm, "storage": {"disks": {"home": {"size": "1TiB"}}}}
    deployment = deploy_platform(settings)
    monitor = objects(deployment, "ServiceMonitor")["slurmctld"]
    assert monitor.inputs["metadata"]["namespace"] == "slurm"
    endpoints = monitor.inputs["spec"]["endpoints"]
    assert [each["path"] for each in endpoints] == [f"/metrics/{path}" for path in SLURM_PATHS]
    for each in endpoints:
        credentials = each["authorization"]["credentials"]
        tokens = [token.inputs["spec"] for token in deployment.of("Token")]
        assert credentials in [
            {"name": token["secretRef"]["name"], "key": token["secretRef"]["key"]}
            for token in tokens
            if token["username"] == "metrics"
        ]
    assert "SlurmControllerDown" in alerts(deployment)


REFUSED: dict[str, tuple[Json, str, str]] = {
    "slack without a channel": (
        {"routes": {"team": {"kind": "slack", "secret": "s"}}},
        "routes.team.channel",
        "slack needs it",
    ),
    "mail without a server": (
        {"routes": {"team": {"kind": "email", "secret": "s", "to": "a@b.c", "sender": "a@b.c", "user": "a"}}},
        "routes.team.server",
        "email needs it",
    ),
    "a webhook with a channel": (
        {"routes": {"team": {"kind": "webhook", "secret": "s", "channel": "#x"}}},
        "routes.team.channel",
        "no use for it",
    ),
    "a route without a secret": ({"routes": {"team": {"kind": "webhook"}}}, "routes.team.secret", "missing"),
    "routes of somebody else's": (
        {"stack": "bring", "chartSource": None, "routes": {"team": {"kind": "webhook", "secret": "s"}}},
        "routes",
        "routes of its own",
    ),
    "a name that is taken": ({"routes": {"nobody": {"kind": "webhook", "secret": "s"}}}, "routes.nobody", "own"),
    "no name": ({"routes": {"My Team": {"kind": "webhook", "secret": "s"}}}, "routes.My Team", "lower-case"),
    "a folder without the chart": ({"chartSource": "docs"}, "chartSource", "has no kube-prometheus-stack"),
    "another scheme": ({"chartSource": "ftp://x"}, "chartSource", "neither oci"),
}


@pytest.mark.parametrize(("given", "path", "words"), REFUSED.values(), ids=[*REFUSED])
def test_what_can_not_work_is_refused(given: Json, path: str, words: str) -> None:
    found = faults(document(**given))
    assert words in found[f"platform.observability.{path}"]


URL = "https://hooks.example.com/canary"
GOOD = {"slackUrl": URL, "key": "R" * 32, "heartbeat": URL, "hook": URL, "password": "canary", "token": "canary"}
KINDS: Json = {
    "routes": {
        "team": {"kind": "slack", "secret": "slackUrl", "channel": "#x"},
        "oncall": {"kind": "pagerduty", "secret": "key"},
        "hook": {"kind": "webhook", "secret": "hook"},
        "mail": {
            "kind": "email",
            "secret": "password",
            "to": "a@b.c",
            "sender": "a@b.c",
            "server": "smtp.b.c:25",
            "user": "a",
        },
    },
    "heartbeat": {"secret": "heartbeat"},
    "forward": {"url": "https://m.example.com/scrape", "tokenSecret": "token"},
}


def secret_faults(**secrets: str | None) -> dict[str, str]:
    """What is wrong with secrets that differ from good ones."""
    settings = parse(ObservabilitySettings, KINDS, "o")
    found = secret_findings(settings, "o", {**GOOD, **secrets}.get)
    return {each.path: each.problem for each in found}


def test_good_secrets_are_taken() -> None:
    assert secret_faults() == {}


@pytest.mark.parametrize("name", GOOD)
@pytest.mark.parametrize(
    ("value", "words"),
    [(None, "has no secret"), ("", "is empty"), (" \n", "is empty"), (f"{URL}\n", "line break"), (f" {URL}", "blank")],
)
def test_a_bad_secret_is_found_by_its_path_and_never_repeated(name: str, value: str | None, words: str) -> None:
    ((path, problem),) = secret_faults(**{name: value}).items()
    assert path.endswith(("secret", "tokenSecret"))
    assert words in problem
    assert "canary" not in problem


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("slackUrl", "canary", "not the URL of a slack receiver"),
        ("hook", "canary.example.com/x", "not the URL of a webhook receiver"),
        ("hook", "https://user:canary@example.com/x", "not the URL"),
        ("heartbeat", "ftp://canary", "not the URL"),
        ("key", "canary", "not a routing key"),
    ],
)
def test_a_secret_of_another_form_is_found(name: str, value: str, words: str) -> None:
    ((_, problem),) = secret_faults(**{name: value}).items()
    assert words in problem
    assert "canary" not in problem
