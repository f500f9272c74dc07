"""`make clean`: the local cloud stops, and what runs made in the clone goes. The per-user tool cache stays."""

import os
import shutil
import sys

from tools.front_door import foreign
from tools.front_door.environment import direct
from tools.front_door.process import run
from tools.front_door.session import Session
from tools.places import LOCAL, ROOT

_CACHES = (".pytest_cache", ".ruff_cache", ".hypothesis")


def clean(session: Session) -> int:
    """Stop the local cloud and remove everything but the virtual environment this runs in; the Makefile does that."""
    if refused := foreign.refusal(LOCAL):
        session.say(refused)
        return 1
    if (LOCAL / "cloud").exists() and run(
        [sys.executable, "-m", "localcloud", "down"], {**os.environ, **direct(os.environ)}, output_to_stderr=True
    ):
        session.say("The local cloud did not stop, so its files stay; the reason stands above.")
        return 1
    for folder in (LOCAL, *(ROOT / name for name in _CACHES)):
        shutil.rmtree(folder, ignore_errors=True)
    (ROOT / "localcloud" / "charts" / "kueue").unlink(missing_ok=True)
    for package in (
        "components",
        "crusoe",
        "localcloud",
        "policies",
        "gitops",
        "environments",
        "tests",
        "tools",
        "training",
    ):
        for folder in (ROOT / package).rglob("__pycache__"):
            shutil.rmtree(folder, ignore_errors=True)
    return 0
