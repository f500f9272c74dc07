"""Disks: sizes, and where shared disks can be mounted.

Facts: persistent disks are 1 GiB to 10 TiB and only grow (Crusoe's disk documentation); shared disks are 1 TiB to 1000
TiB in steps of 1 TiB and mount on CPU types and whole hosts only (Crusoe CSI driver, 2026-05-10).
"""

from __future__ import annotations

import math
import re

from crusoe import catalog
from crusoe.rules.finding import Finding
from crusoe.rules.values import text

PERSISTENT = "persistent-ssd"
SHARED = "shared-volume"
TYPES = (PERSISTENT, SHARED)

_SIZE = re.compile(r"([1-9]\d{0,8})(GiB|TiB)")


def gib(size: object) -> int | None:
    """Return a size in GiB: `10TiB` is 10240, None for what is no size."""
    match = _SIZE.fullmatch(size) if isinstance(size, str) else None
    return int(match[1]) * (1024 if match[2] == "TiB" else 1) if match else None


def size(path: str, disk_type: object, value: object) -> list[Finding]:
    """Check a disk's size: its form, and the limits of its type."""
    given, amount = text(value), gib(value)
    if given is None:
        return []
    if amount is None:
        number = re.match(r"\s*(\d{1,9}(?:\.\d{1,9})?)\s*([tT])?", given)
        wanted = math.ceil(float(number[1]) * (1024 if number[2] else 1)) if number else 0
        near = _written(disk_type, wanted or 100)
        problem = f"{given[:40]!r} is not a size in whole GiB or TiB"
        return [Finding(path, problem, f"Write {near!r}")]
    if disk_type == PERSISTENT and amount > 10 * 1024:
        return [
            Finding(path, f"{given} is more than a persistent disk can have", "Write '10TiB', or use a shared-volume")
        ]
    if disk_type == SHARED and amount % 1024:
        return [
            Finding(
                path,
                f"{given} is not a whole number of TiB, as shared disks need",
                f"Write {_written(disk_type, amount)!r}",
            )
        ]
    if disk_type == SHARED and amount > 1000 * 1024:
        return [Finding(path, f"{given} is more than a shared disk can have", "Write '1000TiB'")]
    return []


def _written(disk_type: object, amount: int) -> str:
    """Return the smallest size of the type that has so many GiB, the largest one when none has."""
    if disk_type == SHARED:
        return f"{min(1000, math.ceil(amount / 1024))}TiB"
    most = min(amount, 10 * 1024) if disk_type == PERSISTENT else amount
    return f"{most // 1024}TiB" if most % 1024 == 0 else f"{most}GiB"


def grows(path: str, old: object, new: object) -> list[Finding]:
    """Refuse a smaller size: disks only grow."""
    before, after = gib(old), gib(new)
    if before is None or after is None or after >= before:
        return []
    return [
        Finding(
            path, f"the disk has {old}, and disks only grow", f"Write {old!r}, or make a new disk and copy the data"
        )
    ]


def shared_mount(path: str, vm_type_name: object) -> list[Finding]:
    """Refuse a VM type that can't mount shared disks."""
    kind = catalog.vm_type(vm_type_name)
    if kind is None or kind.mounts_shared_disks:
        return []
    problem = f"{kind.name} is a slice of a host and can't mount shared disks"
    return [Finding(path, problem, f"Use the whole host, {catalog.whole_host_of(kind.name)!r}")]
