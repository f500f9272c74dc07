"""Where things lie: this clone, what a run makes in it, and the per-user cache that all clones share."""

import os
import platform
import sys
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
"""The clone."""

LOCAL = ROOT / ".local"
"""Everything a run makes in the clone: git ignores it, `make clean` removes it."""

BIN = LOCAL / "bin"
"""One folder with every tool, to put on PATH."""

GO_MODULES = ROOT / "tools" / "go"
"""The wrapper modules, each with its go.mod and go.sum."""

CHARTS = ROOT / "localcloud" / "charts"
"""The charts of the local cloud."""


def cache_folder(environ: Mapping[str, str] = os.environ) -> Path:
    """Return the per-user folder for fetched tools, following the XDG base directory specification.

    A relative XDG_CACHE_HOME is ignored, as that specification demands.
    """
    base = environ.get("XDG_CACHE_HOME", "")
    home = Path(environ.get("HOME") or Path.home())
    root = Path(base) if Path(base).is_absolute() else home / ".cache"
    return root / "crusoe-gpu-platform" / "tools"


def this_platform() -> str:
    """Return this machine as releases name it: `linux-amd64`, `darwin-arm64`, ..."""
    machine = platform.machine().lower()
    arch = {"x86_64": "amd64", "aarch64": "arm64"}.get(machine, machine)
    return f"{sys.platform}-{arch}"
