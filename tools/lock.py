"""`make lock`: pin every Python package, with its hashes, for every platform.

    requirements/bootstrap.lock   uv itself, the one package that pip installs
    requirements/dev.lock         everything but PyTorch, which only workers need
    requirements/runtime.lock     what an `up` against a real environment needs: a part of dev.lock, same versions

What is pinned already stays at its version; `make lock ARGS=--upgrade` moves everything.
"""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tools.bootstrap import environment
from tools.places import ROOT

UV = "uv==0.13.9"
"""The one version named outside pyproject.toml: nothing but the bootstrap uses it."""


def compile_lock(name: str, sources: Sequence[str], options: Sequence[str], standard_input: str = "") -> None:
    """Write one lock. Raises CalledProcessError where no set of versions fits, after uv has said why."""
    uv = Path(sys.prefix) / "bin" / "uv"
    header = ["--custom-compile-command", "make lock", "--no-annotate", "--quiet"]
    target = ["--universal", "--generate-hashes", "--python-version", "3.11", "--output-file", f"requirements/{name}"]
    command = [str(uv), "pip", "compile", *sources, *target, *header, *options]
    subprocess.run(command, cwd=ROOT, env=environment(os.environ), input=standard_input, text=True, check=True)


def main(options: Sequence[str]) -> int:
    """Write every lock; return the exit status."""
    compile_lock("bootstrap.lock", ["-"], options, UV)
    compile_lock("dev.lock", ["pyproject.toml"], ["--extra", "dev", *options])
    runtime = ["--extra", "tools", "--constraint", "requirements/dev.lock"]
    compile_lock("runtime.lock", ["pyproject.toml"], [*runtime, *options])
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
