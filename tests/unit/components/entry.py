"""The entry file, run in a stack that is still open, as the engine's language host runs it."""

from __future__ import annotations

import runpy
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import pulumi
from pulumi.runtime.settings import set_root_resource
from pulumi.runtime.stack import Stack

ENTRY = Path(__file__).parents[3] / "__main__.py"


def close_stack() -> None:
    """Forget the root stack: Pulumi's mocks keep one that is finished and takes no more of a program."""
    set_root_resource(cast("Any", None))


def run_entry() -> Mapping[str, pulumi.Input[object]]:
    """Run the entry file in a new stack, and return what it exports."""
    close_stack()
    stack = Stack()
    runpy.run_path(str(ENTRY), run_name="__main__")
    return dict(cast("Mapping[str, pulumi.Input[object]]", stack.outputs))
