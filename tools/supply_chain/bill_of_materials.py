"""`make sbom`: the software bill of materials, as CycloneDX 1.6 (https://cyclonedx.org/docs/1.6/json/).

It is made from the files that pin: what is in no lock is in no bill. `required` is what an `up` against a real
environment runs; everything else, the local cloud and what tests need, is `optional`. Go modules are those of the
builds, which are made only where a release can't be downloaded.
"""

import json
import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from cyclonedx import model as cyclonedx_model
from cyclonedx.model import bom as cyclonedx_bom
from cyclonedx.model import component as cyclonedx_component
from cyclonedx.output.json import JsonV1Dot6
from packageurl import PackageURL
from packaging.utils import canonicalize_name

from tools.errors import ToolError
from tools.places import LOCAL, ROOT
from tools.releases import load

# The library makes its classes' attributes at run time, where a type checker can't see them.
_MODEL, _BOM, _COMPONENT = (cast("Any", each) for each in (cyclonedx_model, cyclonedx_bom, cyclonedx_component))

FILE = LOCAL / "sbom.cdx.json"

_PYTHON = re.compile(r"^([\w.-]+)==([^\s;\\]+)((?:[^\n]*\\\n)*[^\n]*)", re.M)
_SHA256 = re.compile(r"sha256:([0-9a-f]{64})")
_GO = re.compile(r"^\s*(?:require\s+)?([\w.-]+\.[\w./~-]+) (v\S+)", re.M)
_DEBIAN = re.compile(r"^([0-9a-f]{64}) \d+ \S+/([a-z0-9][a-z0-9+.-]+)_([^_/\s]+)_(\w+)\.deb$", re.M)
_ACTION = re.compile(r"uses: ([\w.-]+)/([\w.-]+)(/\S+)?@([0-9a-f]{40})")
_CHART = re.compile(r'^([A-Z_]+) = "v?(\d+\.\d+\.\d+)"$', re.M)
_CHARTS = {
    "components/slurm/charts.py": {
        "SLINKY": ("slurm-operator-crds", "slurm-operator", "slurm-bridge"),
        "CERT_MANAGER": ("cert-manager",),
        "MARIADB_OPERATOR": ("mariadb-operator-crds", "mariadb-operator"),
    },
    "components/gpu_sharing/kueue.py": {"VERSION": ("kueue",)},
    "components/observability/stack.py": {"VERSION": ("kube-prometheus-stack",)},
}
"""The constants that pin a Helm chart's version, and the charts that they pin."""


@dataclass(frozen=True)
class Part:
    """One thing that this project is made of; `required` says whether each environment runs it."""

    url: PackageURL
    required: bool = False
    sha256: str | None = None


def _text(root: Path, place: str) -> str:
    return (root / place).read_text(encoding="utf-8")


def python_packages(root: Path) -> Iterator[Part]:
    """Packages of the lock files."""
    runtime = {canonicalize_name(name) for name, *_ in _PYTHON.findall(_text(root, "requirements/runtime.lock"))}
    for name, version, rest in _PYTHON.findall(_text(root, "requirements/dev.lock")):
        # A lock has the digests of all files of a package, one for each platform; a bill's are all of the same file.
        digests = _SHA256.findall(rest)
        sha256 = digests[0] if len(digests) == 1 else None
        yield Part(PackageURL("pypi", None, name, version), canonicalize_name(name) in runtime, sha256)


def tools(root: Path) -> Iterator[Part]:
    """Releases of versions.toml, and the Go modules that a build of them is made of."""
    for release in load():
        yield Part(PackageURL("generic", None, release.name, release.version), release.needed_for == "cloud")
    found: set[tuple[str, str]] = set()
    for module in (root / "tools" / "go").glob("*/go.mod"):
        requirements = module.read_text(encoding="utf-8").split("\nreplace", 1)[0]
        found.update(_GO.findall(requirements))
    for path, version in sorted(found):
        namespace, _, name = path.rpartition("/")
        yield Part(PackageURL("golang", namespace, name, version))


def debian_packages(root: Path) -> Iterator[Part]:
    """Packages of the folders that the local cloud's Slurm and training run from, and what only tests run."""
    found = {
        (name, version.replace("%3a", ":"), architecture, digest)
        for lock in (root / "tools").rglob("*-amd64.lock")
        for digest, name, version, architecture in _DEBIAN.findall(lock.read_text(encoding="utf-8"))
    }
    for name, version, architecture, digest in sorted(found):
        yield Part(PackageURL("deb", "debian", name, version, {"arch": architecture}), sha256=digest)


def charts(root: Path) -> Iterator[Part]:
    """Helm charts that an `up` installs."""
    for place, constants in _CHARTS.items():
        pinned = dict(_CHART.findall(_text(root, place)))
        for constant, names in constants.items():
            for name in names:
                yield Part(PackageURL("helm", None, name, pinned[constant]), required=True)


def actions(root: Path) -> Iterator[Part]:
    """GitHub actions of the shipped workflows, by commit."""
    files = sorted((root / ".github" / "workflows").glob("*.yml"))
    found = {found for file in files for found in _ACTION.findall(file.read_text(encoding="utf-8"))}
    for owner, name, _, commit in sorted(found):
        yield Part(PackageURL("github", owner, name, commit))


def parts(root: Path = ROOT) -> list[Part]:
    """Everything, each once."""
    kinds = (python_packages, tools, debian_packages, charts, actions)
    return list(dict.fromkeys(part for kind in kinds for part in kind(root)))


def _component(part: Part) -> Any:  # noqa: ANN401  see _COMPONENT
    url = part.url
    library = url.type in ("pypi", "golang")
    return _COMPONENT.Component(
        name=f"{url.namespace}/{url.name}" if url.namespace else url.name,
        version=url.version,
        type=_COMPONENT.ComponentType.LIBRARY if library else _COMPONENT.ComponentType.APPLICATION,
        purl=url,
        bom_ref=url.to_string(),
        scope=_COMPONENT.ComponentScope.REQUIRED if part.required else _COMPONENT.ComponentScope.OPTIONAL,
        hashes=[_MODEL.HashType(alg=_MODEL.HashAlgorithm.SHA_256, content=part.sha256)] if part.sha256 else [],
    )


def written(found: list[Part], root: Path = ROOT) -> str:
    """Return the bill of these parts as JSON, indented."""
    project: dict[str, Any] = tomllib.loads(_text(root, "pyproject.toml"))["project"]
    whole = _component(Part(PackageURL("pypi", None, project["name"], project["version"]), required=True))
    bom = _BOM.Bom(components=[_component(part) for part in found])
    bom.metadata.component = whole
    bom.register_dependency(whole, bom.components)
    return json.dumps(json.loads(JsonV1Dot6(bom).output_as_string()), indent=1) + "\n"


def write(file: Path) -> str:
    """Write the bill; return one sentence on it. Raises ToolError where the file can't be written."""
    found = parts()
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(written(found), encoding="utf-8")
    except OSError as error:
        raise ToolError(f"{file} can't be written ({error.strerror}); name another file: ARGS=FILE.") from error
    return f"{file}: {len(found)} components, {sum(part.required for part in found)} of them in every environment."
