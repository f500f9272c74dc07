"""Takes GPUs away from a running container, in its mount namespace: devices, and what the driver shows of them.

Arguments: the container's root, then for each GPU its number and its place on the bus (`3=0000:04:00.0`). What is gone
already stays gone.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

# Python's isolated mode knows only its own library.
sys.path.insert(0, str(Path(__file__).parents[3]))

from localcloud.slurm.inside import kernel


def main(root: Path, gpus: list[str]) -> None:
    """Take them away."""
    for gpu in gpus:
        number, _, place = gpu.partition("=")
        device = root / "dev" / f"nvidia{number}"
        if device.exists():
            kernel.unmount(device)
            device.unlink()
        for folder in ("proc/driver/nvidia/gpus", "sys/bus/pci/drivers/nvidia"):
            shutil.rmtree(root / folder / place, ignore_errors=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
