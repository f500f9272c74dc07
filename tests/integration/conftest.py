"""One local cloud for each module, and a project of this program for each stack that a test asks for."""

from __future__ import annotations

from collections.abc import Callable, Generator
from pathlib import Path

import pytest

from tests.harness import Cloud, Project, running_cloud

NewProject = Callable[[str], Project]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for everything that a module makes."""
    return tmp_path_factory.mktemp("run")


@pytest.fixture(scope="module")
def cloud(folder: Path) -> Generator[Cloud]:
    """The module's local cloud."""
    with running_cloud(folder) as running:
        yield running


@pytest.fixture(scope="module")
def new_project(cloud: Cloud, folder: Path) -> NewProject:
    """Makes a project with a new stack of a name that the module uses once."""

    def make(stack: str) -> Project:
        project = Project(folder / stack, cloud, stack)
        project.init()
        return project

    return make
