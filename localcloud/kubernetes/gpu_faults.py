"""Broken GPUs of a node: what its annotation says, and what the machine's kernel says of them. Pure functions."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import NamedTuple

GPU_FAULTS = "local.crusoe.ai/gpu-faults"
"""Annotation of a Node: a JSON list of `[xid, gpu]`. Whoever plays the machine makes it true there."""

FELL_OFF_THE_BUS = 79

# The texts that NVIDIA's driver writes, as its table of XID errors describes them.
_TEXTS = {
    FELL_OFF_THE_BUS: "pid='<unknown>', name=<unknown>, GPU has fallen off the bus.",
    48: "pid='<unknown>', name=<unknown>, DBE (double bit error) ECC error",
    64: "pid='<unknown>', name=<unknown>, ECC page retirement or row remapper recording failure",
    74: "pid='<unknown>', name=<unknown>, NVLink: fatal error detected",
    95: "pid='<unknown>', name=<unknown>, Uncontained ECC error",
}
_OTHER = "pid='<unknown>', name=<unknown>, error"


class GpuFault(NamedTuple):
    """An XID error of one GPU, which counts from 0."""

    xid: int
    gpu: int


def faults_of(annotation: str | None) -> list[GpuFault]:
    """The faults that an annotation says; what is no such list is none."""
    try:
        return [GpuFault(int(xid), int(gpu)) for xid, gpu in json.loads(annotation or "[]")]
    except (ValueError, TypeError):
        return []


def lost(faults: Sequence[GpuFault]) -> frozenset[int]:
    """The GPUs that are gone: not every XID takes the GPU away."""
    return frozenset(fault.gpu for fault in faults if fault.xid == FELL_OFF_THE_BUS)


def pci_address(gpu: int) -> str:
    """Where a GPU is on the bus."""
    return f"0000:{gpu + 1:02x}:00"


def kernel_lines(faults: Sequence[GpuFault]) -> list[str]:
    """The kernel's log of a machine, as the driver writes it."""
    return [
        f"NVRM: Xid (PCI:{pci_address(fault.gpu)}): {fault.xid}, {_TEXTS.get(fault.xid, _OTHER)}" for fault in faults
    ]
