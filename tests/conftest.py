"""Which tests `make test` runs, and which run beside which, where it runs several at a time.

A file's tests run on one worker, one after the other, and so do those of a folder that shares a cloud or a control
plane: there is one of it then, which ends with the last of them. Idle ones take a tenth of a core each.
"""

from __future__ import annotations

import gc
import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from xdist.scheduler import LoadScopeScheduling  # pyright: ignore[reportMissingTypeStubs]  it is typed itself

if TYPE_CHECKING:
    from xdist.remote import Producer  # pyright: ignore[reportMissingTypeStubs]  it is typed itself

TESTS = Path(__file__).parent

# Tests start many Go programs that live shortly: with rarer searches for garbage a control plane takes a third less of
# processor time to come up.
os.environ.setdefault("GOGC", "400")

SHARING = ("provider", "integration/localcloud_slurm", "integration/drills")
"""Folders with fixtures that all their files use."""

LONG = (
    "integration/localcloud_kubernetes/test_recovery.py",
    "integration/slurm/test_backup.py",
    "integration/slurm/test_upgrade_of_slurm.py",
    "integration/test_cluster_replacement.py",
    "integration/test_faults.py",
    "integration/test_gpu_sharing_kueue.py",
    "integration/test_kills.py",
    "integration/test_reference_stacks.py",
    "integration/training/test_job_on_slurm.py",
    "integration/training/test_resume.py",
)
"""The tier `long`: the same promises once more at great length, under every fault, every kill, every kind of crash and
resume, for the shipped environments in their whole size, or by an engine that nobody has unless they ask for it.
`make test` leaves it to `make test TIER=long`; CI runs both."""

LONGEST_FIRST = (
    "integration/drills",
    "integration/test_gpu_sharing_kueue.py",
    "integration/slurm",
    "integration/localcloud_slurm",
    "integration/test_reference_stacks.py",
    "integration/training",
    "integration/test_gpu_sharing.py",
    "provider",
    "integration",
    "policy/test_cli.py",
)
"""No worker waits in the end for a long file that the other one began late; what is not here comes last."""


class ByPlace(LoadScopeScheduling):
    """Gives a worker all tests of a file, or of a folder that shares something, before it gets others.

    xdist's own groups are not read from the ids of pytest 9.
    """

    def _split_scope(self, nodeid: str) -> str:
        return group(nodeid.partition("::")[0].removeprefix(f"{TESTS.name}/"))


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadScopeScheduling:
    """Distribute tests in the order in which they are, by place."""
    config.option.loadscopereorder = False
    return ByPlace(config, log)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let `make test` choose a part; a run by hand has all that it names."""
    parser.addoption("--length", choices=("all", "short", "long"), default="all", help="all but the tier long, or it")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what is not of the wanted length, and order the rest for the workers.

    A run by hand keeps the order of the files.
    """
    wanted = config.getoption("--length")
    if wanted != "all":
        left_out = [item for item in items if (place(item) in LONG) != (wanted == "long")]
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if (place(item) in LONG) == (wanted == "long")]
    if hasattr(config, "workerinput"):
        items.sort(key=lambda item: rank(place(item)))


def pytest_collection_finish() -> None:
    """Look for garbage rarely, and not among modules and tests, which stay: it took a tenth of the unit tests' time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 50, 100)


def place(item: pytest.Item) -> str:
    """The file of a test, below tests/."""
    return item.path.relative_to(TESTS).as_posix()


def group(place: str) -> str:
    """What a file belongs to: a folder, or itself."""
    return next((folder for folder in SHARING if place.startswith(f"{folder}/")), place)


def rank(place: str) -> int:
    """Where a file stands in the order."""
    found = (number for number, start in enumerate(LONGEST_FIRST) if f"{place}/".startswith(f"{start}/"))
    return next(found, len(LONGEST_FIRST))
