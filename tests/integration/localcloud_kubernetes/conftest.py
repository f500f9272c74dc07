"""Control planes to test against; every process they start ends with the test that asked for them."""

from __future__ import annotations

from collections.abc import Callable, Generator
from pathlib import Path

import pytest

from localcloud.kubernetes import CloudAccess, KwokControlPlane
from localcloud.kubernetes.egress import egress
from localcloud.slinky.actor import slinky as slinky_actor
from localcloud.slinky.webhook import resolve
from tests.integration.localcloud_kubernetes.slinky import FakeSlurm, Slinky, install, kubelet
from tests.integration.localcloud_kubernetes.support import Live, processes_below
from tests.unit.localcloud_kubernetes.support import CLUSTER, h100
from tools.toolchain import binary

ACCESS = CloudAccess("http://127.0.0.1:8787/v1", "KEY", "SECRET")
MakePlane = Callable[..., KwokControlPlane]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "kubernetes"


@pytest.fixture
def make_plane(root: Path) -> Generator[MakePlane]:
    """Make control planes in one folder, as many as a test needs; all of them are ended with it."""

    def make(**options: object) -> KwokControlPlane:
        return KwokControlPlane(root, binary=binary, access=ACCESS, **options)  # pyright: ignore[reportArgumentType]

    yield make
    make().delete_all()
    assert processes_below(root) == []


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Generator[Live]:
    """One control plane for the tests that only add to it."""
    root = tmp_path_factory.mktemp("shared") / "kubernetes"
    plane = KwokControlPlane(root, binary=binary, access=ACCESS, drain_seconds=5)
    plane.create(CLUSTER)
    yield Live(plane, CLUSTER, root)
    plane.delete_all()
    assert processes_below(root) == []


@pytest.fixture(scope="module")
def slinky(tmp_path_factory: pytest.TempPathFactory) -> Generator[Slinky]:
    """A control plane with Slinky's charts and three GPU nodes, for the tests that put up with each other's objects."""
    root = tmp_path_factory.mktemp("slinky") / "kubernetes"
    slurm = FakeSlurm()
    actors = {
        "egress": egress([resolve]),
        "slinky": slinky_actor(lambda _place, _token: slurm),
        "kubelet": kubelet,
    }
    plane = KwokControlPlane(root, binary=binary, actors=actors)
    try:
        plane.create(CLUSTER)
        plane.apply_nodes(CLUSTER.id, [h100(number) for number in range(3)])
        live = Live(plane, CLUSTER, root)
        install(live, root.parent / "program")
        yield Slinky(live, slurm)
    finally:
        plane.delete_all()
    assert processes_below(root) == []
