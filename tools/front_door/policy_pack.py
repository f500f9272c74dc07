"""`make policy-pack`: the policies as a folder that needs nothing else of this project.

For `pulumi policy publish`, which archives one folder, and for programs elsewhere. It holds the policies, the rules and
the catalogue that they judge by, and the packages to install beside them.
"""

import re
import shutil
import tomllib
from pathlib import Path
from typing import Any

from tools.front_door.environment import POLICY_PACK, FrontDoorError
from tools.front_door.session import Session
from tools.places import LOCAL, ROOT

DEFAULT = LOCAL / "policy-pack"

PARTS = (
    "policies",
    "crusoe/__init__.py",
    "crusoe/catalog.py",
    "crusoe/catalog.yaml",
    "crusoe/rules",
    "docs/policies.md",
    "LICENSE",
)
PACKAGES = ("pulumi", "pyyaml")

MAIN = '''\
"""Starts the policy pack for an engine."""

from policies.start import main

main()
'''


def requirements(root: Path = ROOT) -> str:
    """Return the packages that the pack runs on, at the versions that this project is tested with."""
    project: dict[str, Any] = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    lines: list[str] = project["dependencies"]
    return "".join(f"{line}\n" for line in lines if re.split(r"[=<>]", line)[0] in PACKAGES)


def build(folder: Path) -> None:
    """Write the folder, in place of an earlier one. Raises FrontDoorError where something else is there."""
    if folder.exists() and not (folder / "PulumiPolicy.yaml").is_file():
        raise FrontDoorError(f"{folder} is there and is no policy pack; name another folder: ARGS=FOLDER.")
    environment = folder / "venv"
    for old in folder.iterdir() if folder.exists() else ():
        # Whoever has made it an environment keeps it.
        if old != environment:
            shutil.rmtree(old) if old.is_dir() and not old.is_symlink() else old.unlink()
    for part in PARTS:
        source, target = ROOT / part, folder / part
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__", "__main__.py", "*.yaml"))
        else:
            shutil.copy(source, target)
    described = (POLICY_PACK / "PulumiPolicy.yaml").read_text(encoding="utf-8")
    (folder / "PulumiPolicy.yaml").write_text(
        described.replace("virtualenv: ../.venv", "virtualenv: venv"), encoding="utf-8"
    )
    (folder / "__main__.py").write_text(MAIN, encoding="utf-8")
    (folder / "requirements.txt").write_text(requirements(), encoding="utf-8")


def make(session: Session) -> int:
    """Write the folder that the arguments name, `.local/policy-pack` when they name none."""
    folder = Path(session.arguments[0]).expanduser().resolve() if session.arguments else DEFAULT
    build(folder)
    session.say(f"The policy pack is in {folder}. Give it an environment before its first run:")
    session.say(f"  python3 -m venv {folder}/venv && {folder}/venv/bin/pip install -r {folder}/requirements.txt")
    return 0
