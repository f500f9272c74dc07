"""Which resources a policy judges: sets of type tokens, and where pods and containers are in Kubernetes' kinds.

A token of pulumi-kubernetes is `kubernetes:<group>/<version>:<Kind>`; a patch of an object and a list of them have
kinds of their own. The group's version is no matter here: the fields that are judged are the same in all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

from crusoe import catalog
from crusoe.rules.values import items, table, whole
from policies import values

if TYPE_CHECKING:
    from policies.policy import Resource

Path = tuple[str | int, ...]

CLUSTER = "crusoe:index:KubernetesCluster"
NODE_POOL = "crusoe:index:KubernetesNodePool"
SLURM_CLUSTER = "crusoe:index:SlurmCluster"
SLURM_NODE_SET = "crusoe:index:SlurmNodeSet"
AUTO_CLUSTERS = "crusoe:index:AutoClustersConfig"
FIREWALL_RULE = "crusoe:index:VpcFirewallRule"
DISK = "crusoe:index:StorageDisk"
SECRET = "crusoe:index:GeneratedSecret"  # noqa: S105 - a type's name
NAMED = frozenset(
    f"crusoe:index:{kind}"
    for kind in (
        "AutoClustersConfig",
        "IbPartition",
        "KubernetesCluster",
        "KubernetesNodePool",
        "SlurmCluster",
        "SlurmNodeSet",
        "StorageDisk",
        "VpcFirewallRule",
        "VpcNetwork",
        "VpcSubnet",
    )
)
"""Kinds of which no two can be there under one name."""

SLINKY = "slinky.slurm.net"
MANAGED = "slurm.crusoe.ai"
DAEMONS = ("slurmctld", "slurmdbd", "slurmrestd", "slurmd", "login", "initconf", "logfile", "reconfigure")
WORKLOADS = ("Deployment", "StatefulSet", "DaemonSet", "ReplicaSet", "ReplicationController", "Job")
PODS = frozenset({"Pod", "PodTemplate", "CronJob", *WORKLOADS})
SLINKY_PODS = frozenset({"Controller", "Accounting", "RestApi", "LoginSet", "NodeSet"})
GPU_RESOURCES = tuple(catalog.RESOURCE_NAMES.values())


def one_of(*tokens: str) -> Callable[[str], bool]:
    """Return a test for exactly these types."""
    return frozenset(tokens).__contains__


def kubernetes(*kinds: str, group: str | None = None) -> Callable[[str], bool]:
    """Return a test for kinds of Kubernetes in any version, their patches and lists; perhaps of one group only."""
    wanted = frozenset(f"{kind}{suffix}" for kind in kinds for suffix in ("", "Patch", "List"))

    def applies(token: str) -> bool:
        provider, _, rest = token.partition(":")
        place, _, kind = rest.rpartition(":")
        return provider == "kubernetes" and kind in wanted and (group is None or place.split("/")[0] == group)

    return applies


def either(*tests: Callable[[str], bool]) -> Callable[[str], bool]:
    """Return a test that is passed where one of several is."""
    return lambda token: any(test(token) for test in tests)


PODS_OF_KUBERNETES = kubernetes(*PODS)
PODS_OF_SLINKY = kubernetes(*SLINKY_PODS, group=SLINKY)
HAS_PODS = either(PODS_OF_KUBERNETES, PODS_OF_SLINKY)
POOLS = one_of(NODE_POOL, SLURM_NODE_SET)
RELEASES = kubernetes("Release", "Chart")


def objects(resource: Resource) -> Iterator[tuple[Path, str, Mapping[str, object]]]:
    """Yield path, kind and fields of each object that a resource declares: itself, or the items of a list."""
    if resource.kind.endswith("List"):
        for index, item in enumerate(items(resource.inputs.get("items"))):
            kind = table(item).get("kind")
            yield ("items", index), kind if isinstance(kind, str) else resource.kind[: -len("List")], table(item)
    else:
        yield (), resource.kind, resource.inputs


def pod_specs(resource: Resource) -> Iterator[tuple[Path, object]]:
    """Yield path and value of each pod's spec; in an object of Slinky that of its template."""
    for path, kind, fields in objects(resource):
        match kind:
            case "Pod":
                inner: Path = ("spec",)
            case "PodTemplate":
                inner = ("template", "spec")
            case "CronJob":
                inner = ("spec", "jobTemplate", "spec", "template", "spec")
            case _:
                inner = ("spec", "template", "spec")
        yield (*path, *inner), values.at(fields, *inner)


def containers(resource: Resource) -> Iterator[tuple[Path, object]]:
    """Yield path and value of every container, init and ephemeral ones and Slinky's daemons included.

    What is not known yet is noted on the resource.
    """
    for path, spec in pod_specs(resource):
        for key in ("containers", "initContainers", "ephemeralContainers"):
            if values.at(spec, key) is values.UNKNOWN:
                resource.read(*path, key)
            for index, container in enumerate(items(values.at(spec, key))):
                yield (*path, key, index), container
    if PODS_OF_SLINKY(resource.type):
        for path, _, fields in objects(resource):
            for daemon in DAEMONS:
                if (found := values.at(fields, "spec", daemon)) is not None:
                    yield (*path, "spec", daemon), found


def gpus_of_container(container: object) -> Mapping[str, int]:
    """Return how many GPUs a container asks for, by resource name."""
    asked: dict[str, int] = {}
    for name in GPU_RESOURCES:
        for part in ("limits", "requests"):
            amount = values.at(container, "resources", part, name)
            number = int(amount) if isinstance(amount, str) and amount.isdigit() else whole(amount)
            if number:
                asked[name] = max(asked.get(name, 0), number)
    return asked


def asks_for_gpus(resource: Resource) -> bool:
    """Say whether a pod of a resource asks for GPUs. A number that is not known yet is noted on the resource."""
    asked = False
    for path, container in containers(resource):
        asked = asked or bool(gpus_of_container(container))
        for part in ("limits", "requests"):
            for name in GPU_RESOURCES:
                if values.at(container, "resources", part, name) is values.UNKNOWN:
                    resource.read(*path, "resources", part, name)
    return asked
