"""One browser for a module's tests."""

from __future__ import annotations

from collections.abc import Generator

import pytest
from playwright.sync_api import Browser, expect

from tests.browsing import SECONDS, chromium
from tools.errors import ToolMissingError


@pytest.fixture(scope="module")
def browser() -> Generator[Browser]:
    """A running browser; where none can be had, the reason is told."""
    expect.set_options(timeout=SECONDS * 1000)
    try:
        with chromium() as started:
            yield started
    except ToolMissingError as error:
        pytest.skip(str(error))
