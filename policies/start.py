"""Starts the pack: a process that speaks the analyzer's protocol and needs nothing else of Pulumi's SDK."""

from __future__ import annotations

import importlib.util
import sys
import types


def lighten(*packages: str) -> None:
    """Make packages importable without running their `__init__`, outermost first, where they are not loaded yet.

    The whole SDK takes half a second to import, which every preview would pay for. The official language host has
    loaded it by then.
    """
    if packages[0] in sys.modules:
        return
    for package in packages:
        spec = importlib.util.find_spec(package)
        if spec is None or spec.submodule_search_locations is None:
            sys.exit(
                f"The Pulumi SDK is not installed in {sys.prefix}: install requirements.txt of the policy pack there."
            )
        module = types.ModuleType(package)
        module.__path__ = list(spec.submodule_search_locations)
        sys.modules[package] = module


def main() -> None:
    """Serve one engine until it is done."""
    lighten("pulumi", "pulumi.runtime", "pulumi.runtime.proto")
    from policies.server import main as serve

    serve()
