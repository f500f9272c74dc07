"""Every metric that the exporter has: docs/metrics.md is generated from this table, and nothing else is exported."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

Kind = Literal["gauge", "counter", "histogram"]
PREFIX = "gpuplatform_"

SECONDS_BUCKETS = (1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600)
STEPS_BUCKETS = (0, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)


@dataclass(frozen=True)
class Metric:
    """A metric.

    Attributes:
        name: whole, as it is queried; of a histogram without `_bucket`, `_sum` and `_count`.
        labels: that each of its series has.
        unit: of its values.
        source: what it comes from; it is absent while that does not answer.
    """

    name: str
    kind: Kind
    labels: tuple[str, ...]
    unit: str
    meaning: str
    source: str
    buckets: Sequence[int] = ()


_REPAIR = ("operation", "node", "pool", "leaf", "issue", "action")
_SHARE = ("share", "pool", "side")
_HISTORY, _CRUSOE, _SLURM, _KUBERNETES, _OWN = (
    "AutoClusters' history",
    "Crusoe's API",
    "slurmrestd",
    "Kubernetes",
    "exporter",
)
_JOB = "what the job tells (training/progress.py)"


def _gauge(name: str, labels: tuple[str, ...], unit: str, meaning: str, source: str) -> Metric:
    return Metric(f"{PREFIX}{name}", "gauge", labels, unit, meaning, source)


def _counter(name: str, labels: tuple[str, ...], unit: str, meaning: str, source: str) -> Metric:
    return Metric(f"{PREFIX}{name}", "counter", labels, unit, meaning, source)


METRICS: Sequence[Metric] = (
    _gauge("source_configured", ("source",), "0 or 1", "1 for a source that is asked, 0 for one that is off.", _OWN),
    _gauge("source_last_success_timestamp_seconds", ("source",), "s since 1970", "Last poll that was answered.", _OWN),
    _gauge("credential_expiry_timestamp_seconds", ("credential",), "s since 1970", "When a key or token ends.", _OWN),
    _gauge(
        "credential_accepted",
        ("credential",),
        "0 or 1",
        "0 while the API refuses the key or token: it has expired, was revoked or may not read this.",
        _OWN,
    ),
    _gauge("exporter_info", ("version",), "1", "The exporter's version.", _OWN),
    _gauge(
        "repair_state",
        (*_REPAIR, "state"),
        "1",
        "The state that a repair is in; kept for a day after its end.",
        f"{_HISTORY}, {_KUBERNETES}",
    ),
    _gauge("repair_start_timestamp_seconds", _REPAIR, "s since 1970", "When it began.", f"{_HISTORY}, {_KUBERNETES}"),
    _gauge("repair_end_timestamp_seconds", _REPAIR, "s since 1970", "When it was done or had failed.", _HISTORY),
    _counter("repairs_total", ("pool", "issue", "outcome"), "repairs", "Repairs that ended.", _HISTORY),
    _gauge("pool_nodes_wanted", ("pool",), "nodes", "Nodes that the pool is to have.", _CRUSOE),
    _gauge("pool_nodes_running", ("pool",), "nodes", "VMs of it that run.", _CRUSOE),
    _gauge("pool_nodes_ready", ("pool",), "nodes", "Nodes that are Ready and not cordoned.", _KUBERNETES),
    _gauge("pool_spare_hosts", ("pool",), "hosts", "Hosts of its VM type that could be started now.", _CRUSOE),
    _gauge("pool_info", ("pool", "vm_type", "vendor"), "1", "What the pool is made of.", "settings"),
    _gauge("node_info", ("node", "pool", "leaf", "vendor"), "1", "A node that is there.", _KUBERNETES),
    _gauge(
        "node_gpus",
        ("node", "pool", "view"),
        "GPUs",
        "GPUs of a node as its VM type (`expected`), `kubernetes` and `slurm` count them.",
        f"{_KUBERNETES}, {_SLURM}",
    ),
    _gauge("node_cordoned", ("node", "pool"), "0 or 1", "1 while it takes no new pods.", _KUBERNETES),
    _gauge(
        "slurm_node_drained",
        ("node", "slurm_node", "owner"),
        "1",
        "A node of Slurm that takes no jobs, and whose doing that is.",
        f"{_SLURM}, {_KUBERNETES}",
    ),
    _counter("job_requeues_total", ("job_id", "reason"), "restarts", "Restarts of a job that Slurm lists.", _SLURM),
    _gauge("job_held", ("job_id", "reason"), "1", "A job that waits until somebody releases it.", _SLURM),
    _gauge(
        "job_pending_for_nodes",
        ("job_id", "partition"),
        "nodes",
        "Nodes that a job waits for because there are none, not for its turn.",
        _SLURM,
    ),
    _gauge("job_running_nodes", ("job_id", "partition"), "nodes", "Nodes of a running job.", _SLURM),
    _gauge(
        "job_checkpoint_timestamp_seconds", ("job_id",), "s since 1970", "When its newest checkpoint was whole.", _JOB
    ),
    _gauge("job_checkpoint_interval_seconds", ("job_id",), "s", "Time between its two newest checkpoints.", _JOB),
    _gauge("job_step", ("job_id",), "steps", "Last step that it told of.", _JOB),
    _gauge(
        "job_gave_up_timestamp_seconds",
        ("job_id",),
        "s since 1970",
        "End of a job that gave up (exit code 67), while Slurm lists it, for a day at most.",
        _SLURM,
    ),
    _gauge("slurm_jobs", ("state",), "jobs", "Jobs that are pending, running, held, completing.", _SLURM),
    _gauge("share_floor_gpus", _SHARE, "GPUs", "What is promised to a share.", "settings"),
    _gauge("share_used_gpus", _SHARE, "GPUs", "What it has.", f"{_KUBERNETES}, {_SLURM}"),
    _gauge("share_wanted_gpus", _SHARE, "GPUs", "What it has and what it waits for.", f"{_KUBERNETES}, {_SLURM}"),
    _gauge("share_borrowed_gpus", _SHARE, "GPUs", "What it has beyond its floor.", f"{_KUBERNETES}, {_SLURM}"),
    _gauge("borrowed_nodes", ("pool",), "nodes", "Nodes that Slurm has borrowed and runs workers on.", _KUBERNETES),
    _gauge("quota_used", ("quota",), "the API's", "What is used of a quota.", _CRUSOE),
    _gauge("quota_limit", ("quota",), "the API's", "What a quota allows.", _CRUSOE),
    Metric(
        f"{PREFIX}recovery_seconds",
        "histogram",
        ("pool", "stage"),
        "s",
        "Stages of the recoveries that this exporter has seen or found on record.",
        f"{_SLURM}, {_HISTORY}, {_JOB}",
        SECONDS_BUCKETS,
    ),
    _gauge(
        "recovery_last_seconds",
        ("pool", "stage"),
        "s",
        "The same of the latest recovery.",
        f"{_SLURM}, {_HISTORY}, {_JOB}",
    ),
    Metric(
        f"{PREFIX}recovery_steps_lost",
        "histogram",
        ("pool",),
        "steps",
        "Steps that were taken again after a failure.",
        _JOB,
        STEPS_BUCKETS,
    ),
    _gauge(
        "effective_training_time_ratio",
        ("job_id",),
        "0 to 1",
        "Share of the time for which a job had its nodes that went into steps whose result is still there.",
        _JOB,
    ),
    _gauge("job_useful_node_seconds", ("job_id",), "node seconds", "That time, times the job's nodes.", _JOB),
    _gauge("job_allocated_node_seconds", ("job_id",), "node seconds", "What that is a share of.", _JOB),
)

BY_NAME: Mapping[str, Metric] = {each.name: each for each in METRICS}
