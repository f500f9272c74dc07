"""What each alert makes of made-up series: at least one case that fires and one that stays quiet, per alert.

Series are in promtool's notation, a value a minute: `0x3 79x60` is four times 0, then 61 times 79; `_x5` is five times
nothing. The first minute is the beginning of time, so a timestamp is minutes times 60.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

Labels = Mapping[str, str]
Series = Mapping[str, str]


@dataclass(frozen=True)
class Case:
    """Series, and the alerts that fire at some minutes, each by the labels that tell it from others."""

    what: str
    series: Series
    fires: Mapping[int, Sequence[Labels]]
    samples: Mapping[tuple[int, str], float] = field(default_factory=dict[tuple[int, str], float])
    """Values of other expressions, by minute and expression; none may have labels."""


def fires(what: str, series: Series, minute: int, *labels: Labels) -> Case:
    return Case(what, series, {minute: labels})


def quiet(what: str, series: Series, *minutes: int) -> Case:
    return Case(what, series, {minute: [] for minute in minutes or (30,)})


def gpus(node: str = "n1", **views: str) -> Series:
    return {
        f'gpuplatform_node_gpus{{node="{node}", pool="train", view="{view}"}}': values for view, values in views.items()
    }


def repair(
    state: str, *, operation: str = "op1", node: str = "n1", leaf: str = "leaf1", start: str = "0x200", end: str = ""
) -> Series:
    labels = (
        f'operation="{operation}", node="{node}", pool="train", leaf="{leaf}", issue="XID_79", action="REPLACE_NODE"'
    )
    return {
        f'gpuplatform_repair_state{{{labels}, state="{state}"}}': "1x200",
        f"gpuplatform_repair_start_timestamp_seconds{{{labels}}}": start,
        **({f"gpuplatform_repair_end_timestamp_seconds{{{labels}}}": end} if end else {}),
    }


GAUGE = 'DCGM_FI_DEV_XID_ERRORS{node="n1", gpu="0", UUID="GPU-a"}'
COUNT = 'DCGM_EXP_XID_ERRORS_COUNT{node="n1", gpu="0", UUID="GPU-a", xid="79", instance="n1:9400"}'
TOTAL = 'DCGM_EXP_XID_ERRORS_TOTAL{node="n1", gpu="0", UUID="GPU-a", xid="79", instance="n1:9400"}'
UP = {'up{job="dcgm", instance="n1:9400"}': "1x500"}
HIT = {"node": "n1", "gpu": "0", "xid": "79"}
EVENTS = "sum(sum_over_time(gpuplatform:xid_new[1d]))"
HELD = 'gpuplatform_job_held{job_id="7", reason="%s"}'
CONFIGURED = 'gpuplatform_source_configured{source="%s"}'
SUCCESS = 'gpuplatform_source_last_success_timestamp_seconds{source="%s"}'
SHARE = '{share="chat", pool="train", side="inference"}'
TEMPERATURE = 'DCGM_FI_DEV_GPU_TEMP{node="n1", gpu="0", UUID="GPU-a"}'
INFO = 'gpuplatform_node_info{node="%s", pool="train", leaf="leaf1", vendor="%s"}'
POOL_INFO = 'gpuplatform_pool_info{pool="train", vm_type="t", vendor="%s"}'
RUNNING = 'gpuplatform_pool_nodes_running{pool="train"}'
WANTED = 'gpuplatform_pool_nodes_wanted{pool="train"}'
SPARE = 'gpuplatform_pool_spare_hosts{pool="train"}'
PENDING = 'gpuplatform_job_pending_for_nodes{job_id="7", partition="all"}'
CERTIFICATE = 'certmanager_certificate_expiration_timestamp_seconds{name="webhook", exported_namespace="slinky"}'
NOT_SENT = 'alertmanager_notifications_failed_total{integration="slack", reason="clientError"}'
ACCEPTED = 'gpuplatform_credential_accepted{credential="crusoe-api-key"}'
DEPLOYMENT = 'kube_deployment_status_replicas_available{namespace="%s", deployment="%s"}'
ALL_THERE = {'gpuplatform_exporter_info{version="1"}': "1x60", 'kube_node_info{node="n1"}': "1x60"}


def quota(used: int, *, wanted: int) -> Series:
    """A namespace's quota of 8 GPUs, and a Deployment of which 2 replicas are made."""
    labels = 'namespace="chat", resource="requests.nvidia.com/gpu"'
    return {
        f'kube_resourcequota{{{labels}, type="used"}}': f"{used}x30",
        f'kube_resourcequota{{{labels}, type="hard"}}': "8x30",
        'kube_deployment_spec_replicas{namespace="chat", deployment="chat"}': f"{wanted}x30",
        'kube_deployment_status_replicas{namespace="chat", deployment="chat"}': "2x30",
    }


def started(count: int, *, leaf: str = "leaf{}", apart: int = 0) -> Series:
    """Repairs that begin `apart` minutes after one another, the first in minute 0."""
    found: dict[str, str] = {}
    for number in range(count):
        found |= repair(
            "done",
            operation=f"op{number}",
            node=f"n{number}",
            leaf=leaf.format(number),
            start=f"{number * apart * 60}x200",
        )
    return found


CASES: Mapping[str, Sequence[Case]] = {
    "GpuLost": (
        fires("Kubernetes offers one less", gpus(expected="8x30", kubernetes="8x5 7x30"), 10, {"node": "n1"}),
        fires(
            "the exporter sees one less, of either vendor",
            {
                **gpus(expected="2x30", kubernetes="2x30"),
                TEMPERATURE: "40x30",
                'DCGM_FI_DEV_GPU_TEMP{node="n1", gpu="1", UUID="GPU-b"}': "40x5 stale",
                **gpus("n2", expected="2x30", kubernetes="2x30"),
                'gpu_health{node="n2", gpu_id="0"}': "1x30",
            },
            12,
            {"node": "n1"},
            {"node": "n2"},
        ),
        quiet("all are there", gpus(expected="8x30", kubernetes="8x30")),
        quiet("the exporter is gone", {**gpus(expected="1x30", kubernetes="1x30"), TEMPERATURE: "40x5 stale"}),
        quiet("the node is gone with all that it said", gpus(expected="8x5 stale", kubernetes="8x5 stale")),
        quiet("nodes without GPUs", gpus(expected="0x30", kubernetes="0x30")),
        quiet("one look only", gpus(expected="8x30", kubernetes="8x5 7 8x30"), 7, 10),
    ),
    "GpuUnhealthy": (
        fires("one is", {'gpu_health{node="n2", gpu_id="3"}': "1x5 0x30"}, 10, {"node": "n2", "gpu_id": "3"}),
        quiet("none is", {'gpu_health{node="n2", gpu_id="3"}': "1x30"}),
        quiet("nothing is known", {'gpu_health{node="n2", gpu_id="3"}': "1x5 stale"}),
    ),
    "GpuMemoryErrors": (
        fires("new ones", {'gpu_ecc_uncorrect_total{node="n2", gpu_id="3"}': "4x5 5x30"}, 10, {"node": "n2"}),
        quiet("old ones", {'gpu_ecc_uncorrect_total{node="n2", gpu_id="3"}': "4x60"}),
    ),
    "XidHardware": (
        Case("a first error", {GAUGE: "0x5 79x200"}, {6: [HIT], 20: [HIT], 22: []}),
        Case(
            "the gauge goes on for 6 hours after a repair",
            {
                GAUGE: "0x5 79x400",
                **repair("done", start="360x400", end="_x10 600x400"),
            },
            {6: [HIT], 9: [HIT], 10: [], 60: [], 366: []},
            {(366, EVENTS): 1},
        ),
        Case(
            "the same code again 10 minutes later, in the window's count",
            {COUNT: "_x6 1x4 0x4 1x4 0x60", GAUGE: "0x5 79x200", **UP},
            {6: [HIT], 16: [HIT], 29: [HIT], 31: []},
            {(60, EVENTS): 2},
        ),
        Case(
            "the same code again 10 minutes later, in the count of all",
            {TOTAL: "_x6 1x9 2x60", GAUGE: "0x5 79x200", **UP},
            {6: [HIT], 16: [HIT], 30: [HIT], 32: []},
            {(60, EVENTS): 2},
        ),
        Case(
            "again after a repair",
            {TOTAL: "_x6 1x9 2x60", **UP, **repair("done", start="360x100", end="_x8 480x100")},
            {6: [HIT], 9: [], 15: [], 16: [HIT]},
        ),
        Case(
            "the exporter starts anew and the gauge falls to 0",
            {GAUGE: "0x5 79x9 0x60"},
            {6: [HIT], 30: [], 60: []},
            {(60, EVENTS): 1},
        ),
        quiet("an old value of an exporter that comes back", {GAUGE: "79x5 _x9 79x60"}, 1, 16, 30),
        quiet(
            "an old count of an exporter that comes back",
            {TOTAL: "3x5 _x9 3x60", 'up{job="dcgm", instance="n1:9400"}': "1x5 0x9 1x60"},
            1,
            16,
            30,
        ),
        quiet("an error of an application", {GAUGE: "0x5 31x60"}, 6, 10),
        quiet("none", {GAUGE: "0x60"}),
    ),
    "XidApplication": (
        fires("one", {GAUGE: "0x5 31x60"}, 6, {"node": "n1", "xid": "31", "class": "application"}),
        quiet("an error of the hardware", {GAUGE: "0x5 79x60"}, 6),
        quiet("none", {GAUGE: "0x60"}),
    ),
    "XidOther": (
        fires("one", {GAUGE: "0x5 62x60"}, 6, {"node": "n1", "xid": "62", "class": "other"}),
        quiet("known ones", {GAUGE: "0x5 79x5 31x60"}, 6, 12),
    ),
    "NodesMissing": (
        fires("one is gone", {WANTED: "4x60", RUNNING: "4x5 3x60"}, 25, {"pool": "train"}),
        quiet("it is being replaced", {WANTED: "4x60", RUNNING: "4x5 3x60", **repair("replacing")}),
        quiet("all there", {WANTED: "4x60", RUNNING: "4x60"}),
        quiet("nothing is known of it", {WANTED: "4x60", RUNNING: "4x5 stale"}),
    ),
    "NodeDrained": (
        fires(
            "by a health check",
            {'gpuplatform_slurm_node_drained{node="n1", slurm_node="train-0", owner="health"}': "1x60"},
            35,
            {"slurm_node": "train-0", "owner": "health"},
        ),
        quiet(
            "by a person",
            {'gpuplatform_slurm_node_drained{node="n1", slurm_node="train-0", owner="human"}': "1x60"},
            35,
        ),
        quiet(
            "while it is repaired",
            {
                'gpuplatform_slurm_node_drained{node="n1", slurm_node="train-0", owner="operator"}': "1x60",
                **repair("draining"),
            },
            35,
        ),
    ),
    "GpuCountMismatch": (
        fires("7 of 8", gpus(expected="8x30", kubernetes="8x30", slurm="7x30"), 10, {"node": "n1", "pool": "train"}),
        quiet("all agree", gpus(expected="8x30", kubernetes="8x30", slurm="8x30")),
        quiet("Slurm does not know the node", gpus(expected="8x30", kubernetes="8x30")),
    ),
    "RepairStarted": (
        fires("one", repair("draining"), 5, {"node": "n1", "issue": "XID_79"}),
        quiet("it is done", repair("done", end="300x200")),
    ),
    "RepairStuck": (
        fires("it takes long", repair("draining"), 31, {"node": "n1"}),
        fires("AutoClusters says so", repair("stuck"), 5, {"node": "n1"}),
        quiet("it goes on", repair("replacing"), 5, 29),
        quiet("it is done", repair("done", end="300x200"), 60),
    ),
    "RepairFailed": (
        fires("it did", repair("failed", end="300x200"), 20, {"node": "n1"}),
        quiet(
            "a later one was done",
            {**repair("failed", end="300x200"), **repair("done", operation="op2", end="600x200")},
            30,
        ),
        quiet("none did", repair("done", end="300x200"), 20),
    ),
    "RepairStorm": (
        fires("five in an hour", started(5, apart=12), 50, {"leaf": "all"}),
        fires(
            "five in a leaf, at once",
            started(5, leaf="leaf1"),
            5,
            {"leaf": "all"},
            {"leaf": "leaf1"},
            {"leaf": "one event"},
        ),
        quiet("five in two hours", started(5, apart=30), 120),
        quiet("one", repair("draining"), 5),
    ),
    "JobHeld": (
        fires("launches failed", {HELD % "launch_failed": "1x30"}, 5, {"job_id": "7", "reason": "launch_failed"}),
        fires("by its own requeue and hold", {HELD % "requeue_hold": "1x30"}, 5, {"job_id": "7"}),
        quiet("by its user", {HELD % "user": "1x30", HELD % "admin": "1x30"}, 5),
        quiet("released in time", {HELD % "launch_failed": "1 stale"}, 5),
    ),
    "JobRequeuedTooOften": (
        fires(
            "by both reasons together",
            {
                'gpuplatform_job_requeues_total{job_id="7", reason="node_failure"}': "3x30",
                'gpuplatform_job_requeues_total{job_id="7", reason="own_failure"}': "3x30",
            },
            5,
            {"job_id": "7"},
        ),
        quiet("once", {'gpuplatform_job_requeues_total{job_id="7", reason="node_failure"}': "1x30"}),
        quiet("preempted often", {'gpuplatform_job_requeues_total{job_id="7", reason="other"}': "9x30"}),
    ),
    "CheckpointTooOld": (
        fires(
            "three intervals are over",
            {
                'gpuplatform_job_checkpoint_timestamp_seconds{job_id="7"}': "0x60",
                'gpuplatform_job_checkpoint_interval_seconds{job_id="7"}': "300x60",
                'gpuplatform_job_running_nodes{job_id="7", partition="all"}': "2x60",
            },
            25,
            {"job_id": "7"},
        ),
        fires(
            "an hour is over",
            {
                'gpuplatform_job_checkpoint_timestamp_seconds{job_id="7"}': "0x90",
                'gpuplatform_job_running_nodes{job_id="7", partition="all"}': "2x90",
            },
            70,
            {"job_id": "7"},
        ),
        quiet(
            "it saves as it means to",
            {
                'gpuplatform_job_checkpoint_timestamp_seconds{job_id="7"}': "0+60x90",
                'gpuplatform_job_checkpoint_interval_seconds{job_id="7"}': "300x90",
                'gpuplatform_job_running_nodes{job_id="7", partition="all"}': "2x90",
            },
            80,
        ),
        quiet("it does not run", {'gpuplatform_job_checkpoint_timestamp_seconds{job_id="7"}': "0x90"}, 80),
        quiet("it says nothing", {'gpuplatform_job_running_nodes{job_id="7", partition="all"}': "2x90"}, 80),
    ),
    "JobGaveUp": (
        fires("one did", {'gpuplatform_job_gave_up_timestamp_seconds{job_id="7"}': "300x30"}, 10, {"job_id": "7"}),
        quiet("two days ago", {'gpuplatform_job_gave_up_timestamp_seconds{job_id="7"}': "-172800x30"}, 10),
    ),
    "NoSpare": (
        fires("a job waits", {SPARE: "0x30", PENDING: "2x30"}, 15, {"pool": "train"}),
        quiet("nothing waits", {SPARE: "0x30"}, 15),
        quiet("there is one", {SPARE: "1x30", PENDING: "2x30"}, 15),
        quiet("a repair takes the last one for a while", {SPARE: "1x3 0x6 1x30", PENDING: "2x5 stale"}, 9, 15),
    ),
    "SpareGone": (
        fires("none is left", {SPARE: "0x30"}, 20, {"pool": "train"}),
        quiet("one is", {SPARE: "1x30"}, 20),
        quiet("nothing is known", {SPARE: "0x3 stale"}, 20),
    ),
    "FloorNotMet": (
        fires(
            "it wants more",
            {
                f"gpuplatform_share_floor_gpus{SHARE}": "8x30",
                f"gpuplatform_share_used_gpus{SHARE}": "4x30",
                f"gpuplatform_share_wanted_gpus{SHARE}": "8x30",
            },
            15,
            {"share": "chat"},
        ),
        quiet(
            "it wants no more",
            {
                f"gpuplatform_share_floor_gpus{SHARE}": "8x30",
                f"gpuplatform_share_used_gpus{SHARE}": "4x30",
                f"gpuplatform_share_wanted_gpus{SHARE}": "4x30",
            },
            15,
        ),
        quiet(
            "a lent node comes back",
            {
                f"gpuplatform_share_floor_gpus{SHARE}": "8x30",
                f"gpuplatform_share_used_gpus{SHARE}": "4x5 8x30",
                f"gpuplatform_share_wanted_gpus{SHARE}": "8x30",
            },
            5,
            15,
        ),
    ),
    "ShareQuotaUsedUp": (
        fires(
            "replicas are not made",
            quota(8, wanted=4),
            20,
            {"namespace": "chat"},
        ),
        quiet("all are made", quota(8, wanted=2), 20),
        quiet("a rollout, with quota left", quota(4, wanted=4), 20),
    ),
    "KueueWorkloadsInadmissible": (
        fires(
            "some",
            {'kueue_pending_workloads{cluster_queue="training-train", status="inadmissible"}': "1x60"},
            40,
            {"cluster_queue": "training-train"},
        ),
        quiet(
            "they only wait for their turn",
            {'kueue_pending_workloads{cluster_queue="training-train", status="active"}': "1x60"},
            40,
        ),
    ),
    "QuotaPressure": (
        fires(
            "nearly all",
            {'gpuplatform_quota_used{quota="gpu"}': "95x60", 'gpuplatform_quota_limit{quota="gpu"}': "100x60"},
            40,
            {"quota": "gpu"},
        ),
        quiet(
            "half, and one without limit",
            {
                'gpuplatform_quota_used{quota="gpu"}': "50x60",
                'gpuplatform_quota_limit{quota="gpu"}': "100x60",
                'gpuplatform_quota_used{quota="ip"}': "5x60",
                'gpuplatform_quota_limit{quota="ip"}': "0x60",
            },
            40,
        ),
    ),
    "SlurmControllerDown": (
        fires("it does not answer", {'up{job="slurmctld", instance="s:6817"}': "1x5 0x30"}, 12, {}),
        fires(
            "its pod is gone, and its target with it",
            {
                'up{job="slurmctld", instance="s:6817"}': "1x5 stale",
                'kube_statefulset_status_replicas_ready{namespace="slurm", statefulset="slurm-controller"}': "1x5 0x30",
            },
            12,
            {},
        ),
        quiet("it answers", {'up{job="slurmctld", instance="s:6817"}': "1x30"}),
        quiet("another program does not", {'up{job="other", instance="s:6817"}': "0x30"}),
    ),
    **{
        name: (
            fires("none is available", {DEPLOYMENT % place: "1x5 0x30"}, 12, {}),
            quiet("one is", {DEPLOYMENT % place: "1x30"}, 12),
            quiet("another is not", {DEPLOYMENT % ("default", "other"): "0x30"}, 12),
        )
        for name, place in {
            "SlurmWebhookDown": ("slinky", "slurm-operator-webhook"),
            "SlurmOperatorDown": ("slinky", "slurm-operator"),
            "SlurmActorDown": ("slurm", "slurm-actor"),
        }.items()
    },
    "CertificateNearExpiry": (
        fires(
            "in two days",
            {CERTIFICATE: "172800x90"},
            70,
            {"name": "webhook"},
        ),
        quiet(
            "in a month",
            {CERTIFICATE: "2592000x90"},
            70,
        ),
    ),
    "KeyRefused": (
        fires("it is", {ACCEPTED: "1x5 0x30"}, 15, {"credential": "crusoe-api-key"}),
        quiet("it is taken", {ACCEPTED: "1x30"}, 15),
        quiet("nobody knows", {ACCEPTED: "0x2 stale"}, 15),
    ),
    "KeyNearExpiry": (
        fires(
            "in a week",
            {'gpuplatform_credential_expiry_timestamp_seconds{credential="crusoe-api-key"}': "604800x30"},
            5,
            {"credential": "crusoe-api-key"},
        ),
        quiet(
            "in a year",
            {'gpuplatform_credential_expiry_timestamp_seconds{credential="crusoe-api-key"}': "31536000x30"},
            5,
        ),
        quiet(
            "a token that is renewed by the hour",
            {'gpuplatform_credential_expiry_timestamp_seconds{credential="slurm-token"}': "1800x30"},
            5,
        ),
    ),
    "SourceSilent": (
        fires(
            "one of two",
            {
                CONFIGURED % "slurm": "1x60",
                SUCCESS % "slurm": "0+60x10 600x60",
                CONFIGURED % "crusoe": "1x60",
                SUCCESS % "crusoe": "0+60x60",
            },
            25,
            {"source": "slurm"},
        ),
        fires("from the beginning", {CONFIGURED % "crusoe": "1x60"}, 10, {"source": "crusoe"}),
        quiet("all are read", {CONFIGURED % "slurm": "1x60", SUCCESS % "slurm": "0+60x60"}, 25, 50),
        quiet("it is off", {CONFIGURED % "slurm": "0x60"}, 25),
    ),
    "ExporterSilent": (
        fires("it goes", {'gpuplatform_exporter_info{version="1"}': "1x5 stale"}, 30, {}),
        fires("it was never there", {}, 15, {}),
        quiet("it is there", ALL_THERE, 30),
    ),
    "SlurmMetricsSilent": (
        fires("they go", {"slurm_nodes": "4x5 stale"}, 30, {}),
        fires("all sources together", {}, 15, {}),
        quiet("they are there", {"slurm_nodes": "4x60"}, 30),
    ),
    "GpuMetricsSilent": (
        fires(
            "the exporter is taken away",
            {TEMPERATURE: "40x5 stale", RUNNING: "2x60", POOL_INFO % "nvidia": "1x60"},
            30,
            {},
        ),
        fires("all sources together", {}, 15, {}),
        quiet("it is there", {TEMPERATURE: "40x60"}, 30),
        quiet("the pool has no node", {RUNNING: "0x60", POOL_INFO % "nvidia": "1x60"}, 30),
    ),
    "GpuMetricsSilentOnNode": (
        fires(
            "on one of two",
            {TEMPERATURE: "40x60", INFO % ("n1", "nvidia"): "1x60", INFO % ("n2", "nvidia"): "1x60"},
            30,
            {"node": "n2"},
        ),
        quiet("on nodes without these GPUs", {TEMPERATURE: "40x60", INFO % ("n2", "none"): "1x60"}, 30),
        quiet("both tell", {TEMPERATURE: "40x60", INFO % ("n1", "nvidia"): "1x60"}, 30),
    ),
    "AmdGpuMetricsSilent": (
        fires("they go", {'gpu_health{node="n2", gpu_id="0"}': "1x5 stale"}, 30, {}),
        fires("all sources together", {}, 15, {}),
        quiet("they are there", {'gpu_health{node="n2", gpu_id="0"}': "1x60"}, 30),
    ),
    "AmdGpuMetricsSilentOnNode": (
        fires(
            "on one of two",
            {
                'gpu_health{node="n1", gpu_id="0"}': "1x60",
                INFO % ("n1", "amd"): "1x60",
                INFO % ("n2", "amd"): "1x60",
            },
            30,
            {"node": "n2"},
        ),
        quiet("both tell", {'gpu_health{node="n1", gpu_id="0"}': "1x60", INFO % ("n1", "amd"): "1x60"}, 30),
    ),
    "KubernetesMetricsSilent": (
        fires("they go", {'kube_node_info{node="n1"}': "1x5 stale"}, 30, {}),
        fires("all sources together", {}, 15, {}),
        quiet("they are there", ALL_THERE, 30),
    ),
    "EverythingSilent": (
        fires("all sources together", {}, 15, {}),
        quiet("the exporter alone", {'kube_node_info{node="n1"}': "1x60"}, 30),
        quiet("Kubernetes alone", {'gpuplatform_exporter_info{version="1"}': "1x60"}, 30),
    ),
    "NotificationsFail": (
        fires(
            "some",
            {NOT_SENT: "0x5 0+1x60"},
            30,
            {"integration": "slack"},
        ),
        quiet("none", {NOT_SENT: "3x60"}, 30),
    ),
    "RulesFail": (
        fires(
            "some",
            {'prometheus_rule_evaluation_failures_total{rule_group="gpuplatform"}': "0x5 0+1x60"},
            30,
            {"rule_group": "gpuplatform"},
        ),
        quiet("none", {'prometheus_rule_evaluation_failures_total{rule_group="gpuplatform"}': "3x60"}, 30),
    ),
    "Watchdog": (
        fires("always, also when nothing says anything", {}, 0, {"severity": "heartbeat"}),
        # It is what the heartbeat's absence is noticed by: no other alert stands in for it.
        Case(
            "once only", ALL_THERE, {30: [{"severity": "heartbeat"}]}, {(30, 'count(ALERTS{alertname="Watchdog"})'): 1}
        ),
    ),
}
