"""The project's own rules that no general linter knows: each a function that returns what is wrong, one line each."""

import re
import subprocess
import tomllib
from collections.abc import Callable, Iterable, Mapping
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tools.releases import load

# Licences that an Apache-2.0 project may depend on: permissive ones, and MPL-2.0, whose terms stay with its own files.
_LICENCES = re.compile(
    r"apache|\bmit\b|bsd|\bisc\b|mpl|mozilla public|psf|python software|unlicense|public domain", re.I
)
_LINK = re.compile(r"\[[^\]]*\]\(([^)#\s]+)(?:#[^)\s]*)?\)")
_TARGET = re.compile(r"^([a-z-]+):.*?(##.*)?$", re.M)


Rule = Callable[[Path], list[str]]
"""Takes the clone, returns what is wrong in it, one line each."""


def tracked(root: Path, *patterns: str) -> list[Path]:
    """Return the files that git knows, or would if they were added, by pattern."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", *patterns]
    listed = subprocess.run(command, cwd=root, stdout=subprocess.PIPE, text=True, check=True).stdout
    return [root / name for name in listed.splitlines() if (root / name).is_file()]


def broken_links(root: Path) -> list[str]:
    """Return links in the documentation that lead to no file."""
    found: list[str] = []
    for page in tracked(root, "*.md"):
        for target in _LINK.findall(page.read_text(encoding="utf-8")):
            if "://" not in target and not target.startswith("mailto:") and not (page.parent / target).exists():
                found.append(f"{page.relative_to(root)}: the link to {target} leads nowhere")
    return found


def silent_targets(root: Path) -> list[str]:
    """Return targets of the Makefile that `make help` would not explain."""
    makefile = (root / "Makefile").read_text(encoding="utf-8")
    return [f"Makefile: the target {name} has no ## help" for name, said in _TARGET.findall(makefile) if not said]


def locked(text: str) -> dict[str, str]:
    """Return the versions that a lock file pins, by canonical name."""
    return {canonicalize_name(name): version for name, version in re.findall(r"^([\w.-]+)==([^\s;\\]+)", text, re.M)}


def _wanted(project: Mapping[str, Any], extras: Iterable[str]) -> list[Requirement]:
    optional: dict[str, list[str]] = project["optional-dependencies"]
    lines = [*project["dependencies"], *(line for extra in extras for line in optional[extra])]
    return [found for line in lines if (found := Requirement(line)).name != project["name"]]


def stale_locks(root: Path) -> list[str]:
    """Return where pyproject.toml and the lock files disagree; needs no network."""
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    folder = root / "requirements"
    dev, runtime = (locked((folder / name).read_text(encoding="utf-8")) for name in ("dev.lock", "runtime.lock"))
    found: list[str] = []
    for name, pins, extras in (
        ("dev.lock", dev, [extra for extra in project["optional-dependencies"] if extra != "training"]),
        ("runtime.lock", runtime, ["tools"]),
    ):
        for wanted in _wanted(project, extras):
            version = pins.get(canonicalize_name(wanted.name))
            if version is None:
                found.append(f"requirements/{name}: {wanted.name} of pyproject.toml is missing; run `make lock`")
            elif version not in wanted.specifier:
                found.append(f"requirements/{name}: pins {wanted.name} {version}, not {wanted}; run `make lock`")
    for name, version in runtime.items():
        if dev.get(name) != version:
            found.append(f"requirements/runtime.lock: {name} {version} differs from dev.lock; run `make lock`")
    return found


def unequal_plugin(root: Path) -> list[str]:
    """Return where the Kubernetes plugin and its SDK are pinned apart: the engine refuses to pair them."""
    dev = locked((root / "requirements" / "dev.lock").read_text(encoding="utf-8"))
    plugin = next(release.version for release in load() if release.name == "pulumi-kubernetes")
    sdk = dev["pulumi-kubernetes"]
    same = plugin == sdk
    return [] if same else [f"tools/versions.toml: the Kubernetes plugin is {plugin}, its Python SDK {sdk}"]


def foreign_licences(root: Path) -> list[str]:
    """Return installed packages of the runtime set whose licence this project may not build on."""
    runtime = locked((root / "requirements" / "runtime.lock").read_text(encoding="utf-8"))
    found: list[str] = []
    for package in distributions():
        name = canonicalize_name(package.metadata["Name"])
        fields = ("License-Expression", "License", "Classifier")
        said = " ".join(str(value) for field in fields for value in package.metadata.get_all(field) or [])
        if name in runtime and not _LICENCES.search(said):
            found.append(f"requirements/runtime.lock: the licence of {name} is not known to be permissive")
    return found


def problems(root: Path) -> list[str]:
    """Return everything that is wrong, each with its place."""
    checks: tuple[Rule, ...] = (broken_links, silent_targets, stale_locks, unequal_plugin, foreign_licences)
    return [problem for check in checks for problem in check(root)]
