"""What the REST side asks of the cluster behind a Slurm cluster, and what it hears back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

NAMESPACE = "slurm"
"""Where everything of a Slurm cluster lives, by Crusoe's convention."""


def login_name(cluster: str) -> str:
    """The name of the Service that leads to the login pods."""
    return f"{cluster}-login"


@dataclass(frozen=True)
class NodeSetSpec:
    """One node set: `replicas` workers, one on each node of the node pool `pool_id`."""

    name: str
    pool_id: str
    replicas: int
    gpus: int
    gpu_resource: str | None


@dataclass(frozen=True)
class SlurmSpec:
    """A managed Slurm cluster as its Kubernetes cluster should show it.

    `home_size` is a Kubernetes quantity, or empty for a cluster without a shared home; `home_disk` is the id of the
    shared disk. `login_pool` is the id of the node pool of controller and login nodes.
    """

    id: str
    name: str
    version: str
    login_type: str
    login_replicas: int
    login_pool: str
    root_ssh_keys: tuple[str, ...]
    home_size: str
    home_disk: str
    node_sets: tuple[NodeSetSpec, ...] = ()


@dataclass(frozen=True)
class SlurmStatus:
    """What runs: the login address once there is one, ready pods, and ready workers by node set.

    `login_ranges` are the CIDRs from which the SlurmCluster lets people in.
    """

    login_endpoint: str
    login_ready: int
    controller_ready: bool
    ready: Mapping[str, int] = field(default_factory=dict[str, int])
    login_ranges: tuple[str, ...] = ()
