"""The stack's outputs `slurm` and `slurmKubeconfig`: what Slurm is to have, and where to ask it."""

from __future__ import annotations

from tests.unit.components.slurm.test_settings import MANAGED
from tests.unit.components.support import KUBECONFIG, deploy_platform, settings_document

H100 = "h100-80gb-sxm-ib.8x"


def test_slurm_in_the_platforms_cluster() -> None:
    pools = {
        "system": {"type": "c1a.8x", "count": 2},
        "train": {"type": H100, "count": 3, "reserve": 1},
        "burst": {"type": H100, "autoscaling": {"min": 0, "max": 4}},
        "prepare": {"type": "c1a.8x", "count": 1},
        "idle": {"type": H100, "count": 1},
    }
    slurm = {
        "clusterName": "research",
        "pools": {"prepare": {"include": True}, "idle": {"include": False}, "burst": {"scalingMode": "DaemonSet"}},
        "partitions": {"large": {"pools": ["train", "burst"]}},
    }
    deployment = deploy_platform(settings_document(nodePools=pools, slurm=slurm))
    gpu_pool = {"type": H100, "gpusPerNode": 8, "gres": "gpu:h100:8"}
    assert deployment.exports["slurm"] == {
        "mode": "slinky",
        "clusterName": "research",
        "nodeSets": {
            # The reserve is no worker, and what autoscaling owns is no promise.
            "train": {**gpu_pool, "nodePool": "test-train", "nodes": 2},
            "burst": {**gpu_pool, "nodePool": "test-burst"},
            "prepare": {"type": "c1a.8x", "gpusPerNode": 0, "gres": "", "nodePool": "test-prepare", "nodes": 1},
        },
        "partitions": ["train", "burst", "prepare", "large"],
    }
    assert deployment.exports["slurmKubeconfig"] == ""


def test_the_partition_over_all_pools_is_among_them() -> None:
    deployment = deploy_platform(settings_document(slurm={}))
    assert deployment.exports["slurm"]["partitions"] == ["train", "all"]


def test_managed_slurm_and_the_cluster_behind_it() -> None:
    deployment = deploy_platform(settings_document(slurm=MANAGED))
    assert deployment.exports["slurm"] == {
        "mode": "managed",
        "clusterName": "test-slurm",
        "nodeSets": {"train": {"type": H100, "nodes": 2, "gpusPerNode": 8, "gres": "gpu:h100:8"}},
        "partitions": [],
    }
    assert deployment.exports["slurmKubeconfig"] == KUBECONFIG
    assert deployment.secret_exports == {"kubeconfig", "slurmKubeconfig"}
