"""Every series that rules and dashboards may ask for, with its labels and who says so.

A query that names a metric or label that is not here is a fault, found by a test: a misspelt one would be silent for
good, since "no such series" and "no fault" look the same to Prometheus.

Sources (read 2026-11): the exporter of this project; NVIDIA dcgm-exporter's default and commented counters; AMD
device-metrics-exporter's list of metrics; Slurm 26.05's plugin metrics/openmetrics, read out of the plugin itself;
kube-state-metrics, node-exporter, cert-manager, Kueue, Prometheus and Alertmanager as documented by each.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Kind = Literal["gauge", "counter", "histogram"]
Exporter = Literal[
    "gpuplatform", "dcgm", "amd", "slurm", "kube-state-metrics", "node-exporter", "cert-manager", "kueue", "monitoring"
]

_REPAIR = ("operation", "node", "pool", "leaf", "issue", "action")
_SHARE = ("share", "pool", "side")


@dataclass(frozen=True)
class Metric:
    """One metric: who exports it, and the labels that a query may use."""

    exporter: Exporter
    kind: Kind
    labels: tuple[str, ...] = ()


def _ours(kind: Kind, *labels: str) -> Metric:
    return Metric("gpuplatform", kind, labels)


def _port() -> Metric:
    """A counter of an InfiniBand port."""
    return Metric("node-exporter", "counter", ("instance", "device", "port"))


METRICS: Mapping[str, Metric] = {
    "gpuplatform_source_configured": _ours("gauge", "source"),
    "gpuplatform_source_last_success_timestamp_seconds": _ours("gauge", "source"),
    "gpuplatform_credential_expiry_timestamp_seconds": _ours("gauge", "credential"),
    "gpuplatform_credential_accepted": _ours("gauge", "credential"),
    "gpuplatform_exporter_info": _ours("gauge", "version"),
    "gpuplatform_repair_state": _ours("gauge", *_REPAIR, "state"),
    "gpuplatform_repair_start_timestamp_seconds": _ours("gauge", *_REPAIR),
    "gpuplatform_repair_end_timestamp_seconds": _ours("gauge", *_REPAIR),
    "gpuplatform_repairs_total": _ours("counter", "pool", "issue", "outcome"),
    "gpuplatform_pool_nodes_wanted": _ours("gauge", "pool"),
    "gpuplatform_pool_nodes_running": _ours("gauge", "pool"),
    "gpuplatform_pool_nodes_ready": _ours("gauge", "pool"),
    "gpuplatform_pool_spare_hosts": _ours("gauge", "pool"),
    "gpuplatform_pool_info": _ours("gauge", "pool", "vm_type", "vendor"),
    "gpuplatform_node_info": _ours("gauge", "node", "pool", "leaf", "vendor"),
    "gpuplatform_node_gpus": _ours("gauge", "node", "pool", "view"),
    "gpuplatform_node_cordoned": _ours("gauge", "node", "pool"),
    "gpuplatform_slurm_node_drained": _ours("gauge", "node", "slurm_node", "owner"),
    "gpuplatform_job_requeues_total": _ours("counter", "job_id", "reason"),
    "gpuplatform_job_held": _ours("gauge", "job_id", "reason"),
    "gpuplatform_job_pending_for_nodes": _ours("gauge", "job_id", "partition"),
    "gpuplatform_job_running_nodes": _ours("gauge", "job_id", "partition"),
    "gpuplatform_job_checkpoint_timestamp_seconds": _ours("gauge", "job_id"),
    "gpuplatform_job_checkpoint_interval_seconds": _ours("gauge", "job_id"),
    "gpuplatform_job_step": _ours("gauge", "job_id"),
    "gpuplatform_job_gave_up_timestamp_seconds": _ours("gauge", "job_id"),
    "gpuplatform_slurm_jobs": _ours("gauge", "state"),
    "gpuplatform_share_floor_gpus": _ours("gauge", *_SHARE),
    "gpuplatform_share_used_gpus": _ours("gauge", *_SHARE),
    "gpuplatform_share_wanted_gpus": _ours("gauge", *_SHARE),
    "gpuplatform_share_borrowed_gpus": _ours("gauge", *_SHARE),
    "gpuplatform_borrowed_nodes": _ours("gauge", "pool"),
    "gpuplatform_quota_used": _ours("gauge", "quota"),
    "gpuplatform_quota_limit": _ours("gauge", "quota"),
    "gpuplatform_recovery_seconds": _ours("histogram", "pool", "stage"),
    "gpuplatform_recovery_last_seconds": _ours("gauge", "pool", "stage"),
    "gpuplatform_recovery_steps_lost": _ours("histogram", "pool"),
    "gpuplatform_effective_training_time_ratio": _ours("gauge", "job_id"),
    "gpuplatform_job_useful_node_seconds": _ours("gauge", "job_id"),
    "gpuplatform_job_allocated_node_seconds": _ours("gauge", "job_id"),
    # `node` is put on by this project's own scrape configuration, from the pod's node.
    "DCGM_FI_DEV_XID_ERRORS": Metric("dcgm", "gauge", ("node", "gpu", "UUID")),
    "DCGM_EXP_XID_ERRORS_COUNT": Metric("dcgm", "gauge", ("node", "gpu", "UUID", "xid", "instance")),
    "DCGM_EXP_XID_ERRORS_TOTAL": Metric("dcgm", "counter", ("node", "gpu", "UUID", "xid", "instance")),
    "DCGM_FI_DEV_GPU_UTIL": Metric("dcgm", "gauge", ("node", "gpu", "UUID")),
    "DCGM_FI_DEV_GPU_TEMP": Metric("dcgm", "gauge", ("node", "gpu", "UUID")),
    "DCGM_FI_DEV_POWER_USAGE": Metric("dcgm", "gauge", ("node", "gpu", "UUID")),
    "DCGM_FI_DEV_FB_USED": Metric("dcgm", "gauge", ("node", "gpu", "UUID")),
    "gpu_health": Metric("amd", "gauge", ("node", "gpu_id")),
    "gpu_gfx_activity": Metric("amd", "gauge", ("node", "gpu_id")),
    "gpu_ecc_uncorrect_total": Metric("amd", "counter", ("node", "gpu_id")),
    "slurm_nodes": Metric("slurm", "gauge"),
    "slurm_nodes_alloc": Metric("slurm", "gauge"),
    "slurm_nodes_idle": Metric("slurm", "gauge"),
    "slurm_nodes_drain": Metric("slurm", "gauge"),
    "slurm_nodes_down": Metric("slurm", "gauge"),
    "slurm_jobs_running": Metric("slurm", "gauge"),
    "slurm_jobs_pending": Metric("slurm", "gauge"),
    "kube_node_info": Metric("kube-state-metrics", "gauge", ("node",)),
    "kube_resourcequota": Metric("kube-state-metrics", "gauge", ("namespace", "resource", "type")),
    "kube_deployment_spec_replicas": Metric("kube-state-metrics", "gauge", ("namespace", "deployment")),
    "kube_deployment_status_replicas": Metric("kube-state-metrics", "gauge", ("namespace", "deployment")),
    "kube_deployment_status_replicas_available": Metric("kube-state-metrics", "gauge", ("namespace", "deployment")),
    "kube_statefulset_status_replicas_ready": Metric("kube-state-metrics", "gauge", ("namespace", "statefulset")),
    "node_infiniband_port_data_received_bytes_total": _port(),
    "node_infiniband_port_data_transmitted_bytes_total": _port(),
    "node_infiniband_link_downed_total": _port(),
    "node_infiniband_link_error_recovery_total": _port(),
    "node_infiniband_symbol_error_total": _port(),
    "node_network_receive_bytes_total": Metric("node-exporter", "counter", ("instance", "device")),
    "node_network_transmit_bytes_total": Metric("node-exporter", "counter", ("instance", "device")),
    "certmanager_certificate_expiration_timestamp_seconds": Metric(
        "cert-manager", "gauge", ("name", "exported_namespace")
    ),
    "kueue_pending_workloads": Metric("kueue", "gauge", ("cluster_queue", "status")),
    "alertmanager_notifications_failed_total": Metric("monitoring", "counter", ("integration", "reason")),
    "prometheus_rule_evaluation_failures_total": Metric("monitoring", "counter", ("rule_group",)),
    "up": Metric("monitoring", "gauge", ("job", "instance", "node")),
}
"""By name; a histogram's `_bucket`, `_sum` and `_count` belong to it."""
