"""The gRPC messages and service of Pulumi's engine, without the start-up of Pulumi's whole SDK.

They live in the SDK's package `pulumi.runtime.proto`, and importing it the plain way first runs `pulumi/__init__.py`,
which takes 0.5 s and brings the Automation API, OpenTelemetry and more, none of which a plugin needs. Here the two
parent packages are stand-ins for the length of the import, unless the process has loaded the SDK already.
"""

from __future__ import annotations

import sys
from collections.abc import Generator
from contextlib import contextmanager
from importlib.machinery import PathFinder
from pathlib import Path
from types import ModuleType


@contextmanager
def _stand_ins() -> Generator[None]:
    found = PathFinder.find_spec("pulumi")
    if "pulumi" in sys.modules or found is None or not found.submodule_search_locations:
        yield
        return
    folder = Path(next(iter(found.submodule_search_locations)))
    names = {"pulumi": folder, "pulumi.runtime": folder / "runtime"}
    for name, place in names.items():
        module = ModuleType(name)
        module.__path__ = [str(place)]
        sys.modules[name] = module
    try:
        yield
    finally:
        for name in names:
            del sys.modules[name]


with _stand_ins():
    from pulumi.runtime.proto import (
        engine_pb2,
        engine_pb2_grpc,
        plugin_pb2,
        provider_pb2,
        provider_pb2_grpc,
        status_pb2,
    )

__all__ = ["engine_pb2", "engine_pb2_grpc", "plugin_pb2", "provider_pb2", "provider_pb2_grpc", "status_pb2"]
