"""Slurm's partitions and the topology of its nodes.

slurmctld dies on a partition of an unknown node set, on one that is declared twice and on a wrong time; of two default
partitions the last one silently wins (tried with 26.05.5).
"""

from __future__ import annotations

import difflib
import re
from typing import TYPE_CHECKING

from crusoe import catalog
from crusoe.rules import slurm_conf, slurm_timing
from crusoe.rules.finding import Finding
from crusoe.rules.values import items, table, text, whole

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

LONGEST_LEAF = 64
NVLINK_DOMAIN = "gb200"
"""GPUs whose hosts share an NVLink domain, by their gres name."""

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,62}")
_LEAF = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
_FEATURE_LISTS = ("allowGroups", "allowAccounts", "denyAccounts", "allowQos", "denyQos")
_NEED_ACCOUNTING = ("allowAccounts", "denyAccounts", "allowQos", "denyQos", "qos")


def partitions(
    path: str,
    value: object,
    pools: object,
    *,
    own: object = None,
    own_path: str = "",
    kill_wait: object = None,
    preemption: object = None,
    accounting: object = True,
) -> list[Finding]:
    """Check all partitions: those over several pools, by name, and each pool's own, which is called as the pool.

    `pools` has the keys of Slurm's pools, `own` the settings of the pools' own partitions by the same keys, which are
    told under `<own_path>.<key>.partition`. `preemption` is `qos`, `partition` or `off`.
    """
    wide = {f"{path}.{name}": (name, table(each)) for name, each in table(value).items()}
    found: list[Finding] = []
    for place, (name, partition) in wide.items():
        found += _name(place, name, pools, own_path)
        found += _pools(f"{place}.pools", partition.get("pools"), pools)
    narrow = {f"{own_path}.{key}.partition": (key, table(each)) for key, each in table(own).items()}
    for place, (key, partition) in narrow.items():
        if items(partition.get("pools")):
            problem = f"this is the partition of {key} alone"
            found.append(Finding(f"{place}.pools", problem, f"Leave it out, or make a partition in {path}"))
    entries = {**narrow, **wide}
    for place, (_, partition) in entries.items():
        found += _times(place, partition)
        found += _lists(place, partition, accounting)
        found += _preemption(place, partition, preemption)
        found += slurm_timing.grace_time(f"{place}.graceTime", partition.get("graceTime"), kill_wait)
    defaults = [(place, name) for place, (name, partition) in entries.items() if partition.get("default") is True]
    for place, _ in defaults[1:]:
        problem = f"{defaults[0][1]} is the default already, and Slurm would silently take the last one"
        found.append(Finding(f"{place}.default", problem, "Write false"))
    return found


def _name(path: str, name: str, pools: object, own_path: str) -> Iterator[Finding]:
    if name in table(pools):
        problem = f"the pool {name} has a partition of this name already, and slurmctld dies on a second one"
        yield Finding(path, problem, f"Set {own_path}.{name}.partition, or call this one {f'{name}-all'!r}")
    elif not _NAME.fullmatch(name):
        right = re.sub(r"[^A-Za-z0-9_-]+", "-", name).strip("-_0123456789")[:63] or "train"
        problem = f"{name[:70]!r} is no name of a partition: letters, digits, '-' and '_', a letter first"
        yield Finding(path, problem, f"Call it {right!r}")
    elif name.upper() == "DEFAULT":
        yield Finding(path, "Slurm takes this name for defaults of the partitions after it", "Call it 'all'")


def _pools(path: str, value: object, pools: object) -> Iterator[Finding]:
    known = list(table(pools))
    if value in ([], ()):
        yield Finding(path, "no pool, so that the partition has no nodes", f"Write one of {', '.join(known)}")
    seen: set[str] = set()
    for index, each in enumerate(items(value)):
        key = text(each)
        if key is None or not known:
            continue
        if key not in known:
            near = difflib.get_close_matches(key, known, n=1)
            problem = f"no pool of Slurm's is called {key[:60]!r}, and slurmctld would die on it"
            yield Finding(f"{path}[{index}]", problem, f"Write {near[0] if near else ' or '.join(known)}")
        elif key in seen:
            yield Finding(f"{path}[{index}]", f"{key} is there already", "Leave it out")
        seen.add(key)


def _times(path: str, partition: Mapping[str, object]) -> Iterator[Finding]:
    for key in ("maxTime", "defaultTime"):
        yield from slurm_conf.time(f"{path}.{key}", partition.get(key))
    longest, usual = (slurm_conf.minutes(partition.get(key)) for key in ("maxTime", "defaultTime"))
    if longest == 0:
        yield Finding(f"{path}.maxTime", "no job fits into no time", "Write '7-0', or UNLIMITED")
    if longest is not None and usual is not None and usual > longest:
        problem = f"longer than maxTime, {partition.get('maxTime')}: Slurm silently drops it"
        yield Finding(f"{path}.defaultTime", problem, f"Write {partition.get('maxTime')!r}")
    least, most = whole(partition.get("minNodes")), whole(partition.get("maxNodes"))
    if least is not None and most is not None and least > most:
        yield Finding(f"{path}.minNodes", f"{least} is more than maxNodes, {most}", f"Write {most}")


def _lists(path: str, partition: Mapping[str, object], accounting: object) -> Iterator[Finding]:
    for key in _FEATURE_LISTS:
        for index, each in enumerate(items(partition.get(key))):
            if text(each) is not None and not re.fullmatch(r"[A-Za-z0-9_.@-]+", str(each)):
                yield Finding(f"{path}.{key}[{index}]", f"{str(each)[:40]!r} is no name", "Write one name an item")
    for allow, deny in (("allowAccounts", "denyAccounts"), ("allowQos", "denyQos")):
        if items(partition.get(allow)) and items(partition.get(deny)):
            yield Finding(f"{path}.{deny}", f"with {allow} Slurm does not look at it", "Leave one of them out")
    if accounting is False:
        for key in _NEED_ACCOUNTING:
            if partition.get(key):
                problem = "there are no accounts and no QOS without accounting, which is off"
                yield Finding(f"{path}.{key}", problem, "Leave it out, or turn accounting on")


def _preemption(path: str, partition: Mapping[str, object], preemption: object) -> Iterator[Finding]:
    if preemption not in ("qos", "off"):
        return
    reason = {
        "qos": "preemption goes by QOS, where this has no effect",
        "off": "preemption is off, so that this has no effect",
    }[preemption]
    for key in ("preemptMode", "graceTime"):
        if partition.get(key) not in (None, 0, "off"):
            fix = "Set it on the QOS" if preemption == "qos" else "Write preemption: partition, or leave this out"
            yield Finding(f"{path}.{key}", reason, fix)


def topology(path: str, value: object, types: object) -> list[Finding]:
    """Check the topology against the VM types of Slurm's pools (a list)."""
    given = table(value)
    kind, found = text(given.get("kind")), [*_leaves(path, given)]
    gpus = [known for each in items(types) if (known := catalog.vm_type(each)) is not None and known.gpus]
    if kind == "tree" and gpus and not any(each.fabric for each in gpus):
        problem = "no pool has InfiniBand or RoCE, so that there are no switches to be near to"
        found.append(Finding(f"{path}.kind", problem, "Write none"))
    if kind == "block" and gpus and not any(each.gres == NVLINK_DOMAIN for each in gpus):
        problem = "blocks are NVLink domains, and no pool has hosts that share one"
        found.append(Finding(f"{path}.kind", problem, "Write tree"))
    size = whole(given.get("blockSize"))
    if size is not None and size < 1:
        found.append(Finding(f"{path}.blockSize", f"{size} nodes are no block", "Write 18"))
    return found


def _leaves(path: str, given: Mapping[str, object]) -> Iterator[Finding]:
    names = [(f"{path}.defaultLeaf", given.get("defaultLeaf"))]
    names += [(f"{path}.leaves[{index}]", each) for index, each in enumerate(items(given.get("leaves")))]
    seen: set[str] = set()
    for place, each in names:
        name = text(each)
        if name is None:
            continue
        if len(name) > LONGEST_LEAF or not _LEAF.fullmatch(name):
            problem = f"{name[:70]!r} is no name of a leaf: letters, digits, '-', '_' and '.', {LONGEST_LEAF} at most"
            yield Finding(place, problem, "Write the partition's or rack's id, such as 'leaf-1'")
        elif name in seen:
            yield Finding(place, f"{name} is there already", "Leave it out")
        seen.add(name)
