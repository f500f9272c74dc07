"""One cloud without Kubernetes for the whole matrix."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import pytest

from tests.provider.faults.cell import Site
from tests.provider.faults.site import site_in


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Generator[Site]:
    """The cloud, and what all cells stand on."""
    folder: Path = tmp_path_factory.mktemp("faults")
    with site_in(folder) as made:
        yield made
