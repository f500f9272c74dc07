"""Starts the language host: `pulumi-language-python [flags] ENGINE_ADDRESS`."""

import importlib.util
import sys
import types


def lighten(*packages: str) -> None:
    """Make packages importable without running their `__init__`, outermost first.

    The host needs the SDK's protocol messages only. The SDK proper takes twice as long to import, and every command of
    the Pulumi CLI starts a host.
    """
    for package in packages:
        spec = importlib.util.find_spec(package)
        if spec is None or spec.submodule_search_locations is None:
            raise ModuleNotFoundError(
                f"The Pulumi SDK is not installed in {sys.prefix}. Run `make up`, which sets the environment up again.",
                name=package,
            )
        module = types.ModuleType(package)
        module.__path__ = list(spec.submodule_search_locations)
        sys.modules[package] = module


def main() -> int:
    """Serve one engine until it is done; return the exit status."""
    try:
        lighten("pulumi", "pulumi.runtime", "pulumi.runtime.proto")
    except ModuleNotFoundError as error:
        print(error, file=sys.stderr)
        return 1
    from server import serve

    return serve(sys.argv[-1])


if __name__ == "__main__":
    sys.exit(main())
