"""AutoClusters' repairs: begun, stuck, failed, too many."""

from components.observability.rules import Alert, Limits, Need

_NEEDS: frozenset[Need] = frozenset({"autoclusters", "exporter"})
_OPEN = 'gpuplatform_repair_state{state=~"detected|notified|draining|replacing"}'
_REPAIR = "operation, node, pool, leaf, issue, action"
_START = "gpuplatform_repair_start_timestamp_seconds"
_END = "gpuplatform_repair_end_timestamp_seconds"


def alerts(limits: Limits) -> list[Alert]:
    """Alerts about repairs."""
    many = limits.repairs_per_hour
    recent, at_once = f"(time() - {_START} < 3600)", f"time() - {_START} < 600"
    return [
        Alert(
            "RepairStarted",
            _OPEN,
            "0s",
            "info",
            "AutoClusters repairs node {{ $labels.node }} of pool {{ $labels.pool }} because of {{ $labels.issue }}.",
            "A repair is on. Its jobs are requeued and start again when the new node is there.",
            "The dashboard Repairs.",
            "Nothing.",
            _NEEDS,
        ),
        Alert(
            "RepairStuck",
            f"(time() - {_START} and on ({_REPAIR}) {_OPEN}) > {limits.repair_minutes * 60}"
            f' or (time() - {_START} and on ({_REPAIR}) gpuplatform_repair_state{{state="stuck"}})',
            "0s",
            "page",
            "The repair of node {{ $labels.node }} of pool {{ $labels.pool }} has been on for "
            "{{ $value | humanizeDuration }} and does not end.",
            f"A repair takes longer than {limits.repair_minutes} minutes, or AutoClusters itself says that it does not "
            "go on.",
            "The operation in the dashboard Repairs, then `kubectl get pods` on that node: a pod that "
            "nobody may evict is the usual cause.",
            "Free the node of what holds it. If Crusoe has no spare host, RepairFailed or NoSpare says so.",
            _NEEDS,
        ),
        Alert(
            "RepairFailed",
            f'{_END} and on ({_REPAIR}) gpuplatform_repair_state{{state="failed"}}'
            f' unless on (node) (max by (node) ({_END} and on ({_REPAIR}) gpuplatform_repair_state{{state="done"}})'
            f' > on (node) max by (node) ({_END} and on ({_REPAIR}) gpuplatform_repair_state{{state="failed"}}))',
            "10m",
            "page",
            "The repair of node {{ $labels.node }} of pool {{ $labels.pool }} failed.",
            "AutoClusters gave up and did not try again, and the node stays out of work. The alert ends when "
            "a later repair of the node is done, or after a day.",
            "The operation's message in Crusoe's console.",
            "Free a host or quota as the message says, then have the node repaired by hand.",
            _NEEDS,
        ),
        Alert(
            "RepairStorm",
            f'count by (leaf) (time() - {_START}{{leaf!="none"}} < 3600) > {many}'
            f' or label_replace(count {recent} > {many}, "leaf", "all", "", "")'
            f' or label_replace(count(count by (node) ({at_once})) > {many}, "leaf", "one event", "", "")',
            "0s",
            "page",
            "{{ $value }} repairs have begun within a short time ({{ $labels.leaf }}); the cause may not be the nodes.",
            f"More than {many} repairs in one hour, in the whole stack or in one leaf, or on as many nodes within ten "
            "minutes. A switch, a power feed or a driver looks like many broken nodes, and new nodes don't cure it.",
            "Whether the nodes share a leaf, a rack or an image.",
            "Stop repairs with `make autoclusters ACTION=off` (with `STACK=`). It writes the pause into the stack's "
            "settings, so the next `up` keeps it; `ACTION=on` ends it.",
            _NEEDS,
        ),
    ]
