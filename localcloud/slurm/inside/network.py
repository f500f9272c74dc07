"""The first process of a cluster's outer namespaces: it makes the pods' network and keeps everything together.

Arguments: `--cluster=<folder>`, by which it is recognised, the image's folder, the bridge's addresses. When it is
killed, every pod dies with it, and nothing is left: no interface, no mount, no process.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

# Python's isolated mode knows only its own library.
sys.path.insert(0, str(Path(__file__).parents[3]))

from localcloud.slurm.inside import kernel

BRIDGE = "br0"
READY = "network-ready"


def ip(image: Path, *arguments: str) -> None:
    """Run the image's `ip`: this machine may have none."""
    command = ["/usr/sbin/ip", *arguments]
    done = subprocess.run(command, preexec_fn=lambda: os.chroot(image), capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise OSError(f"ip {' '.join(arguments)}: {done.stderr.strip()}")


def main() -> None:
    """Make the network, then collect whatever processes are left to this one, until killed."""
    folder, image, addresses = Path(sys.argv[1].partition("=")[2]), Path(sys.argv[2]), sys.argv[3:]
    kernel.make_private()
    kernel.mount_proc(Path("/proc"))
    # `ip` finds a process's network namespace there.
    kernel.bind("/proc", image / "proc")
    ip(image, "link", "set", "lo", "up")
    ip(image, "link", "add", BRIDGE, "type", "bridge")
    for address in addresses:
        ip(image, "addr", "add", address, "dev", BRIDGE)
    ip(image, "link", "set", BRIDGE, "up")
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    (folder / READY).write_text(str(os.getpid()))
    while True:
        signal.pause()


if __name__ == "__main__":
    main()
