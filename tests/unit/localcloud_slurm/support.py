"""Pods to build tests from."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

from localcloud.slurm.plan import Surroundings
from localcloud.slurm.volumes import Sources

Json = dict[str, Any]

SOURCES = Sources(
    config_maps={"conf": {"data": {"slurm.conf": "ClusterName=x\n", "a.sh": "#!/bin/sh\n"}}},
    secrets={"key": {"data": {"slurm.key": base64.b64encode(b"secret").decode()}}},
)


def pod(*containers: Json, **spec: Any) -> Json:
    return {
        "metadata": {
            "name": "gpu-0",
            "namespace": "slurm",
            "uid": "0a1b2c3d-0000-4000-8000-000000000001",
            "labels": {"app.kubernetes.io/name": "slurmd"},
            "annotations": {"topology.slinky.slurm.net/spec": "topo-switch:s1"},
        },
        "spec": {"nodeName": "n", "containers": list(containers), **spec},
    }


def container(name: str = "slurmd", **fields: Any) -> Json:
    return {"name": name, "image": "i", **fields}


def around(**changes: Any) -> Surroundings:
    values: Json = {
        "image": Path("/image"),
        "etc": Path("/etc-of-pods"),
        "address": "10.1.0.9",
        "prefix": 16,
        "volumes": {},
        "sources": SOURCES,
        "cpus": 8,
        "memory": 1000,
        "api": "10.96.0.1",
        "gpus": ("NVIDIA H100 80GB",) * 8,
    }
    return Surroundings(**{**values, **changes})
