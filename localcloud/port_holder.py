"""Who listens on a port of this machine, as far as it can be known."""

from __future__ import annotations

import contextlib
import subprocess
from pathlib import Path

_LISTEN = "0A"


def holder(port: int) -> str | None:
    """The listening process in words, such as `process 4711 (python3 -m http.server)`."""
    pid = _by_proc(port) if Path("/proc/net/tcp").exists() else _by_lsof(port)
    if pid is None:
        return None
    command = _command(pid)
    return f"process {pid} ({command})" if command else f"process {pid}"


def _by_proc(port: int) -> int | None:
    sockets = {
        f"socket:[{inode}]" for table in ("tcp", "tcp6") for inode in _listening(Path("/proc/net") / table, port)
    }
    if not sockets:
        return None
    for link in Path("/proc").glob("[0-9]*/fd/*"):
        with contextlib.suppress(OSError):
            if str(link.readlink()) in sockets:
                return int(link.parts[2])
    return None


def _listening(table: Path, port: int) -> list[str]:
    with contextlib.suppress(OSError):
        rows = [line.split() for line in table.read_text().splitlines()[1:]]
        return [row[9] for row in rows if row[3] == _LISTEN and int(row[1].rpartition(":")[2], 16) == port]
    return []


def _by_lsof(port: int) -> int | None:
    with contextlib.suppress(OSError, ValueError):
        answer = subprocess.run(
            ["lsof", "-nP", f"-iTCP:{port}", "-sTCP:LISTEN", "-t"],
            capture_output=True,
            text=True,
            check=False,
        )
        return int(answer.stdout.split()[0])
    return None


def _command(pid: int) -> str:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()[:120]
    return ""
