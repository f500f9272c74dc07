"""The place of the matrix: a cloud, the ground of all cells, and runs of the provider."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from tests.provider.faults.cell import Site
from tests.provider.faults.engine import one_run
from tests.provider.faults.kinds import made
from tests.rest_cloud import rest_cloud


@contextmanager
def site_in(folder: Path) -> Generator[Site]:
    """A cloud in a folder with the ground made; ended afterwards."""
    with rest_cloud(folder) as cloud:
        keys = cloud.credentials()
        run = partial(one_run, cloud.endpoint, keys)
        with run() as plugin:
            ground = made(plugin)
        yield Site(cloud, ground, run, (keys["CRUSOE_SECRET_KEY"],))
