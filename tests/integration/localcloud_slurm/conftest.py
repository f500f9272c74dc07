"""A Slurm site to test against; every process it starts ends with the tests."""

from __future__ import annotations

from collections.abc import Generator

import pytest

from localcloud.kubernetes import KwokControlPlane
from tests.integration.localcloud_kubernetes.conftest import ACCESS
from tests.integration.localcloud_kubernetes.support import Live, processes_below
from tests.integration.localcloud_slurm.site import BASE, Site, controller, rest_api, worker
from tests.unit.localcloud_kubernetes.support import CLUSTER, h100
from tools.errors import ToolMissingError
from tools.slurm_root.root import folder as slurm_root
from tools.toolchain import binary


@pytest.fixture(scope="package")
def site(tmp_path_factory: pytest.TempPathFactory) -> Generator[Site]:
    """slurmctld, slurmrestd and two workers with eight GPUs each."""
    try:
        slurm_root()
    except ToolMissingError as error:
        pytest.skip(str(error))
    root = tmp_path_factory.mktemp("site") / "kubernetes"
    plane = KwokControlPlane(root, binary=binary, access=ACCESS, drain_seconds=5)
    plane.create(CLUSTER)
    nodes = [h100(number) for number in range(4)]
    plane.apply_nodes(CLUSTER.id, nodes)
    site = Site(Live(plane, CLUSTER, root))
    site.live.kubectl("create", "namespace", "slurm")
    site.create(*BASE)
    site.create(controller(nodes[0].name), rest_api(nodes[0].name))
    site.create(worker("gpu-0", nodes[1].name), worker("gpu-1", nodes[2].name))
    site.begin()
    yield site
    site.halt()
    plane.delete_all()
    assert processes_below(root) == []
