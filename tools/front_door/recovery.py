"""What an `up` that was killed leaves behind in the file backend of `dev`: a lock nobody holds, and pending creates.

Facts about the backend's files are those of the pinned Pulumi CLI: locks lie under `.pulumi/locks`, one JSON file for
each with pid, host name and time; a stack's checkpoint under `.pulumi/stacks`.
"""

import json
import socket
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit


@dataclass(frozen=True)
class Lock:
    """One update's claim on a stack."""

    pid: int
    host: str
    since: str

    @property
    def is_dead(self) -> bool:
        """Whether the `pulumi` that wrote it is gone. One of another machine is taken to be alive."""
        if self.host != socket.gethostname():
            return False
        # By name as well: a process id is given out again.
        answer = subprocess.run(
            ["ps", "-o", "comm=", "-p", str(self.pid)], capture_output=True, text=True, check=False, timeout=10
        )
        return "pulumi" not in answer.stdout


def locks(state: Path, project: str, stack: str) -> list[Lock]:
    """Return the locks on a stack of a file backend."""
    found: list[Lock] = []
    for path in sorted((state / ".pulumi" / "locks" / "organization" / project / stack).glob("*.json")):
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
            found.append(Lock(int(content["pid"]), str(content["hostname"]), str(content["timestamp"])))
        except FileNotFoundError:
            # Its holder has just ended.
            continue
        except (ValueError, KeyError):
            # A file that was being written when its writer was killed.
            found.append(Lock(0, socket.gethostname(), "an unknown time"))
    return found


def checkpoint(state: Path, project: str, stack: str) -> Path:
    """Return the file that holds a stack's state; the stack exists when it does."""
    return state / ".pulumi" / "stacks" / project / f"{stack}.json"


def _latest(state: Path, project: str, stack: str) -> dict[str, Any]:
    try:
        content: dict[str, Any] = json.loads(checkpoint(state, project, stack).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    # Each level is null rather than left out where there is nothing.
    return content["checkpoint"].get("latest") or {}


def is_empty(state: Path, project: str, stack: str) -> bool:
    """Whether a stack has nothing to take down: it holds no resource, and no operation was cut off."""
    latest = _latest(state, project, stack)
    return not (latest.get("resources") or latest.get("pending_operations"))


def cloud_port(state: Path, project: str, stack: str) -> int | None:
    """Return the port at which the stack's provider reached the cloud last; what runs no program goes there again."""
    resources: list[dict[str, Any]] = _latest(state, project, stack).get("resources") or []
    for resource in resources:
        if resource["type"] == "pulumi:providers:crusoe":
            inputs: dict[str, Any] = resource.get("inputs") or {}
            return urlsplit(str(inputs.get("endpoint"))).port
    return None


def pending_creates(state: Path, project: str, stack: str) -> list[str]:
    """Return the URNs of resources whose creation was cut off."""
    operations: list[dict[str, Any]] = _latest(state, project, stack).get("pending_operations") or []
    return [operation["resource"]["urn"] for operation in operations if operation["type"] == "creating"]


def spoken(urn: str) -> str:
    """Return a URN as a person knows the resource: `train (crusoe:index:KubernetesNodePool)`."""
    kind, name = urn.split("::")[-2:]
    return f"{name} ({kind.split('$')[-1]})"
