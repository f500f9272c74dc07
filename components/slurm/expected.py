"""What Slurm is to have, as the stack's output `slurm` tells it: pure functions from the settings.

Scripts and `make check` compare it with what is there. Shape and meaning are a contract: docs/outputs.md.
"""

from collections.abc import Mapping
from typing import Any

from components.node_pools import Pool
from components.slurm import plan as plans
from components.slurm.managed_settings import ManagedSettings
from components.slurm.plan import SlinkyPlan, WorkerPlan
from components.slurm.settings import SlurmSettings
from crusoe import catalog

Expected = dict[str, Any]


def slinky(slurm: SlurmSettings, plan: SlinkyPlan, pools: Mapping[str, Pool]) -> Expected:
    """Slurm in the platform's cluster: each pool's workers, and all partitions, those of single pools first."""
    used = {key: pool for key, pool in pools.items() if key in plan.workers}
    types = {pool.name.value: pool.settings.type for pool in pools.values()}
    wide = plans.conf_plan(slurm, used, {}).wide_partitions
    return {
        "mode": "slinky",
        "clusterName": plan.controller["clusterName"],
        "nodeSets": {
            key: {
                **node_set(types[each.worker.pool], _promised(each), each.worker.pool),
                **({"lent": True} if each.lent else {}),
                **({"atMost": each.replicas} if each.floor is not None and each.replicas is not None else {}),
            }
            for key, each in plan.workers.items()
        },
        "partitions": [*plan.workers, *wide],
    }


def _promised(worker: WorkerPlan) -> int | None:
    return worker.worker.replicas if worker.floor is None else worker.floor


def managed(settings: ManagedSettings, cluster_name: str) -> Expected:
    """Crusoe Managed Slurm: its node sets, by their names there. Its partitions are Crusoe's business."""
    return {
        "mode": "managed",
        "clusterName": cluster_name,
        "nodeSets": {
            each.name or key: node_set(each.type, each.count, None) for key, each in settings.node_sets.items()
        },
        "partitions": [],
    }


def node_set(type_name: str, nodes: int | None, pool: str | None) -> Expected:
    """One node set; what is None is left out: a number that autoscaling owns, a node pool that Crusoe makes."""
    kind = catalog.vm_type(type_name)
    gpus, gres = (kind.gpus, kind.gres) if kind else (0, None)
    return {
        "type": type_name,
        **({"nodePool": pool} if pool is not None else {}),
        **({"nodes": nodes} if nodes is not None else {}),
        "gpusPerNode": gpus,
        "gres": f"gpu:{gres}:{gpus}" if gres and gpus else "",
    }
