"""What an `up` that was killed leaves behind in the file backend of `dev`: a lock nobody holds, and pending creates.

Facts about the backend's files are those of the pinned Pulumi CLI: locks lie under `.pulumi/locks`, one JSON file for
each with pid, host name and time; a stack's checkpoint under `.pulumi/stacks`, with the one before it as `.bak`, and
that of each finished update under `.pulumi/history`. On a full disk a checkpoint ends in the middle, and after the next
try the `.bak` does too.
"""

import json
import shutil
import socket
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tools.front_door.environment import FrontDoorError


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
        # By name as well: a process id is given out again. And by state: where nobody waits for processes whose parent
        # is gone, as in some containers, one that was killed stays in the table.
        answer = subprocess.run(
            ["ps", "-o", "stat=,comm=", "-p", str(self.pid)], capture_output=True, text=True, check=False, timeout=10
        )
        state, _, name = answer.stdout.strip().partition(" ")
        return "pulumi" not in name or state.startswith("Z")


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


def mend(state: Path, project: str, stack: str) -> Path | None:
    """Put the newest whole copy in the place of a checkpoint that was cut off; return it, None where all is well.

    What was made since is missing in it, and is found by its name when it is to be made again.

    Raises:
        FrontDoorError: no copy is whole.
    """
    path = checkpoint(state, project, stack)
    if not path.exists() or _is_whole(path):
        return None
    history = sorted((state / ".pulumi" / "history" / project / stack).glob("*.checkpoint.json"), reverse=True)
    for copy in (path.with_suffix(".json.bak"), *history):
        if _is_whole(copy):
            # Whole or not at all, here too.
            draft = path.with_suffix(".mended")
            shutil.copyfile(copy, draft)
            draft.replace(path)
            return copy
    raise FrontDoorError(
        f"The state of the stack {stack} is cut off ({path}), and no copy of it under {state / '.pulumi'} is whole: put"
        " a backup in its place, then run this again."
    )


def _is_whole(path: Path) -> bool:
    try:
        return bool(json.loads(path.read_text(encoding="utf-8"))["checkpoint"])
    except (OSError, ValueError, KeyError, TypeError):
        return False


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
