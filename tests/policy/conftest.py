"""One process of the pack for each worker; every test configures it anew."""

from __future__ import annotations

from collections.abc import Generator

import pytest

from tests.policy.analyzer import Pack, running


@pytest.fixture(scope="session")
def process() -> Generator[Pack]:
    with running() as pack:
        yield pack


@pytest.fixture
def pack(process: Pack) -> Pack:
    """The pack with nothing configured."""
    process.configure()
    return process
