"""Namespaces for nodes, or a skip that says what is missing."""

from __future__ import annotations

from collections.abc import Callable, Generator
from pathlib import Path

import pytest

from localcloud.slurm import etc
from localcloud.slurm.lab import Lab, LabError
from tests.integration.training.nodes import NETWORK, Job
from tools.errors import ToolMissingError
from tools.slurm_root.packages import TRAINING
from tools.slurm_root.root import folder as slurm_root

NewJob = Callable[..., Job]


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Generator[Lab]:
    """The namespaces of this session's nodes."""
    try:
        image = slurm_root(TRAINING)
    except ToolMissingError as error:
        pytest.skip(str(error))
    made = Lab(tmp_path_factory.mktemp("lab"), lambda: image, NETWORK)
    try:
        made.ensure()
    except LabError as error:
        pytest.skip(str(error))
    etc.make(made.folder / "etc", image, single_user=made.single_user)
    yield made
    made.end()


@pytest.fixture(scope="session")
def new_job(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> NewJob:
    """Makes a job with options of its own."""

    def make(name: str, *options: str) -> Job:
        folder: Path = tmp_path_factory.mktemp(name)
        return Job(lab, folder, options)

    return make
