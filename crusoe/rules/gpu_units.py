"""GPUs and nodes: training is counted in whole nodes, inference in replicas, and here one becomes the other.

A node that runs one replica of inference is no longer a node for training, however many of its GPUs are free. So what
inference needs is always rounded up to nodes, share by share.
"""

from __future__ import annotations


def replicas_on_node(gpus_per_replica: int, gpus_per_node: int) -> int:
    """Return how many replicas one node holds; 0 when a replica is larger than a node or has no GPU."""
    return gpus_per_node // gpus_per_replica if gpus_per_replica > 0 else 0


def nodes_of(replicas: int, gpus_per_replica: int, gpus_per_node: int) -> int:
    """Return the whole nodes that some replicas of one share fill.

    Raises `ValueError` when a replica does not fit on a node.
    """
    held = replicas_on_node(gpus_per_replica, gpus_per_node)
    if held == 0:
        raise ValueError(f"a replica of {gpus_per_replica} GPUs does not fit on a node of {gpus_per_node}")
    return -(-replicas // held)


def gpus_of(nodes: int, gpus_per_node: int) -> int:
    """Return the GPUs of whole nodes."""
    return nodes * gpus_per_node
