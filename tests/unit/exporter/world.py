"""A small platform as the exporter sees it: two h100 nodes of the pool `train`, one of which has failed under job 7."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from actor import facts, notes
from actor.notes import Fault, Notes
from actor.state import Job, KubeNode, Mark, SlurmNode
from exporter.settings import Pool, Settings, Share
from exporter.sources import (
    Asked,
    AutoClusters,
    CloudPool,
    Crusoe,
    Kubernetes,
    Machine,
    Operation,
    Quota,
    Slurm,
    View,
)
from training import progress
from training.progress import Progress

NOW = 1_800_000_000.0
H100 = "h100-80gb-sxm-ib.8x"
SETTINGS = Settings(
    version="1.2.3",
    key_id="key",
    key_expires=NOW + 86_400,
    pools={
        "train": Pool("test-train", H100, 8, "nvidia", "nvidia.com/gpu"),
        "system": Pool("test-system", "c1a.8x"),
    },
    shares=(
        Share("training", "train", "training", 8),
        Share("chat", "train", "inference", 4, "chat"),
    ),
)
FAULT = Fault(1, int(NOW) - 100, int(NOW) - 99, int(NOW) - 97, "vm-1", "test-train")
TOLD = Progress(
    attempt=1,
    step=380,
    steps=1000,
    saved=360,
    saved_at=NOW - 5,
    save_every=20,
    useful=300,
    allocated=400,
    lost=14,
    stopped_at=NOW - 102.5,
    stopped=334,
    resumed_at=NOW - 70,
    resumed=320,
    first_at=NOW - 69.5,
)
REPLACED = Operation("op-1", "SUCCEEDED", "vm-1", "XID_79", "replace_node", NOW - 90, NOW - 40)


def machine(number: int, **changes: Any) -> Machine:
    labels = {facts.INSTANCE_LABEL: f"vm-{number}", facts.POOL_LABEL: "test-train"}
    node = KubeNode(f"host-{number}", f"vm-{number}", "test-train", labels=labels)
    given = {key: changes.pop(key) for key in list(changes) if key in ("cordoned", "remediation", "conditions")}
    return replace(Machine(replace(node, **given), 8, slurm_name=f"train-{number}", leaf="leaf-a"), **changes)


def slurm_node(number: int, *states: str, **changes: Any) -> SlurmNode:
    one = SlurmNode(f"train-{number}", frozenset(states or ("IDLE",)), gres="gpu:h100:8(S:0-1)")
    return replace(one, partitions=frozenset({"all"}), **changes)


def job(number: int = 7, *states: str, **changes: Any) -> Job:
    one = Job(number, str(number), frozenset(states or ("RUNNING",)), ("train-0", "train-1"), 2, partition="all")
    return replace(one, **changes)


RECOVERED = job(
    restarts=1,
    submitted=int(NOW) - 96,
    comment=notes.write("", Notes(("vm-1",), faults=1, fault=FAULT)),
    said=progress.write("mine", TOLD),
)
BROKEN = machine(
    1,
    cordoned=True,
    remediation=Mark("m", "crusoe.ai/remediation=XID_79-1"),
    conditions={"GPUXIDUnhealthy": Mark("c", "c", int(NOW) - 20), "Ready": Mark("r", "r")},
    issue="XID_79",
)
WHOLE = View(
    autoclusters=AutoClusters((REPLACED,), {"XID_79": "REPLACE_NODE", "XID_13": "OFF"}),
    crusoe=Crusoe([CloudPool("test-train", 2, 1)], [Quota("H100", 16, 24)], {H100: 3}),
    slurm=Slurm([slurm_node(0), slurm_node(1)], [RECOVERED], NOW + 3600),
    kubernetes=Kubernetes([machine(0), machine(2, slurm_name="train-1")], {"chat": Asked(4, 4)}, {"train": 1}),
    succeeded={"slurm": NOW - 1, "kubernetes": NOW - 2, "autoclusters": NOW - 3, "crusoe": NOW - 4},
    configured=frozenset({"slurm", "kubernetes", "autoclusters", "crusoe"}),
)
