"""A browser for tests: one that is on PATH, else the folder of pinned Debian packages."""

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from tools.slurm_root import root
from tools.slurm_root.launcher import LAUNCHER
from tools.slurm_root.packages import BROWSER

NAMES = ("chromium", "chromium-headless-shell", "chromium-browser", "google-chrome", "google-chrome-stable")
OLDEST = 130
"""The oldest major version that the driver of the tests still speaks with."""

_PROBE_SECONDS = 10.0


def on_path(environ: Mapping[str, str] = os.environ) -> Path | None:
    """A browser that is there already and new enough."""
    for name in NAMES:
        found = shutil.which(name, path=environ.get("PATH"))
        if found is None:
            continue
        try:
            answer = subprocess.run(
                [found, "--version"], capture_output=True, text=True, timeout=_PROBE_SECONDS, check=False
            )
        except (OSError, subprocess.TimeoutExpired):
            continue
        version = re.search(r"\b(\d+)\.\d+\.\d+", answer.stdout)
        if answer.returncode == 0 and version and int(version[1]) >= OLDEST:
            return Path(found)
    return None


def ensure() -> Path:
    """The browser, fetched where there is none. Raises ToolMissingError."""
    return on_path() or root.ensure(BROWSER) / LAUNCHER


def browser() -> Path:
    """The browser. Fetches nothing.

    Raises:
        ToolMissingError: there is none yet; the message has the command that gets it.
    """
    return on_path() or root.folder(BROWSER) / LAUNCHER
