"""The pinned releases, read from versions.toml, the one file that names a tool's version."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Literal

from tools.slurm_root.pins import Pin

Need = Literal["browser", "cloud", "dev", "kueue", "monitoring", "training", "upgrade", "workflows"]
"""What the tools are for: an `up` against a real environment, also the local cloud and everything around it, or by
itself what only a local cloud with Kueue needs, what tries alerts and their delivery, what an upgrade of Slurm begins
with, and what looks at workflows."""

_KINDS: Mapping[Need, tuple[Need, ...]] = {
    "cloud": ("cloud",),
    "dev": ("cloud", "dev"),
    "kueue": ("kueue",),
    "monitoring": ("monitoring",),
    "workflows": ("workflows",),
    "browser": (),  # Debian packages, pinned in tools/slurm_root
    "training": (),  # the same
    "upgrade": (),  # the same
}


@dataclass(frozen=True)
class Download:
    """Where the product's own release lies. Fields are templates; see the head of versions.toml."""

    url: str
    checksums: str
    platforms: tuple[str, ...]
    member: str | None = None
    companions: tuple[str, ...] = ()
    arch: Mapping[str, str] = field(default_factory=dict[str, str])
    sha256: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True)
class Debian:
    """Debian's packages of a release, for products whose Go build takes too long.

    `members` are the paths inside the packages by the name of the binary, `packages` the pinned files by platform,
    `snapshot` a moment at which Debian's archive had them all.
    """

    snapshot: str
    members: Mapping[str, str]
    packages: Mapping[str, tuple[Pin, ...]]


@dataclass(frozen=True)
class GoModule:
    """How the release is built from a module in tools/go: packages by the name of the binary each gives."""

    module: str
    packages: Mapping[str, str]
    flags: tuple[str, ...] = ()
    ldflags: str = ""
    embed_module: str | None = None
    embed_files: tuple[str, ...] = ()
    keep_module: str | None = None
    keep_folders: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True)
class Release:
    """One pinned release and every way to get it."""

    name: str
    version: str
    binaries: tuple[str, ...]
    needed_for: Need
    seconds: int
    download: Download | None
    go: GoModule | None = None
    debian: Debian | None = None
    installed: str | None = None
    probe: tuple[str, ...] | None = None
    probes: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])

    def fill(self, template: str, platform: str, name: str = "", pulumi_home: str = "") -> str:
        """Fill a template of versions.toml for one platform (`linux-amd64`) and one binary."""
        system, arch = platform.split("-", 1)
        major, minor = self.version.split(".")[:2]
        names: Mapping[str, str] = self.download.arch if self.download else {}
        return template.format(
            version=self.version,
            major=major,
            minor=minor,
            os=system,
            arch=names.get(arch, arch),
            name=name,
            pulumi_home=pulumi_home,
        )

    def probe_of(self, name: str) -> tuple[str, ...] | None:
        """Return the arguments that make a binary print its version, None where it has none."""
        return self.probes.get(name, self.probe)


def _release(name: str, table: Mapping[str, Any]) -> Release:
    return Release(
        name=name,
        version=table["version"],
        binaries=tuple(table["binaries"]),
        needed_for=table["needed_for"],
        seconds=table.get("seconds", 0),
        installed=table.get("installed"),
        probe=tuple(table["probe"]) if "probe" in table else None,
        probes={binary: tuple(arguments) for binary, arguments in table.get("probes", {}).items()},
        download=_download(table["download"]) if "download" in table else None,
        go=_go(table["go"]) if "go" in table else None,
        debian=_debian(table["debian"]) if "debian" in table else None,
    )


def _download(table: Mapping[str, Any]) -> Download:
    return Download(
        url=table["url"],
        checksums=table["checksums"],
        platforms=tuple(table["platforms"]),
        member=table.get("member"),
        companions=tuple(table.get("companions", ())),
        arch=table.get("arch", {}),
        sha256=table.get("sha256", {}),
    )


def _go(table: Mapping[str, Any]) -> GoModule:
    embed: Mapping[str, Any] = table.get("embed", {})
    keep: Mapping[str, Any] = table.get("keep", {})
    return GoModule(
        module=table["module"],
        packages=table["packages"],
        flags=tuple(table.get("flags", ())),
        ldflags=table.get("ldflags", ""),
        embed_module=embed.get("module"),
        embed_files=tuple(embed.get("files", ())),
        keep_module=keep.get("module"),
        keep_folders=keep.get("folders", {}),
    )


def _debian(table: Mapping[str, Any]) -> Debian:
    packages = {platform: tuple(Pin(**pin) for pin in pins) for platform, pins in table["packages"].items()}
    return Debian(table["snapshot"], table["members"], packages)


@cache
def load() -> tuple[Release, ...]:
    """Return every release of versions.toml, in the order of the file."""
    with Path(__file__).with_name("versions.toml").open("rb") as file:
        return tuple(_release(name, table) for name, table in tomllib.load(file).items())


def needed_for(need: Need, releases: tuple[Release, ...]) -> tuple[Release, ...]:
    """Return the releases that a need takes: `dev` takes those of `cloud` too."""
    return tuple(release for release in releases if release.needed_for in _KINDS[need])
