"""Slurm's jobs: held, requeued too often, without a fresh checkpoint, given up."""

from components.observability.rules import Alert, Limits, Need

_NEEDS: frozenset[Need] = frozenset({"slurm", "exporter"})
_AGE = "(time() - gpuplatform_job_checkpoint_timestamp_seconds and on (job_id) gpuplatform_job_running_nodes)"
_INTERVAL = "gpuplatform_job_checkpoint_interval_seconds"


def alerts(limits: Limits) -> list[Alert]:
    """Alerts about jobs."""
    return [
        Alert(
            "JobHeld",
            'gpuplatform_job_held{reason=~"launch_failed|requeue_hold"} == 1',
            "2m",
            "page",
            "Job {{ $labels.job_id }} is held by Slurm ({{ $labels.reason }}) and never starts by itself; "
            "`scontrol release {{ $labels.job_id }}` lets it go.",
            "Slurm put the job on hold after failed launches or by its own requeue-and-hold. Jobs that their users or "
            "an administrator hold are not meant.",
            "`scontrol show job <id>`, and the drained nodes: a node on which each launch fails is the usual cause.",
            "Drain that node, then `scontrol release <id>`.",
            _NEEDS,
        ),
        Alert(
            "JobRequeuedTooOften",
            f'sum by (job_id) (gpuplatform_job_requeues_total{{reason!="other"}}) > {limits.requeues}',
            "0s",
            "ticket",
            "Job {{ $labels.job_id }} has been started again {{ $value }} times.",
            f"More than {limits.requeues} restarts by failed nodes or by its own failures.",
            "The job's log: does it fail at one step, or on one node?",
            "One step: mend the job. One node: drain it.",
            _NEEDS,
        ),
        Alert(
            "CheckpointTooOld",
            f"{_AGE} > on (job_id) 3 * {_INTERVAL}"
            f" or {_AGE} > {limits.checkpoint_minutes * 60} unless on (job_id) {_INTERVAL}",
            "5m",
            "ticket",
            "Job {{ $labels.job_id }} runs without a new checkpoint for {{ $value | humanizeDuration }}.",
            "Three times the interval that the job means to save in is over, or "
            f"{limits.checkpoint_minutes} minutes where it does not say. A failure now loses all of that.",
            "The job's log for errors while saving; free space of the checkpoints' disk.",
            "Free space, or mend the saving. The job runs on meanwhile.",
            _NEEDS,
        ),
        Alert(
            "JobGaveUp",
            "time() - gpuplatform_job_gave_up_timestamp_seconds < 86400",
            "0s",
            "ticket",
            "Job {{ $labels.job_id }} gave up: it failed three times without a newer checkpoint.",
            "The job ended itself with exit code 67 rather than start for ever (docs/training.md). Failed nodes "
            "don't count.",
            "The job's log of its last three attempts.",
            "Mend the job and submit it again; it goes on from its last checkpoint.",
            _NEEDS,
        ),
    ]
