"""What every unit test may count on."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Generator

import pytest
from hypothesis import settings

# A busy machine is no failure; what failed is repeated by the line that the report prints.
settings.register_profile("unit", max_examples=50, database=None, deadline=None, print_blob=True)
settings.load_profile("unit")


def pytest_collection_finish() -> None:
    """Take modules and collected tests, which stay to the end, out of each search for garbage."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="module", autouse=True)
def current_event_loop() -> Generator[None]:
    """A current event loop: Pulumi's mocks take it as given, and asynchronous tests of other modules may end it."""
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    yield
    loop.close()
    asyncio.set_event_loop(None)
