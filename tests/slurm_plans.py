"""Plans of slurm.conf that tests share. `python -m tests.slurm_plans` writes the golden files anew."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from components.settings import parse
from components.slurm import conf
from components.slurm.conf_plan import ConfPlan, SlurmPool
from components.slurm.conf_settings import ConfSettings, PartitionSettings, TimingSettings, TopologySettings

GOLDEN = Path(__file__).parent / "unit" / "components" / "slurm" / "golden"

DEV = ConfPlan(
    pools=(SlurmPool("train", gpus=8, gres="h100", vendor="nvidia", most_nodes=2),),
    partitions={},
    timing=parse(TimingSettings, {"credExpire": 5, "allowShortCredExpire": True}, "timing"),
    conf=parse(ConfSettings, {"requireTimeLimit": False}, "conf"),
    accounting=False,
)
PROD = ConfPlan(
    pools=(
        SlurmPool(
            "train",
            gpus=8,
            gres="h100",
            vendor="nvidia",
            cpus=172,
            memory_mib=860_000,
            most_nodes=1200,
            partition=parse(PartitionSettings, {"default": True, "maxTime": "14-0", "defaultTime": "12:00:00"}, "own"),
            features=("ib", "nvme"),
            weight=10,
        ),
        SlurmPool("burst", gpus=10, gres="l40s", vendor="nvidia", cpus=80, memory_mib=1_300_000, most_nodes=16),
    ),
    partitions={
        "wide": parse(PartitionSettings, {"pools": ["train", "burst"], "allowAccounts": ["research"]}, "wide"),
        "debug": parse(
            PartitionSettings, {"pools": ["burst"], "maxTime": "30", "maxNodes": 1, "priorityTier": 5}, "debug"
        ),
    },
    topology=parse(TopologySettings, {"kind": "tree", "leaves": ["leaf-1", "leaf-2"]}, "topology"),
    conf=parse(ConfSettings, {"privateData": ["jobs", "usage", "users"]}, "conf"),
    metrics_user="metrics",
    health_check="/opt/platform/health-check",
)
OWN = ConfPlan(
    pools=(
        SlurmPool("nvl", gpus=4, gres="gb200", vendor="nvidia", most_nodes=36),
        SlurmPool("amd", gpus=8, gres="mi300x", vendor="amd", cpus=160, memory_mib=1_900_000, most_nodes=4),
        SlurmPool("cpu", cpus=30, memory_mib=100_000, most_nodes=4),
    ),
    partitions={
        "mixed": parse(
            PartitionSettings,
            {
                "pools": ["nvl", "amd", "cpu"],
                "default": True,
                "exclusive": "user",
                "state": "drain",
                "preemptMode": "cancel",
                "graceTime": 60,
                "hidden": True,
                "allowGroups": ["users"],
                "defCpuPerGpu": 2,
            },
            "mixed",
        )
    },
    timing=parse(TimingSettings, {"killWait": 120, "unkillableStepTimeout": 300, "slurmdTimeout": 60}, "timing"),
    topology=parse(TopologySettings, {"kind": "block"}, "topology"),
    conf=parse(
        ConfSettings,
        {
            "preemption": "partition",
            "options": {
                "KillOnBadExit": False,
                "ReturnToService": 0,
                "DisableRootJobs": True,
                "MaxArraySize": 10001,
                "RequeueExit": "75,80-83",
                "SchedulerParameters": ["bf_interval=15", "bf_window=2880"],
                "DebugFlags": ["NO_CONF_HASH"],
                "SlurmctldDebug": "verbose",
                "PriorityDecayHalfLife": "7-0",
            },
        },
        "conf",
    ),
    accounting=False,
)
PLANS: Mapping[str, ConfPlan] = {"dev": DEV, "prod": PROD, "own": OWN}


def text(plan: ConfPlan) -> str:
    """All that a golden file has: slurm.conf, and what each pool's NodeSet gets."""
    pools = "".join(
        f"# {pool.key}: --conf {conf.node_conf(pool)}\n# {pool.key}: partition {conf.partition_config(plan, pool)}\n"
        for pool in plan.pools
    )
    return conf.slurm_conf(plan) + pools


if __name__ == "__main__":
    for name, plan in PLANS.items():
        (GOLDEN / f"{name}.conf").write_text(text(plan), encoding="utf-8")
