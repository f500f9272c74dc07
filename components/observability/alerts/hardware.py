"""GPUs and nodes: lost GPUs, XID errors by class, nodes that are gone or stay out.

An XID is read from whichever of dcgm-exporter's three series there is. DCGM_EXP_XID_ERRORS_TOTAL counts; the older
DCGM_EXP_XID_ERRORS_COUNT counts within a window that moves; DCGM_FI_DEV_XID_ERRORS, the only one that is on by default,
keeps the code of the last error for good. So a value of it is no error: a change of it is. A second error of the same
code does not change it, and only the other two show it.

Missing data is nothing here: no series gives no alert. `silence` tells of it.
"""

from components.observability.rules import Alert, Need, Record
from crusoe.rules.autoclusters import OF_APPLICATIONS

_NVIDIA: frozenset[Need] = frozenset({"nvidia"})
_AMD: frozenset[Need] = frozenset({"amd"})

HARDWARE_XIDS = (32, 48, 64, 74, 79, 95, 119, 120, 140, 143)
"""Codes that Crusoe's health page calls degraded or unhealthy (read 2026-10)."""
APPLICATION_XIDS = tuple(sorted(int(each.removeprefix("XID_")) for each in OF_APPLICATIONS))

_LOOK_BACK = "15m"
_EVENT = "gpuplatform:xid_new"
_OPEN = "gpuplatform:xid_open_timestamp_seconds"
_BY = "sum by (node, gpu, xid)"
_TOTAL, _COUNT = "DCGM_EXP_XID_ERRORS_TOTAL", "DCGM_EXP_XID_ERRORS_COUNT"
_LAST_EVENT = f"max_over_time(timestamp({_EVENT})[{_LOOK_BACK}:1m])"
_REPAIRED = "max by (node) (gpuplatform_repair_end_timestamp_seconds)"


def _grown(series: str) -> str:
    """How many more than at the look before; a series that begins counts if its exporter was there before it."""
    begun = f"({series} unless {series} offset 1m) and on (instance) (up offset 1m == 1)"
    return f"{_BY} ({series} - {series} offset 1m > 0) or {_BY} ({begun})"


_CHANGED = (
    "count_values by (node, gpu) "
    '("xid", gpuplatform:xid_last != 0 and gpuplatform:xid_last != gpuplatform:xid_last offset 1m)'
)

RECORDS = (
    # The exporter's newer versions put the code into a label too, which would make another series of each.
    Record(
        "gpuplatform:xid_last",
        "max by (node, gpu, UUID) (DCGM_FI_DEV_XID_ERRORS)",
        ("node", "gpu", "UUID"),
        _NVIDIA,
    ),
    Record(_EVENT, f"{_grown(_TOTAL)} or {_grown(_COUNT)} or {_CHANGED}", ("node", "gpu", "xid"), _NVIDIA),
    # What was repaired since is closed, however long the gauge goes on about it.
    Record(
        _OPEN,
        f"({_LAST_EVENT} > on (node) group_left () {_REPAIRED}) or ({_LAST_EVENT} unless on (node) {_REPAIRED})",
        ("node", "gpu", "xid"),
        _NVIDIA,
    ),
    Record(
        "gpuplatform:gpus_seen",
        "count by (node) (group by (node, gpu) (DCGM_FI_DEV_GPU_TEMP)) or count by (node) (gpu_health)",
        ("node",),
        frozenset({"gpu"}),
    ),
)

_EXPECTED = 'max by (node, pool) (gpuplatform_node_gpus{view="expected"})'


def alerts() -> list[Alert]:
    """Alerts about hardware."""
    hardware, application = ("|".join(map(str, each)) for each in (HARDWARE_XIDS, APPLICATION_XIDS))
    return [
        Alert(
            "GpuLost",
            f'(max by (node, pool) (gpuplatform_node_gpus{{view="kubernetes"}}) < {_EXPECTED})'
            f" or (gpuplatform:gpus_seen < on (node) group_right () {_EXPECTED})",
            "3m",
            "ticket",
            "Node {{ $labels.node }} of pool {{ $labels.pool }} shows {{ $value }} GPUs, fewer than its VM type has.",
            "A GPU is gone from what Kubernetes offers or from what the GPU exporter sees. Where AutoClusters may, it "
            "replaces the node; then this ends by itself. An exporter that is gone gives no count and no alert.",
            "`make check` compares the counts of Slurm, Kubernetes and the catalogue.",
            "Wait for the repair if AutoClusters is on for this fault. Else drain the node and have it replaced "
            "(docs/node-failure.md).",
            frozenset({"gpu", "exporter"}),
        ),
        Alert(
            "GpuUnhealthy",
            "gpu_health == 0",
            "2m",
            "ticket",
            "GPU {{ $labels.gpu_id }} of node {{ $labels.node }} is unhealthy, says AMD's exporter.",
            "The AMD device metrics exporter calls the GPU unhealthy. AutoClusters does not support AMD types, so "
            "nothing repairs it.",
            "`rocm-smi` on the node, and the exporter's other series of that GPU.",
            "Drain the node and open a ticket with Crusoe.",
            _AMD,
        ),
        Alert(
            "GpuMemoryErrors",
            "increase(gpu_ecc_uncorrect_total[15m]) > 0",
            "0s",
            "ticket",
            "GPU {{ $labels.gpu_id }} of node {{ $labels.node }} had memory errors that could not be corrected.",
            "Uncorrectable ECC errors end what uses that memory, and come back on a GPU that is going.",
            "The exporter's `gpu_ecc_uncorrect_*` series tell which part of the GPU.",
            "Drain the node if they come again, and open a ticket with Crusoe.",
            _AMD,
        ),
        Alert(
            "XidHardware",
            f'{_OPEN}{{xid=~"{hardware}"}}',
            "0s",
            "ticket",
            "GPU {{ $labels.gpu }} of node {{ $labels.node }} reported XID {{ $labels.xid }}, a hardware error.",
            f"One of the codes {', '.join(map(str, HARDWARE_XIDS))} was new in the last {_LOOK_BACK}, and the node has "
            "not been repaired since. The alert ends with the repair. The gauge that keeps the last code for good does "
            "not keep it open.",
            "The dashboard Repairs, and `dmesg | grep Xid` on the node.",
            "Nothing, if AutoClusters is on for this code. Else drain the node.",
            _NVIDIA,
            {"class": "hardware"},
        ),
        Alert(
            "XidApplication",
            f'{_OPEN}{{xid=~"{application}"}}',
            "0s",
            "info",
            "GPU {{ $labels.gpu }} of node {{ $labels.node }} reported XID {{ $labels.xid }}, mostly an error of the "
            "application.",
            f"The codes {', '.join(map(str, APPLICATION_XIDS))} come from what the job does. They come back on every "
            "node that the job is moved to, so a new node does not cure them.",
            "The job's own log at that moment; whether other jobs on the node raise it too.",
            "Mend the job. If several jobs raise it on one node, drain the node and run `dcgmi diag -r 3`.",
            _NVIDIA,
            {"class": "application"},
        ),
        Alert(
            "XidOther",
            f'{_OPEN}{{xid!~"{hardware}|{application}"}}',
            "0s",
            "info",
            "GPU {{ $labels.gpu }} of node {{ $labels.node }} reported XID {{ $labels.xid }}.",
            "A code that is neither known as a fault of the hardware nor as one of applications.",
            "NVIDIA's list of XID errors, and `dmesg | grep Xid` on the node.",
            "Look it up. If it comes again on this node alone, drain the node.",
            _NVIDIA,
            {"class": "other"},
        ),
        Alert(
            "NodesMissing",
            "gpuplatform_pool_nodes_running < gpuplatform_pool_nodes_wanted"
            ' unless on (pool) gpuplatform_repair_state{state=~"detected|notified|draining|replacing"}',
            "15m",
            "ticket",
            "Pool {{ $labels.pool }} has {{ $value }} running nodes, fewer than it is to have, and no repair is on.",
            "Nodes are gone, with all that they would have told. Who says nothing bad is not healthy for that.",
            "`kubectl get nodes`, and the pool in Crusoe's console.",
            "`make up` tops the pool up. If it says that there is no capacity, docs/troubleshooting.md has what helps.",
            frozenset({"exporter"}),
        ),
        Alert(
            "NodeDrained",
            'max by (node, slurm_node, owner) (gpuplatform_slurm_node_drained{owner!="human"})'
            ' unless on (node) max by (node) (gpuplatform_repair_state{state=~"detected|notified|draining|replacing"})',
            "30m",
            "ticket",
            "Slurm node {{ $labels.slurm_node }} has been out for 30 minutes; {{ $labels.owner }} took it out.",
            "A machine took the node out and has not brought it back, and no repair is on. Drains by people are left "
            "alone.",
            "`scontrol show node` has the reason in full.",
            "docs/troubleshooting.md, `A node stays drained`.",
            frozenset({"slurm", "exporter"}),
        ),
        Alert(
            "GpuCountMismatch",
            f'max by (node, pool) (gpuplatform_node_gpus{{view="slurm"}}) != {_EXPECTED}',
            "5m",
            "ticket",
            "Slurm sees {{ $value }} GPUs on node {{ $labels.node }}, and its VM type has another number.",
            "A node came up with another number of GPUs than configured, so Slurm calls it invalid and keeps it out. "
            "Nothing takes it in again by itself, and no repair is begun for it.",
            "`make check` shows all counts of the node.",
            "Have the node replaced: `crusoe` console, or AutoClusters' repair by hand.",
            frozenset({"slurm", "gpu", "exporter"}),
        ),
    ]
