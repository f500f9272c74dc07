"""kube-prometheus-stack: its version, where it comes from, and its values. Pure functions."""

from typing import Any

from components.observability import alertmanager
from components.observability.settings import CHART, ObservabilitySettings
from components.slurm import charts
from components.slurm.charts import OFF_GPU_NODES, Chart

VERSION = "88.4.0"
PUBLIC = "https://prometheus-community.github.io/helm-charts"
NAMESPACE = "monitoring"
GRAFANA_SECRET = "grafana-admin"  # noqa: S105 (the name of a Secret)
ALERTMANAGER = f"{CHART}-alertmanager"
"""The Service of Alertmanager, and its object."""
ALERTMANAGER_PORT = 9093


def chart(settings: ObservabilitySettings) -> Chart:
    """The release."""
    return charts.chart(CHART, VERSION, NAMESPACE, values(settings), settings.chart_source, public=PUBLIC)


def values(settings: ObservabilitySettings) -> dict[str, Any]:
    """Two of what notices failures, off GPU nodes, with pinned sizes; its own rules about the control plane are off.

    CMK's control plane is Crusoe's: etcd, scheduler and controller manager can't be scraped there, and alerts about
    them would fire for good.
    """
    # Monitors and rules of all namespaces, whatever their labels.
    everything = {
        f"{kind}SelectorNilUsesHelmValues": False for kind in ("serviceMonitor", "podMonitor", "rule", "scrapeConfig")
    }
    hidden = {key: {"enabled": False} for key in ("kubeControllerManager", "kubeEtcd", "kubeScheduler", "kubeProxy")}
    return {
        "crds": {"enabled": True},
        **hidden,
        "defaultRules": {"create": False},
        "prometheusOperator": {"affinity": OFF_GPU_NODES, "resources": _resources("100m", "256Mi")},
        "prometheus": {
            "service": {"type": "ClusterIP"},
            "ingress": {"enabled": False},
            "prometheusSpec": {
                **everything,
                "replicas": 1,
                "retention": f"{settings.retention_days}d",
                "retentionSize": _most(settings.storage),
                "affinity": OFF_GPU_NODES,
                "resources": _resources("500m", "4Gi"),
                "storageSpec": _volume(settings.storage),
            },
        },
        "alertmanager": {
            "service": {"type": "ClusterIP"},
            "ingress": {"enabled": False},
            "config": dict(alertmanager.config(settings)),
            "alertmanagerSpec": {
                "replicas": 2,
                # `make test-alert` tells routes apart by it.
                "enableFeatures": ["receiver-name-in-metrics"],
                "secrets": [alertmanager.SECRETS] if settings.routes or settings.heartbeat else [],
                "affinity": OFF_GPU_NODES,
                "resources": _resources("50m", "128Mi"),
                "storage": _volume("5Gi"),
            },
        },
        "grafana": {
            "service": {"type": "ClusterIP"},
            "ingress": {"enabled": False},
            "admin": {"existingSecret": GRAFANA_SECRET, "userKey": "user", "passwordKey": "password"},
            "affinity": OFF_GPU_NODES,
            "resources": _resources("100m", "256Mi"),
            "persistence": {"enabled": True, "size": "5Gi"},
            "sidecar": {"dashboards": {"enabled": True, "folderAnnotation": "grafana_folder"}},
            "defaultDashboardsEnabled": True,
        },
        "kube-state-metrics": {"affinity": OFF_GPU_NODES, "resources": _resources("50m", "128Mi")},
        # On every node, for its network and disks; it asks for no GPU.
        "prometheus-node-exporter": {"resources": _resources("50m", "64Mi")},
    }


def _resources(cpu: str, memory: str) -> dict[str, Any]:
    return {"requests": {"cpu": cpu, "memory": memory}, "limits": {"memory": memory}}


def _volume(size: str) -> dict[str, Any]:
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}}
    return {"volumeClaimTemplate": {"spec": spec}}


def _most(size: str) -> str:
    """Nine tenths of a volume, as Prometheus writes sizes: it needs room for what it is just writing."""
    number, unit = int(size[:-2]), size[-2]
    gigabytes = number * (1024 if unit == "T" else 1)
    return f"{gigabytes * 9 // 10 or 1}GB"
