"""The pack as `make policy-pack` makes it, with an environment that holds nothing but its requirements."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tools.bootstrap import environment
from tools.front_door import policy_pack


def built(folder: Path) -> Path:
    """Make the pack, and install what it runs on from uv's cache; return its Python."""
    policy_pack.build(folder)
    venv = folder / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", venv], check=True)
    uv = [str(Path(sys.prefix) / "bin" / "uv"), "pip", "install", "--quiet", "--python", str(venv / "bin" / "python")]
    wanted = ["-r", str(folder / "requirements.txt")]
    # Whoever runs the tests has installed the same versions before.
    if subprocess.run([*uv, "--offline", *wanted], capture_output=True, check=False).returncode:
        subprocess.run([*uv, *wanted], env=environment({"PATH": "/usr/bin:/bin"}), check=True)
    return venv / "bin" / "python"
