"""What a pod sees of the machine beneath it: the kernel's log, and GPUs that are gone."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Sequence
from pathlib import Path

from localcloud.kubernetes.gpu_faults import GpuFault, kernel_lines, pci_address

DMESG = "/usr/bin/dmesg"
"""Where the program is that prints the kernel's log. The real one would print the log of this machine's kernel."""


def dmesg(faults: Sequence[GpuFault]) -> str:
    """A program that prints a node's kernel log."""
    lines = "".join(f"echo {shlex.quote(f'[    0.000000] {line}')}\n" for line in kernel_lines(faults))
    return f"#!/bin/sh\n{lines}"


def write_dmesg(path: Path, faults: Sequence[GpuFault]) -> None:
    """Keep the program in a file. It is written in place, since running pods have the file itself mounted."""
    text = dmesg(faults)
    if path.exists() and path.read_text() == text:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)


def places(gpus: Collection[int]) -> list[str]:
    """GPUs with their places on the bus, as `inside/lose.py` takes them (`kernel.show_gpus` showed them there)."""
    return [f"{gpu}={pci_address(gpu)}.0" for gpu in sorted(gpus)]
