"""Values to build tests from."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from localcloud.control_plane import ClusterSpec, NodeSpec, OidcSpec

CLUSTER = ClusterSpec(
    id="3b1f0000-0000-4000-8000-000000000001",
    name="train",
    project_id="00000000-0000-4000-8000-000000000001",
    location="us-east1-a",
    version="1.33.4-cmk.43",
    generation="v1",
    dns_name="train.us-east1-a.cmk.example",
    cluster_cidr="10.234.0.0/16",
    service_cluster_ip_range="10.96.0.0/16",
    node_cidr_mask_size=24,
    add_ons=("crusoe_csi", "nvidia_gpu_operator", "nvidia_network_operator"),
)

OIDC = OidcSpec(
    issuer_url="https://login.example",
    client_id="platform",
    username_claim="email",
    username_prefix="oidc:",
    groups_claim="groups",
    ca_cert="-----BEGIN CERTIFICATE-----\n",
)

H100 = NodeSpec(
    name="np-3b1f0000-0",
    instance_id="9a000000-0000-4000-8000-000000000000",
    node_pool_id="pool",
    vm_type="h100-80gb-sxm-ib.8x",
    architecture="amd64",
    cpu=176,
    memory_gb=960,
    ephemeral_storage_gb=7680,
    gpus=8,
    gpu_resource="nvidia.com/gpu",
    extended_resources={"nvidia.com/gpu": 8, "nvidia.com/hostdev": 8},
    labels={
        "crusoe.ai/nodepool.name": "train",
        "crusoe.ai/ib.partition.id": "partition",
        "nvidia.com/gpu.present": "true",
        "node.kubernetes.io/instance-type": "h100-80gb-sxm-ib.8x",
        "topology.kubernetes.io/zone": "us-east1-a",
    },
    taints=(),
    internal_ip="10.0.0.5",
    external_ip="198.18.0.5",
    version="1.33.4-cmk.43",
)


def cluster(**changes: Any) -> ClusterSpec:
    """The cluster with some fields changed."""
    return replace(CLUSTER, **changes)


def h100(number: int = 0, **changes: Any) -> NodeSpec:
    """The n-th H100 node."""
    identity = {
        "name": f"np-3b1f0000-{number}",
        "instance_id": f"9a000000-0000-4000-8000-{number:012d}",
        "internal_ip": f"10.0.{number // 250}.{5 + number % 250}",
        "external_ip": None,
    }
    return replace(H100, **{**identity, **changes})
