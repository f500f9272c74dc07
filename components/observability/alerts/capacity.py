"""Room: spares, floors of shares, quotas."""

from components.observability.rules import Alert, Limits, Need

_SHARING: frozenset[Need] = frozenset({"sharing", "exporter"})
_EXPORTER: frozenset[Need] = frozenset({"exporter"})

_NOT_MADE = "(kube_deployment_spec_replicas - kube_deployment_status_replicas)"
_USED, _HARD = (f'kube_resourcequota{{resource=~"requests[.].+/gpu", type="{kind}"}}' for kind in ("used", "hard"))


def alerts(limits: Limits) -> list[Alert]:
    """Alerts about room."""
    return [
        Alert(
            "NoSpare",
            "gpuplatform_pool_spare_hosts == 0 and on () sum(gpuplatform_job_pending_for_nodes) > 0",
            "10m",
            "page",
            "Pool {{ $labels.pool }} has no spare host left, and jobs wait for nodes.",
            "A job waits for nodes, and a repair would find no host to take. It does not heal by itself.",
            "`squeue -t PD -o '%i %r %D'`, and the capacity of the location.",
            "Lower `reserve` no further; ask Crusoe for capacity, or cancel what may wait.",
            frozenset({"slurm", "autoclusters", "exporter"}),
        ),
        Alert(
            "SpareGone",
            "gpuplatform_pool_spare_hosts == 0",
            "15m",
            "ticket",
            "Pool {{ $labels.pool }} has no spare host left; the next repair has to wait.",
            "Crusoe has no free host of this type for a repair. Nothing waits for it yet.",
            "The capacity of the location and of the reservation.",
            "Ask Crusoe for capacity, or give the pool a `reserve`.",
            frozenset({"autoclusters", "exporter"}),
        ),
        Alert(
            "FloorNotMet",
            "(gpuplatform_share_used_gpus < gpuplatform_share_floor_gpus)"
            " and (gpuplatform_share_used_gpus < gpuplatform_share_wanted_gpus)",
            "10m",
            "page",
            "Share {{ $labels.share }} of pool {{ $labels.pool }} has {{ $value }} GPUs, less than its floor, and "
            "wants more.",
            "What was promised is not given, for longer than lent nodes take to come back. An idle floor is no alert.",
            "`make plan` has the sums, the dashboard Sharing who holds what.",
            "docs/gpu-sharing.md; if a borrowed node does not come back, drain its worker.",
            _SHARING,
        ),
        Alert(
            "ShareQuotaUsedUp",
            f"sum by (namespace) ({_NOT_MADE} > 0) and on (namespace) ({_USED} >= ignoring (type) {_HARD})",
            "15m",
            "info",
            "{{ $value }} replicas in {{ $labels.namespace }} are not made: the quota of GPUs is used up.",
            "A share asks for more than its ceiling. That is what a ceiling is for.",
            "`kubectl describe resourcequota` in that namespace, and the events of its Deployments.",
            "Raise the ceiling if it is to have more.",
            frozenset({"sharing"}),
        ),
        Alert(
            "KueueWorkloadsInadmissible",
            'kueue_pending_workloads{status="inadmissible"} > 0',
            "30m",
            "info",
            "{{ $value }} workloads of queue {{ $labels.cluster_queue }} can't be admitted as they are.",
            "Kueue keeps them back until something changes: quota, or what they ask for.",
            "`kubectl get workloads -A` and their conditions.",
            "Mend what the condition names.",
            frozenset({"kueue"}),
        ),
        Alert(
            "QuotaPressure",
            f"100 * gpuplatform_quota_used / (gpuplatform_quota_limit > 0) > {limits.quota_percent}",
            "30m",
            "ticket",
            'Quota {{ $labels.quota }} of the project is used by {{ $value | printf "%.0f" }} %.',
            f"More than {limits.quota_percent} % of a quota is used: the next pool, or a repair that takes a host "
            "before it gives one back, may be refused.",
            "The project's quotas in Crusoe's console.",
            "Ask Crusoe to raise it, or free what is not needed.",
            _EXPORTER,
        ),
    ]
