"""A worker's pod: a pure function of its NodeSet, its Controller and its place among the others."""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from localcloud.slinky import conf
from localcloud.slinky.merge import merged, merged_container
from localcloud.slinky.pods import (
    CLUSTER_LABEL,
    DEFAULT_CONTAINER,
    PREFIX,
    conf_server,
    empty,
    etc,
    labels_of,
    logfile,
    slurm_key,
    ssh_mounts,
    ssh_volumes,
    tcp,
)
from localcloud.slinky.values import Object, at, items, name_of, part, words

TOPOLOGY = "topology.slinky.slurm.net/spec"
"""The annotation of Node and pod with the worker's place in Slurm's topology."""

STOPPING = "slurm-operator: Pod is terminating"
_GRACE_SECONDS = 30
_SUFFIXES: Mapping[str, Decimal] = {
    "": Decimal(1),
    "m": Decimal("0.001"),
    **{letter: Decimal(1000) ** (power + 1) for power, letter in enumerate("kMGTPE")},
    **{f"{letter}i": Decimal(1024) ** (power + 1) for power, letter in enumerate("KMGTPE")},
}
_QUANTITY = re.compile(r"([+-]?[\d.]+(?:[eE][+-]?\d+)?)([KMGTPE]i|[mkMGTPE])?")


def slurmd(node_set: Mapping[str, Any], controller: Mapping[str, Any], name: str, hostname: str) -> Object:
    """One worker's pod, without what its owner adds (its revision, its number).

    Raises ValueError for an item of `extraConf` that has no `=`; the real operator panics there.
    """
    spec, template = part(node_set, "spec"), part(node_set, "spec", "template")
    limits = part(spec, "slurmd", "resources", "limits")
    own: Object = {
        "name": "slurmd",
        "args": ["-D", "-Z", "--conf-server", conf_server(controller), "--conf", node_conf(node_set)],
        "env": [
            *([{"name": "POD_CPUS", "value": str(int(quantity(limits["cpu"])))}] if "cpu" in limits else []),
            *([{"name": "POD_MEMORY", "value": _mebibytes(limits["memory"])}] if "memory" in limits else []),
            {
                "name": "POD_TOPOLOGY",
                "valueFrom": {"fieldRef": {"fieldPath": f"metadata.annotations['{TOPOLOGY}']"}},
            },
        ],
        "ports": [{"name": "slurmd", "containerPort": conf.SLURMD_PORT, "protocol": "TCP"}],
        "startupProbe": tcp(conf.SLURMD_PORT, threshold=6),
        "readinessProbe": tcp(conf.SLURMD_PORT),
        "livenessProbe": tcp(conf.SLURMD_PORT),
        "lifecycle": {"preStop": {"exec": {"command": ["/usr/bin/sh", "-c", _set_down()]}}},
        "securityContext": {
            "privileged": True,
            "capabilities": {"add": ["BPF", "NET_ADMIN", "SYS_ADMIN", "SYS_NICE"]},
        },
        "volumeMounts": [
            {"name": "slurm-etc", "mountPath": conf.FOLDER, "readOnly": True},
            {"name": "run", "mountPath": "/run"},
            {"name": "slurm-spool", "mountPath": "/var/spool/slurmd"},
            {"name": "slurm-log", "mountPath": "/var/log/slurm"},
            *(ssh_mounts() if at(spec, "ssh", "enabled") else []),
        ],
    }
    volumes = [
        etc(slurm_key(part(controller, "spec"))),
        *map(empty, ("run", "slurm-spool", "slurm-log")),
        *(ssh_volumes(name_of(node_set), part(spec, "ssh", "sssdConfRef")) if at(spec, "ssh", "enabled") else []),
        *(
            {
                "name": claim["metadata"]["name"],
                "persistentVolumeClaim": {"claimName": f"{claim['metadata']['name']}-{name}"},
            }
            for claim in items(spec, "volumeClaimTemplates")
        ),
    ]
    base: Object = {
        "automountServiceAccountToken": False,
        "initContainers": [logfile(spec, "slurmd")],
        "containers": [merged_container(own, part(spec, "slurmd"))],
        "terminationGracePeriodSeconds": _GRACE_SECONDS,
        "tolerations": [{"key": f"{PREFIX}/worker", "operator": "Exists", "effect": "NoExecute"}],
        "volumes": volumes,
    }
    if not spec.get("oversubscribeNode"):
        base["affinity"] = {"podAntiAffinity": _one_per_node()}
    pod = merged(base, part(template, "spec"))
    labels = {
        **words(node_set, "metadata", "labels"),
        **words(template, "metadata", "labels"),
        **labels_of("slurmd", name_of(node_set)),
        CLUSTER_LABEL: name_of(controller),
        f"{PREFIX}/pod-name": name,
        f"{PREFIX}/pod-hostname": hostname,
        f"{PREFIX}/scaling-mode": spec.get("scalingMode", "StatefulSet"),
    }
    annotations = {
        **words(node_set, "metadata", "annotations"),
        **words(template, "metadata", "annotations"),
        DEFAULT_CONTAINER: "slurmd",
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": node_set["metadata"]["namespace"],
            "labels": labels,
            "annotations": annotations,
        },
        "spec": {**pod, "hostname": hostname, "subdomain": f"slurm-workers-{name_of(controller)}"},
    }


def node_conf(node_set: Mapping[str, Any]) -> str:
    """What slurmd says of its node: its feature, and the user's items with theirs joined to it."""
    own: dict[str, list[str]] = {"Features": [conf.node_set_name(node_set)]}
    for item in (at(node_set, "spec", "extraConf") or "").split():
        key, equals, value = item.partition("=")
        if not equals:
            raise ValueError(f"extraConf has the item {item!r} without '='")
        known = "Features" if key.lower() in ("feature", "features") else key
        own.setdefault(known, []).append(value)
    return " ".join(f"{key}={','.join(values)}" for key, values in own.items())


def quantity(value: object) -> Decimal:
    """A Kubernetes quantity as a number; raises ValueError for anything else."""
    found = _QUANTITY.fullmatch(str(value))
    if found is None:
        raise ValueError(f"{value!r} is no quantity")
    return Decimal(found[1]) * _SUFFIXES[found[2] or ""]


def _set_down() -> str:
    return f"scontrol update nodename=$(hostname) state=down reason='{STOPPING}'"


def _one_per_node() -> Object:
    selector = {"matchLabels": {"app.kubernetes.io/name": "slurmd"}}
    return {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {"labelSelector": selector, "topologyKey": "kubernetes.io/hostname"}
        ]
    }


def _mebibytes(memory: object) -> str:
    return str(int(quantity(memory) / 2**20))
