"""From this machine into a pod's network."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys

import pytest

from localcloud.slurm.reach import entered

LISTENS = """
import fcntl, socket, struct
up, running, set_flags = 0x1, 0x40, 0x8914
fcntl.ioctl(socket.socket(), set_flags, struct.pack("16sh", b"lo", up | running))
listener = socket.create_server(("127.0.0.1", 0))
print(listener.getsockname()[1], flush=True)
client, _ = listener.accept()
client.sendall(b"inside")
"""


def may_enter() -> bool:
    """Whether this user may make and enter networks, as only root may, and not in every container."""
    if os.geteuid() != 0 or shutil.which("unshare") is None:
        return False
    return subprocess.run(["unshare", "--net", "true"], capture_output=True, check=False).returncode == 0


@pytest.mark.skipif(not may_enter(), reason="this user may not enter a network")
def test_a_connection_is_made_in_the_network_of_the_process() -> None:
    command = ["unshare", "--net", sys.executable, "-c", LISTENS]
    inside = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert inside.stdout is not None
        port = int(inside.stdout.readline())
        with pytest.raises(OSError, match="refused"):
            socket.create_connection(("127.0.0.1", port), timeout=5)
        with pytest.raises(OSError, match="refused"):
            entered(inside.pid, "127.0.0.1", 1, 5)
        with entered(inside.pid, "127.0.0.1", port, 5) as connection:
            assert connection.recv(10) == b"inside"
    finally:
        inside.kill()
        inside.wait()
    with pytest.raises(OSError, match="No such file"):
        entered(inside.pid, "127.0.0.1", port, 5)
