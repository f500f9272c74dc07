"""Monitoring itself: what says nothing is not healthy, and is never a fault either.

Each source has its own alert, and one is for all of them. No rule joins two `absent()` on labels: each gives the labels
of its own selector, so a join on all of them would never find a partner.
"""

from components.observability.rules import Alert, Need

_EXPORTER: frozenset[Need] = frozenset({"exporter"})
_DO = "`kubectl -n monitoring get pods`, then Prometheus' page Targets: it says why the source can't be read."


def _gpus(vendor: str) -> str:
    """Holds where a pool of this vendor's GPUs is known to have no node now."""
    pools = f'gpuplatform_pool_nodes_running and on (pool) gpuplatform_pool_info{{vendor="{vendor}"}}'
    return f"sum({pools}) == 0"


def _gpu_alerts(vendor: str, words: str, series: str, need: Need) -> list[Alert]:
    title = "GpuMetricsSilent" if vendor == "nvidia" else "AmdGpuMetricsSilent"
    return [
        Alert(
            title,
            f"absent({series}) unless on () ({_gpus(vendor)})",
            "10m",
            "ticket",
            f"No {words} GPU says anything: faults of GPUs would not be seen.",
            "The exporter on the GPU nodes is gone or can't be scraped. It says nothing about the GPUs themselves.",
            f"The pods of the {words} exporter on the GPU nodes.",
            _DO,
            frozenset({need}),
        ),
        Alert(
            f"{title.removesuffix('Silent')}SilentOnNode",
            f'gpuplatform_node_info{{vendor="{vendor}"}} unless on (node) group by (node) ({series})'
            f" and on () group({series})",
            "15m",
            "ticket",
            f"Node {{{{ $labels.node }}}} says nothing about its {words} GPUs, while others do.",
            "The exporter on that node is gone. It says nothing about the GPUs themselves.",
            "The exporter's pod on that node.",
            _DO,
            frozenset({need, "exporter"}),
        ),
    ]


def alerts() -> list[Alert]:
    """Alerts about silence."""
    return [
        Alert(
            "SourceSilent",
            "gpuplatform_source_configured == 1 unless on (source)"
            " (time() - gpuplatform_source_last_success_timestamp_seconds < 300)",
            "5m",
            "ticket",
            "The exporter has not been able to read {{ $labels.source }} for 5 minutes.",
            "Figures from that source are gone, and its alerts are silent. Nothing is known to be wrong with what it "
            "tells about.",
            "The exporter's log names the error.",
            "Mend the way to the source or its key.",
            _EXPORTER,
        ),
        Alert(
            "ExporterSilent",
            "absent(gpuplatform_exporter_info)",
            "10m",
            "ticket",
            "The platform's exporter says nothing: repairs, jobs and shares are not watched.",
            "The exporter is gone or can't be scraped.",
            "`kubectl -n monitoring get pods -l app.kubernetes.io/name=gpuplatform-exporter`",
            _DO,
            _EXPORTER,
        ),
        Alert(
            "SlurmMetricsSilent",
            "absent(slurm_nodes)",
            "10m",
            "ticket",
            "Slurm's own metrics are not there.",
            "slurmctld is down (SlurmControllerDown says so), or its token is refused.",
            "`kubectl -n slurm get secret slurm-token-metrics`, and Prometheus' page Targets.",
            _DO,
            _SLURM,
        ),
        *_gpu_alerts("nvidia", "NVIDIA", "DCGM_FI_DEV_GPU_TEMP", "nvidia"),
        *_gpu_alerts("amd", "AMD", "gpu_health", "amd"),
        Alert(
            "KubernetesMetricsSilent",
            "absent(kube_node_info)",
            "10m",
            "ticket",
            "Kubernetes' own metrics are not there: programs that are down would not be seen.",
            "kube-state-metrics is gone or can't be scraped.",
            "The pod of kube-state-metrics.",
            _DO,
        ),
        Alert(
            "EverythingSilent",
            "absent(gpuplatform_exporter_info) and on () absent(kube_node_info)",
            "10m",
            "page",
            "Nothing of the platform says anything: no other alert can fire.",
            "The exporter and Kubernetes' metrics are gone together, so Prometheus itself can't reach the cluster.",
            "Prometheus' page Targets; network policies and DNS of the namespace monitoring.",
            _DO,
            _EXPORTER,
        ),
        Alert(
            "NotificationsFail",
            "sum by (integration) (rate(alertmanager_notifications_failed_total[10m])) > 0",
            "10m",
            "ticket",
            "Alertmanager can't deliver to {{ $labels.integration }}.",
            "A receiver refuses, hangs or can't be reached. Other routes are not held up by it.",
            "`make test-alert` names the route; Alertmanager's log has the answer it got.",
            "Mend the route's secret or the receiver.",
        ),
        Alert(
            "RulesFail",
            "sum by (rule_group) (increase(prometheus_rule_evaluation_failures_total[10m])) > 0",
            "10m",
            "ticket",
            "Rules of {{ $labels.rule_group }} fail, so their alerts are silent.",
            "Prometheus can't evaluate them: mostly series that exist twice.",
            "Prometheus' page Rules has the error.",
            "Take away what exports a series twice.",
        ),
        Alert(
            "Watchdog",
            "vector(1)",
            "0s",
            "heartbeat",
            "Monitoring works. This alert fires always.",
            "It feeds the heartbeat outside, which notices when it stops.",
            "Nothing.",
            "Nothing.",
        ),
    ]


_SLURM: frozenset[Need] = frozenset({"slinky"})
