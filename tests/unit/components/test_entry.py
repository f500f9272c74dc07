"""What the entry file owes to the SDK that runs it."""

from __future__ import annotations

import asyncio
import json
import runpy
from collections.abc import Iterable
from typing import Any

import pytest
from pulumi.runtime import run_in_stack, set_all_config

from tests.unit.components.entry import ENTRY, close_stack
from tests.unit.components.support import PROJECT, deploy, settings_document

POOLS = 20


def test_open_outputs_are_not_looked_at_again_for_each_one_that_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    # The first time makes the mocks' own stack, the second takes it for granted and leaves a clean record.
    for _ in range(2):
        deploy(dict)
    pools = {f"pool-{number}": {"type": "c1a.8x", "count": 1} for number in range(POOLS)}
    looked_at: list[int] = []
    wait: Any = asyncio.wait

    def counted(tasks: Iterable[Any], **options: Any) -> Any:
        looked_at.append(len(list(tasks)))
        return wait(tasks, **options)

    monkeypatch.setattr(asyncio, "wait", counted)
    close_stack()
    set_all_config({f"{PROJECT}:platform": json.dumps(settings_document(nodePools=pools))}, [])
    loop = asyncio.new_event_loop()
    try:
        loop.run_until_complete(run_in_stack(lambda: _discard(runpy.run_path(str(ENTRY), run_name="__main__"))))
    finally:
        set_all_config({}, [])
        loop.close()
    # Without the entry's last line these are some 30 looks at more than 600 outputs each.
    assert sum(looked_at) < 30 * POOLS


def _discard(_: object) -> None:
    """The host takes what a program returns for something to wait for."""
