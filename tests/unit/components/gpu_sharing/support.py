"""Documents and plans that tests of the sharing have in common."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from components import node_pools
from components.gpu_sharing import plan as plans
from components.gpu_sharing import settings as sharing_settings
from components.gpu_sharing.plan import SharingPlan
from components.gpu_sharing.settings import GpuSharingSettings
from components.node_pools import NodePoolSettings, Pool
from components.settings import Plain, Settings, SettingsError, parse
from components.slurm.settings import SlurmSettings
from crusoe.rules import node_pools as rules
from crusoe.rules import pool_size
from crusoe.rules.finding import Finding
from crusoe.rules.values import table
from tests.harness import merge

Json = dict[str, Any]
H100, L40S, GB200, MI300X = "h100-80gb-sxm-ib.8x", "l40s-48gb.10x", "gb200-186gb-nvl.4x", "mi300x-192gb-ib.8x"


class Document(Settings):
    """What the sharing looks at of a platform."""

    node_pools: Mapping[str, NodePoolSettings]
    slurm: SlurmSettings | None = None
    gpu_sharing: GpuSharingSettings


def document(training: Json | None = None, inference: Json | None = None, **pool: object) -> Json:
    """A pool of 12 H100 nodes, 2 of them in reserve, shared with a share `chat`; `pool` changes its node pool."""
    return {
        "nodePools": {"train": {"type": H100, "count": 12, "reserve": 2, **pool}},
        "slurm": {},
        "gpuSharing": {
            "pools": {
                "train": {
                    "training": {"floor": 6, **(training or {})},
                    "inference": {
                        "chat": {"gpusPerReplica": 4, "floor": 5, "ceiling": 8, **(inference or {})},
                    },
                }
            }
        },
    }


def changed(base: Json, path: str, value: object) -> Json:
    """`base` with one setting changed; None takes it out."""
    change: Any = value
    for key in reversed(path.split(".")):
        change = {key: change}
    return merge(copy.deepcopy(base), change)


def check(plain: Plain) -> list[Finding]:
    """The sharing's own checks, after those of a pool's numbers, which it builds upon."""
    slurm, pools = plain.get("slurm"), table(plain.get("nodePools"))
    found: list[Finding] = []
    for key, each in pools.items():
        place, pool = f"platform.nodePools.{key}", table(each)
        found += pool_size.reserve(f"{place}.reserve", pool.get("reserve"), pool)
        found += rules.counts(place, count=pool.get("count"), autoscaling=pool.get("autoscaling"))
    found += sharing_settings.findings(
        table(plain.get("gpuSharing")),
        "platform.gpuSharing",
        pools=pools,
        pools_path="platform.nodePools",
        slurm=slurm,
        slurm_path="platform.slurm",
    )
    return found


def faults(given: object) -> dict[str, str]:
    """What is wrong with a document: each path with problem and fix. Empty when it is right."""
    try:
        parse(Document, given, "platform", [check])
    except SettingsError as error:
        return {finding.path: f"{finding.problem}. {finding.fix}." for finding in error.findings}
    return {}


def pools_of(settings: Document) -> Mapping[str, Pool]:
    return node_pools.plan(settings.node_pools, stack="test", cluster_version="1.33.4-cmk.43", protect=True)


def plan_of(given: object) -> SharingPlan:
    """The plan of a document that is right."""
    settings = parse(Document, given, "platform", [check])
    return plans.plan(settings.gpu_sharing, pools_of(settings), settings.slurm or SlurmSettings())


SLURM = SlurmSettings()
_PLAIN = SLURM.model_dump(by_alias=True, mode="json")


def plan_beside(given: object) -> SharingPlan:
    """The plan of a document beside a Slurm of defaults, which many have in common."""
    settings = parse(Document, given, "platform", [lambda plain: check({**plain, "slurm": _PLAIN})])
    return plans.plan(settings.gpu_sharing, pools_of(settings), SLURM)
