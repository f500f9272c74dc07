"""A Slurm site to test against; every process it starts ends with the tests."""

from __future__ import annotations

from collections.abc import Generator

import pytest

from tests.integration.localcloud_kubernetes.support import processes_below
from tests.integration.localcloud_slurm.site import BASE, Site, cluster, controller, rest_api, worker
from tools.errors import ToolMissingError
from tools.slurm_root.root import folder as slurm_root


@pytest.fixture(scope="package")
def site(tmp_path_factory: pytest.TempPathFactory) -> Generator[Site]:
    """slurmctld, slurmrestd and two workers with eight GPUs each."""
    try:
        slurm_root()
    except ToolMissingError as error:
        pytest.skip(str(error))
    root = tmp_path_factory.mktemp("site") / "kubernetes"
    live, nodes = cluster(root)
    site = Site(live)
    site.live.kubectl("create", "namespace", "slurm")
    site.create(*BASE)
    site.create(controller(nodes[0].name), rest_api(nodes[0].name))
    site.create(worker("gpu-0", nodes[1].name), worker("gpu-1", nodes[2].name))
    site.begin()
    yield site
    site.halt()
    live.plane.delete_all()
    assert processes_below(root) == []
