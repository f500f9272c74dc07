"""What Prometheus scrapes, as objects of its operator. Pure functions.

Every target gets the labels that rules join on: `node` on what runs on a node, and a `job` that does not change with a
Service's name.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from components.observability.rules import Need
from components.slurm.charts import NAMESPACE as SLURM
from components.slurm.charts import NAMESPACE_CERT_MANAGER, NAMESPACE_OPERATOR

NAMESPACE = "monitoring"
API = "monitoring.coreos.com/v1"
SCRAPE_API = "monitoring.coreos.com/v1alpha1"
EXPORTER = "gpuplatform-exporter"
METRICS_TOKEN = {"name": "slurm-token-metrics", "key": "SLURM_JWT"}
SLURM_PATHS = ("jobs", "nodes", "partitions", "scheduler")
"""Pages of slurmctld's metrics; those by user and account are left out: names of people are nobody's graph."""
FORWARD_SECRET, FORWARD_KEY = "crusoe-metrics", "token"

Manifest = Mapping[str, Any]


def manifests(has: frozenset[Need], labels: Mapping[str, str], forward: str | None) -> list[Manifest]:
    """Monitors of a stack that has these things; `forward` is the address of Crusoe's metrics endpoint."""
    found: list[Manifest] = []
    if "slinky" in has:
        found += [_slurmctld(), _operator(), _cert_manager()]
    if "exporter" in has:
        found.append(_exporter())
    if "nvidia" in has:
        found.append(_dcgm())
    if "amd" in has:
        found.append(_amd())
    if "kueue" in has:
        found.append(_kueue())
    if forward:
        found.append(_forward(forward))
    return [labelled(each, labels) for each in found]


def labelled(manifest: Manifest, labels: Mapping[str, str]) -> Manifest:
    """The object with labels; without any it says nothing of them, as the API server would keep none either."""
    return {**manifest, "metadata": {**manifest["metadata"], "labels": dict(labels)}} if labels else manifest


def _monitor(kind: str, name: str, namespace: str, spec: Manifest) -> Manifest:
    return {"apiVersion": API, "kind": kind, "metadata": {"name": name, "namespace": namespace}, "spec": spec}


def _job(name: str) -> Manifest:
    return {"targetLabel": "job", "replacement": name}


_NODE: Manifest = {"sourceLabels": ["__meta_kubernetes_pod_node_name"], "targetLabel": "node"}


def _slurmctld() -> Manifest:
    """slurmctld serves to its metrics user only, and locks while it does: no more than once a minute."""
    endpoints = [
        {
            "port": "slurmctld",
            "path": f"/metrics/{path}",
            "interval": "60s",
            "scrapeTimeout": "30s",
            "authorization": {"type": "Bearer", "credentials": METRICS_TOKEN},
            "relabelings": [_job("slurmctld")],
        }
        for path in SLURM_PATHS
    ]
    selector = {"matchLabels": {"app.kubernetes.io/name": "slurmctld"}}
    return _monitor("ServiceMonitor", "slurmctld", SLURM, {"selector": selector, "endpoints": endpoints})


def _pods(
    name: str, labels: Mapping[str, str], endpoint: Manifest, *, within: str | None, on_nodes: bool = False
) -> Manifest:
    relabelings = [_job(name), *([_NODE] if on_nodes else [])]
    spec = {
        "namespaceSelector": {"matchNames": [within]} if within else {"any": True},
        "selector": {"matchLabels": labels},
        "podMetricsEndpoints": [{"interval": "30s", **endpoint, "relabelings": relabelings}],
    }
    return _monitor("PodMonitor", name, NAMESPACE, spec)


def _operator() -> Manifest:
    labels = {"app.kubernetes.io/name": "slurm-operator"}
    return _pods("slurm-operator", labels, {"port": "metrics"}, within=NAMESPACE_OPERATOR)


def _cert_manager() -> Manifest:
    labels = {"app.kubernetes.io/name": "cert-manager"}
    return _pods("cert-manager", labels, {"port": "http-metrics"}, within=NAMESPACE_CERT_MANAGER)


def _exporter() -> Manifest:
    labels = {"app.kubernetes.io/name": EXPORTER}
    return _pods(EXPORTER, labels, {"port": "metrics", "honorLabels": True}, within=None)


def _dcgm() -> Manifest:
    """NVIDIA's exporter as the GPU operator of CMK runs it."""
    labels = {"app": "nvidia-dcgm-exporter"}
    return _pods("dcgm-exporter", labels, {"port": "metrics"}, within="nvidia-gpu-operator", on_nodes=True)


def _amd() -> Manifest:
    """AMD's exporter as the GPU operator of CMK runs it."""
    labels = {"app.kubernetes.io/name": "metrics-exporter"}
    return _pods("amd-metrics-exporter", labels, {"portNumber": 5000}, within="kube-amd-gpu", on_nodes=True)


def _kueue() -> Manifest:
    endpoint = {
        "port": "https",
        "scheme": "https",
        "interval": "30s",
        "bearerTokenFile": "/var/run/secrets/kubernetes.io/serviceaccount/token",
        # Its certificate is its own, made anew at each start.
        "tlsConfig": {"insecureSkipVerify": True},
        "relabelings": [_job("kueue")],
    }
    selector = {"matchLabels": {"control-plane": "controller-manager"}}
    return _monitor("ServiceMonitor", "kueue", "kueue-system", {"selector": selector, "endpoints": [endpoint]})


def _forward(url: str) -> Manifest:
    scheme, _, rest = url.partition("://")
    host, _, path = rest.partition("/")
    spec = {
        "staticConfigs": [{"targets": [host]}],
        "scheme": scheme.upper(),
        "metricsPath": f"/{path}",
        "scrapeInterval": "60s",
        "scrapeTimeout": "30s",
        "honorLabels": True,
        "authorization": {"type": "Bearer", "credentials": {"name": FORWARD_SECRET, "key": FORWARD_KEY}},
    }
    metadata = {"name": "crusoe", "namespace": NAMESPACE}
    return {"apiVersion": SCRAPE_API, "kind": "ScrapeConfig", "metadata": metadata, "spec": spec}


def policies() -> Mapping[str, Manifest]:
    """Network policies of the namespace, by name: nothing of it is for the world.

    The operator's webhook is asked by the API server, whose address is a node's or the cloud's. People come through
    `kubectl port-forward`, which arrives inside the pod.
    """
    return {
        "within": {"podSelector": {}, "policyTypes": ["Ingress"], "ingress": [{"from": [{"podSelector": {}}]}]},
        "operator-webhook": {
            "podSelector": {"matchLabels": {"app.kubernetes.io/component": "prometheus-operator"}},
            "policyTypes": ["Ingress"],
            "ingress": [{"ports": [{"port": 10250, "protocol": "TCP"}]}],
        },
    }


def rule_object(group: Mapping[str, Any], labels: Mapping[str, str]) -> Manifest:
    """The rules as an object of the operator."""
    return labelled(_monitor("PrometheusRule", "gpuplatform", NAMESPACE, {"groups": [group]}), labels)


def dashboard_objects(dashboards: Mapping[str, str]) -> Sequence[Manifest]:
    """Dashboards (JSON by name) as ConfigMaps that Grafana's sidecar finds by their label."""
    return [
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {
                "name": f"dashboard-{name}",
                "namespace": NAMESPACE,
                "labels": {"grafana_dashboard": "1"},
                "annotations": {"grafana_folder": "GPU platform"},
            },
            "data": {f"{name}.json": text},
        }
        for name, text in dashboards.items()
    ]
