"""Runs a policy pack under its own interpreter: `python -u policy.py ENGINE_ADDRESS [OPTION ...] FOLDER`.

Like the SDK's own runner (`python -m pulumi.policy`), except that the SDK is set up when the pack imports it and not
before: it takes half a second, and a pack may need the protocol's messages only.
"""

import importlib.abc
import importlib.machinery
import importlib.util
import os
import runpy
import sys
import traceback
import types
from collections.abc import Sequence


class _WhenImported(importlib.abc.MetaPathFinder):
    """Sets the SDK up once somebody has imported its runtime."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: types.ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Let the others find the module, and come back when it has been run."""
        del path, target
        if fullname != "pulumi.runtime":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(fullname)
        if spec is not None and spec.loader is not None:
            run = spec.loader.exec_module

            def run_then_configure(module: types.ModuleType) -> None:
                run(module)
                _configure(module)

            spec.loader.exec_module = run_then_configure
        return spec


def _configure(runtime: types.ModuleType) -> None:
    """Tell the SDK the stack's configuration and name, which the engine has put into the environment."""
    for key, value in runtime.get_config_env().items():
        runtime.set_config(key, value)
    given = os.environ
    if {"PULUMI_PROJECT", "PULUMI_STACK", "PULUMI_DRY_RUN"} <= given.keys():
        settings = runtime.Settings(
            project=given["PULUMI_PROJECT"],
            stack=given["PULUMI_STACK"],
            dry_run=given["PULUMI_DRY_RUN"] == "true",
            organization=given.get("PULUMI_ORGANIZATION") or "organization",
        )
        runtime.configure(settings)


def main(folder: str) -> int:
    """Run the pack to its end; return the exit status."""
    sys.meta_path.insert(0, _WhenImported())
    # The host's own modules are none of the pack's.
    del sys.path[0]
    try:
        runpy.run_path(folder, run_name="__main__")
    except Exception:
        print(f"The policy pack failed:\n{traceback.format_exc()}", file=sys.stderr)
        return 1
    finally:
        sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[-1]))
