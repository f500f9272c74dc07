"""Crusoe Managed Slurm: what its clusters and node sets may be called, be made of, and how they change.

Facts: Crusoe's API description (2026-07-20): a Slurm cluster has no update, a node set only that of its count; the
backing CMK cluster has the Slurm cluster's name; pods are `<cluster>-<nodeset>-<index>` and the Controller object is
`slurm-<cluster>` (Crusoe's support bundler, 2026-04-02). Slinky 1.2.1, observed: a Controller's name has at most 41
characters. `/home` is a shared disk: whole TiB from 1 to 1000, not on slices of hosts (Crusoe CSI driver, 2026-05-10).
"""

from __future__ import annotations

import math
import re

from crusoe import catalog
from crusoe.rules import names, node_pools, ssh, storage
from crusoe.rules.finding import Finding
from crusoe.rules.values import items, table, text, whole

LONGEST_CLUSTER = 41 - len("slurm-")
"""Characters of a Slurm cluster's name, so that its Controller object still gets its pod."""

MOST_HOME_TEBIBYTES = 1000
DEFAULT_HOME = "10Ti"
"""The size of `/home` when none is given."""

_UNITS = {
    "": 1,
    **{unit: 1000**power for power, unit in enumerate("kMGTPE", 1)},
    **{f"{unit}i": 1024**power for power, unit in enumerate("KMGTPE", 1)},
}
_QUANTITY = re.compile(r"(\d{1,18})([kMGTPE]|[KMGTPE]i)?")


def cluster_name(path: str, value: object) -> list[Finding]:
    """Check a Slurm cluster's name, which names its CMK cluster and its objects too."""
    given = text(value)
    if given is not None and LONGEST_CLUSTER < len(given) <= names.LONGEST:
        problem = f"the name {given!r} has {len(given)} characters, {LONGEST_CLUSTER} are allowed for a Slurm cluster"
        return [Finding(path, problem, f"Shorten it, for example to {given[:LONGEST_CLUSTER].rstrip('-')!r}")]
    return names.name(path, value)


def node_set_name(path: str, value: object, cluster: object = None, count: object = None) -> list[Finding]:
    """Check a node set's name: free for workers, and `<cluster>-<name>-<index>` has to be a host name."""
    found = names.name(path, value)
    given, owner = text(value), text(cluster)
    if found or given is None:
        return found
    if given in names.RESERVED_POOLS:
        problem = f"{given!r} is reserved for {names.RESERVED_POOLS[given]}"
        return [Finding(path, problem, f"Call it {f'{given}-nodes'!r}")]
    digits = len(str(max(0, (whole(count) or 1) - 1)))
    room = names.LONGEST - len(owner or "") - len("--") - digits
    if owner is not None and len(given) > room > 0:
        problem = f"its nodes would be called {f'{owner}-{given}-0'!r}, longer than the {names.LONGEST} of a host name"
        return [Finding(path, problem, f"Shorten it to {room} characters, for example {given[:room].rstrip('-')!r}")]
    return []


def root_keys(path: str, value: object) -> list[Finding]:
    """Check root's public keys: at least one, and each a public key."""
    given = items(value)
    if isinstance(value, list | tuple) and not given:
        problem = "without a key of root nobody can get into the login nodes"
        return [Finding(path, problem, "Give at least one, such as the content of ~/.ssh/id_ed25519.pub")]
    return [fault for index, key in enumerate(given) for fault in ssh.public_key(f"{path}[{index}]", key)]


def home_bytes(value: object) -> int | None:
    """Return the size of a Kubernetes quantity in bytes; 0 for the empty text, which stands for no `/home`."""
    if value == "":
        return 0
    match = _QUANTITY.fullmatch(value) if isinstance(value, str) else None
    return int(match[1]) * _UNITS[match[2] or ""] if match else None


def has_home(value: object) -> bool:
    """Say whether a cluster with this `homeVolumeSize` has a shared `/home`; left out, it has one."""
    return value != ""


def home_size(path: str, value: object) -> list[Finding]:
    """Check the size of the shared `/home`: whole Ti, 1 to 1000, or the empty text for none."""
    given, amount = text(value), home_bytes(value)
    if given is None:
        return []
    tebibyte = _UNITS["Ti"]
    if amount is None:
        number = re.match(r"\s*(\d{1,6}(?:\.\d{1,6})?)\s*([tTgGmM])?", given)
        scale = {"g": 1 / 1024, "m": 1 / 1024**2}.get((number[2] or "t").lower(), 1.0) if number else 1.0
        near = _in_bounds(math.ceil(float(number[1]) * scale)) if number else 10
        return [Finding(path, f"{given[:40]!r} is not a Kubernetes quantity in whole Ti", f"Write '{near}Ti'")]
    near = _in_bounds(math.ceil(amount / tebibyte))
    if amount == 0:
        return [Finding(path, "a shared disk has at least 1Ti", "Write '1Ti', or '' for no shared /home")]
    if amount > MOST_HOME_TEBIBYTES * tebibyte:
        return [Finding(path, f"{given} is more than a shared disk can have", f"Write '{MOST_HOME_TEBIBYTES}Ti'")]
    if amount % tebibyte:
        return [Finding(path, f"{given} is not a whole number of Ti, as shared disks need", f"Write '{near}Ti'")]
    return []


def _in_bounds(tebibytes: int) -> int:
    return min(MOST_HOME_TEBIBYTES, max(1, tebibytes))


def home_mount(path: str, vm_type_name: object, home: object) -> list[Finding]:
    """Refuse workers on slices of hosts in a cluster with a shared `/home`, which they can't mount."""
    found = storage.shared_mount(path, vm_type_name) if has_home(home) else []
    return [
        Finding(path, one.problem.replace("shared disks", "the shared /home"), f"{one.fix}, or have no shared /home")
        for one in found
    ]


def login_replicas(path: str, value: object) -> list[Finding]:
    """Check the number of login pods."""
    given = whole(value)
    if given is None or given >= 1:
        return []
    return [Finding(path, f"{given} login pods leave no way to submit a job", "Write 1")]


def login_node_type(path: str, value: object) -> list[Finding]:
    """Check that the nodes for controller and login are of a CPU type: there is no partition for another's fabric."""
    kind = catalog.vm_type(value)
    if kind is None or not kind.gpus:
        return []
    problem = f"{kind.name} has GPUs, which the controller and the login nodes would only block"
    return [Finding(path, problem, "Write a CPU type such as 'c1a.8x'")]


def partition(path: str, vm_type_name: object, value: object) -> list[Finding]:
    """Check that a type with a fabric has a partition, `value`, and another type has none."""
    return node_pools.fabric(path, vm_type_name, has_partition=text(value) is not None, partition_path=path)


def replacement(path: str, cluster: object, changed: object, consent: object) -> list[Finding]:
    """Refuse to replace a Slurm cluster for the changed properties unless it was agreed to.

    `changed` lists the properties; `consent` is the cluster's `replaceOnChange`.
    """
    given = [name for each in items(changed) if (name := text(each))]
    if not given or consent is True:
        return []
    problem = (
        f"Crusoe can't change {' and '.join(given)} of a Slurm cluster; to replace {text(cluster) or 'it'} destroys its"
        " shared /home, its queue and every running job"
    )
    fix = (
        "Take the change back, or save /home, let the queue run empty and set replaceOnChange: true for the run that is"
        " to replace it"
    )
    return [Finding(path, problem, fix)]


def scale_down(path: str, *, running: object, wanted: object, allow: object) -> list[Finding]:
    """Refuse a lower count unless it is allowed: which nodes go, and whether their jobs may end, is not documented."""
    before, after = whole(running), whole(wanted)
    if before is None or after is None or after >= before or allow is True:
        return []
    problem = f"{before - after} of {before} nodes would go, and Crusoe does not say that their jobs may end first"
    return [Finding(path, problem, f"Write {before}, or drain the last nodes in Slurm and set allowScaleDown: true")]


def cluster(path: str, value: object) -> list[Finding]:
    """Apply every rule that needs only one cluster, as its settings or inputs."""
    given = table(value)
    return [
        *cluster_name(f"{path}.name", given.get("name")),
        *root_keys(f"{path}.rootSshPublicKeys", given.get("rootSshPublicKeys")),
        *home_size(f"{path}.homeVolumeSize", given.get("homeVolumeSize")),
        *login_replicas(f"{path}.loginReplicas", given.get("loginReplicas")),
        *node_pools.vm_type(f"{path}.loginNodeType", given.get("loginNodeType")),
        *login_node_type(f"{path}.loginNodeType", given.get("loginNodeType")),
    ]


def node_set(path: str, value: object, of: object = None) -> list[Finding]:
    """Apply every rule to one node set, as its settings or inputs; `of` is its cluster, where that is known."""
    given, owner = table(value), table(of)
    found = [
        *node_set_name(f"{path}.name", given.get("name"), owner.get("name"), given.get("count")),
        *node_pools.vm_type(f"{path}.type", given.get("type")),
        *partition(f"{path}.transportPartitionId", given.get("type"), given.get("transportPartitionId")),
        *node_pools.counts(path, count=given.get("count"), min_count=given.get("minCount")),
    ]
    return found + (home_mount(f"{path}.type", given.get("type"), owner.get("homeVolumeSize")) if owner else [])
