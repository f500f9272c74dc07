"""Known vulnerabilities of the pinned Python packages: `make audit`, and a step of `make lint`.

pip-audit asks PyPI's JSON API, where the Python Packaging Advisory Database is served. An index that only mirrors
packages has no such API, and pip-audit then passes over every package and ends well. So it is first asked whether the
database answers at all, and a package that it does not know is an error.
"""

import json
import sys
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence

from tools.front_door.process import run
from tools.places import ROOT

DATABASE = "https://pypi.org/pypi/pip/24.0/json"
"""One answer of the API that pip-audit asks, about a version that will always be there. A mirror may have the same
address without a version, and nothing below it."""

PROBE_SECONDS = 5.0
AUDIT_SECONDS = 300.0

COMMAND = (
    *("-m", "pip_audit", "--strict", "--disable-pip", "--require-hashes", "--progress-spinner", "off"),
    *("--requirement", str(ROOT / "requirements" / "dev.lock")),
)

UNREACHABLE = "Known vulnerabilities were not looked up: PyPI's database, at pypi.org, can't be reached from here."


def reachable(url: str = DATABASE, seconds: float = PROBE_SECONDS) -> bool:
    """Return whether the database answers, and with what it should: a list of vulnerabilities."""
    try:
        with urllib.request.urlopen(url, timeout=seconds) as answer:  # noqa: S310  the address is ours
            return isinstance(json.load(answer).get("vulnerabilities"), list)
    except (OSError, ValueError, AttributeError, urllib.error.URLError):
        return False


def audit(environ: Mapping[str, str], *, database: str = DATABASE, command: Sequence[str] = COMMAND) -> int | None:
    """Look all pinned packages up; return pip-audit's status, None where the database can't be reached."""
    return run([sys.executable, *command], environ, seconds=AUDIT_SECONDS) if reachable(database) else None
