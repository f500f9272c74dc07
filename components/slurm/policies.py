"""Who may speak to Slurm's daemons: network policies of the namespace `slurm`.

The daemons trust whoever holds Slurm's key, and slurmctld's metrics ask for nothing unless told to. So only pods of the
namespace itself reach them, Slinky's operator reaches the REST API, and the world reaches login nodes on SSH alone.
"""

from typing import Any

import pulumi

from components.cluster import Cluster
from components.kubernetes import KubernetesObject
from components.slurm.charts import NAMESPACE, NAMESPACE_MARIADB, NAMESPACE_OPERATOR
from components.slurm.objects import SSH_PORT

_NAMESPACE_LABEL = "kubernetes.io/metadata.name"
_NAME_LABEL = "app.kubernetes.io/name"
MONITORING = "monitoring"
EXPORTER = "gpuplatform-exporter"
REST_PORT, CONTROLLER_PORT = 6820, 6817


def specs(*, database: bool) -> dict[str, dict[str, Any]]:
    """Each policy's spec, by its name. Traffic out of the pods is free: jobs fetch data and models."""
    policies: dict[str, dict[str, Any]] = {
        "within": {
            # Jobs run in this namespace too, and what the exporter tells is not for everybody.
            "podSelector": {"matchExpressions": [{"key": _NAME_LABEL, "operator": "NotIn", "values": [EXPORTER]}]},
            "policyTypes": ["Ingress"],
            "ingress": [{"from": [{"podSelector": {}}]}],
        },
        "operator": {
            "podSelector": {"matchLabels": {"app.kubernetes.io/name": "slurmrestd"}},
            "policyTypes": ["Ingress"],
            "ingress": [within(NAMESPACE_OPERATOR, REST_PORT)],
        },
        "metrics": {
            "podSelector": {"matchLabels": {"app.kubernetes.io/name": "slurmctld"}},
            "policyTypes": ["Ingress"],
            "ingress": [within(MONITORING, CONTROLLER_PORT)],
        },
        "login": {
            "podSelector": {"matchLabels": {"app.kubernetes.io/name": "login"}},
            "policyTypes": ["Ingress"],
            # From which networks is the load balancer's business: behind it every address is a node's.
            "ingress": [{"ports": [{"port": SSH_PORT, "protocol": "TCP"}]}],
        },
    }
    if database:
        policies["database"] = {
            "podSelector": {"matchLabels": {"app.kubernetes.io/name": "mariadb"}},
            "policyTypes": ["Ingress"],
            "ingress": [within(NAMESPACE_MARIADB, 3306)],
        }
    return policies


def declare(
    name: str, *, database: bool, cluster: Cluster, namespace: pulumi.Resource, parent: pulumi.Resource
) -> None:
    """Declare all policies; `database` says whether there is one in the cluster."""
    for thing, spec in specs(database=database).items():
        KubernetesObject(
            f"{name}-{thing}",
            "networking.k8s.io/v1",
            "NetworkPolicy",
            {"name": thing, "namespace": NAMESPACE},
            {"spec": spec},
            cluster.inside(parent, [namespace]),
        )


def within(namespace: str, port: int) -> dict[str, Any]:
    """A rule that lets a namespace reach a port."""
    return {
        "from": [{"namespaceSelector": {"matchLabels": {_NAMESPACE_LABEL: namespace}}}],
        "ports": [{"port": port, "protocol": "TCP"}],
    }
