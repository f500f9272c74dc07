"""One server for each module, and the client of Crusoe's Terraform provider for it."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import pytest

from tests.integration.localcloud_wire.server import PROJECT, Server, running
from tests.integration.localcloud_wire.terraform import Terraform


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Generator[Server]:
    """A running local cloud; operations take 0.3 s."""
    with running(tmp_path_factory.mktemp("cloud") / "state", "--operation-seconds", "0.3") as server:
        yield server


@pytest.fixture
def fresh(tmp_path: Path) -> Generator[Server]:
    """A running local cloud of this test alone; operations take no time."""
    with running(tmp_path / "state", "--operation-seconds", "0") as server:
        yield server


def client(server: Server, **options: float) -> Terraform:
    """The Terraform provider's client of a server."""
    key_id, secret = server.keys()
    terraform = Terraform(server.port, key_id, secret, PROJECT)
    for name, value in options.items():
        setattr(terraform, name, value)
    return terraform


@pytest.fixture
def terraform(server: Server) -> Terraform:
    """A client of the module's server."""
    return client(server)
