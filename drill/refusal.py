"""Settings that can't work, and what a preview of the stack says to them. Nothing is created."""

from __future__ import annotations

import re
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import yaml

from crusoe import catalog
from drill.observations import Observation
from drill.site import SiteError

_SECONDS = 180.0


@dataclass(frozen=True)
class Previewer:
    """How the stack is previewed: a command line that ends where the path of its settings is to be given.

    `file` has the stack's settings.
    """

    command: Sequence[str]
    file: Path

    def refusal(self, pool_type: str, folder: Path) -> Observation:
        """What a preview says once the first GPU pool has another type. Raises SiteError where it says nothing to it.

        `folder` is for the changed settings.
        """
        content: dict[str, Any] = yaml.safe_load(self.file.read_text(encoding="utf-8"))
        pool = _change(content["config"], pool_type)
        changed = folder / self.file.name
        changed.write_text(yaml.safe_dump(content, sort_keys=False), encoding="utf-8")
        try:
            done = subprocess.run(
                [*self.command, str(changed)],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise SiteError(f"The preview did not end within {_SECONDS:.0f} s.") from None
        finally:
            changed.unlink()
        return told(f"{done.stdout}\n{done.stderr}", done.returncode, pool)


def _change(config: dict[str, Any], pool_type: str) -> str:
    """Give the first GPU pool another type; its key. Raises SiteError where there is none."""
    # Pulumi writes the project's name before the key once it has written the file.
    key = next((each for each in config if each.rpartition(":")[2] == "platform"), "")
    pools = cast("dict[str, dict[str, Any]]", config.get(key, {}).get("nodePools") or {})
    for name, pool in pools.items():
        kind = catalog.vm_type(pool.get("type"))
        if kind is not None and kind.gpus:
            pool["type"] = pool_type
            return name
    raise SiteError("The stack has no pool with GPUs.")


def told(said: str, status: int, pool: str) -> Observation:
    """The refusal in a preview's words. Raises SiteError where it accepts the pool, or fails for another reason."""
    wanted = f"platform.nodePools.{pool}.type: "
    lines = [re.sub(r"\x1b\[[0-9;]*m", "", line).strip() for line in said.splitlines()]
    found = [line[line.index(wanted) :] for line in lines if wanted in line]
    if status == 0:
        raise SiteError(f"A preview accepts {wanted.rstrip(': ')}.")
    if not found:
        last = next((line for line in reversed(lines) if line), f"exit status {status}")
        raise SiteError(f"The preview failed for another reason: {last}")
    return Observation(time.time(), "drill", "refused", {"why": found[0]})


def from_given(given: Mapping[str, Any]) -> Previewer | None:
    """The previewer in what the front door hands over."""
    found: Mapping[str, Any] = given.get("preview") or {}
    return Previewer(found["command"], Path(found["file"])) if found else None
