"""The pinned toolchain: every tool is found, downloaded or built, in that order.

1. A fitting tool that is already there: in the per-user cache, where another program installs it, or on PATH and
   saying the pinned version when asked.
2. The official download, compared with its checksum.
3. A Go build from the wrapper modules in tools/go, or Debian's packages, whichever versions.toml has.
4. An error that says what is missing and how to get it.

What is fetched lies in a per-user cache, one folder for each release, version and platform, so that a second clone
fetches nothing. A folder appears there whole or not at all, and a lock keeps two runs apart.
"""

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from tools import browser, debian, links, places
from tools.download import download
from tools.errors import BuildError, DownloadError, ToolMissingError
from tools.gobuild import build
from tools.network import Network
from tools.progress import Reporter
from tools.releases import Need, Release, load, needed_for
from tools.slurm_root import root as slurm_root
from tools.slurm_root.packages import TRAINING, UPGRADE
from tools.whole import LOCK_SECONDS, one_run, whole

PROBE_SECONDS = 10.0
"""How long a tool on PATH may take to say its version."""


class Toolchain:
    """The tools of one machine. Everything it depends on can be given, for tests."""

    def __init__(
        self,
        *,
        releases: tuple[Release, ...] | None = None,
        cache: Path | None = None,
        modules: Path = places.GO_MODULES,
        environ: Mapping[str, str] = os.environ,
        platform: str | None = None,
        network: Network | None = None,
        reporter: Reporter | None = None,
        lock_seconds: float = LOCK_SECONDS,
    ) -> None:
        self._releases = load() if releases is None else releases
        self._cache = places.cache_folder(environ) if cache is None else cache
        self._modules = modules
        self._environ = environ
        self._platform = platform or places.this_platform()
        self._network = network or Network()
        self._reporter = reporter or Reporter()
        self._lock_seconds = lock_seconds

    def locate(self, release: Release) -> dict[str, Path] | None:
        """Return the binaries of a release where they are already there, None when one is missing.

        Reads the disk and asks tools on PATH for their version; fetches nothing.
        """
        folder = self._folder(release)
        cached = {name: folder / name for name in release.binaries}
        if all(os.access(path, os.X_OK) for path in cached.values()):
            return cached
        found = {name: self._installed(release, name) or self._on_path(release, name) for name in release.binaries}
        return {name: path for name, path in found.items() if path is not None} if all(found.values()) else None

    def ensure(self, need: Need) -> dict[str, Path]:
        """Fetch what a need lacks; return every binary by name.

        Raises:
            ToolMissingError: a tool can't be had on this machine.
        """
        binaries: dict[str, Path] = {}
        for release in needed_for(need, self._releases):
            binaries |= self.locate(release) or self._fetch(release)
        return binaries

    def release_of(self, name: str) -> Release:
        """Return the release that holds a binary. Raises ToolMissingError, which lists the known ones."""
        for release in self._releases:
            if name in release.binaries:
                return release
        known = ", ".join(binary for release in self._releases for binary in release.binaries)
        raise ToolMissingError(f"{name} is not one of this project's tools; they are {known}.")

    def _folder(self, release: Release) -> Path:
        return self._cache / f"{release.name}-{release.version}-{self._platform}"

    def _installed(self, release: Release, name: str) -> Path | None:
        if release.installed is None:
            return None
        user = self._environ.get("HOME") or str(Path.home())
        home = self._environ.get("PULUMI_HOME") or f"{user}/.pulumi"
        path = Path(release.fill(release.installed, self._platform, name, home))
        return path if os.access(path, os.X_OK) else None

    def _on_path(self, release: Release, name: str) -> Path | None:
        probe = release.probe_of(name)
        found = shutil.which(name, path=self._environ.get("PATH"))
        if probe is None or found is None:
            return None
        try:
            answer = subprocess.run([found, *probe], capture_output=True, text=True, timeout=PROBE_SECONDS, check=False)
        except (OSError, subprocess.TimeoutExpired):
            return None
        fits = re.search(rf"(?<![\w.])v?{re.escape(release.version)}(?![\w.+-])", answer.stdout)
        return Path(found) if answer.returncode == 0 and fits else None

    def _fetch(self, release: Release) -> dict[str, Path]:
        title = f"{release.name} {release.version}"
        with one_run(self._cache / f"{release.name}.lock", title, self._reporter, self._lock_seconds):
            # Another run may have fetched it while this one waited.
            return self.locate(release) or self._fetch_locked(release)

    def _fetch_locked(self, release: Release) -> dict[str, Path]:
        target = self._folder(release)
        with whole(target, release.name) as partial:
            self._obtain(release, partial)
        return {name: target / name for name in release.binaries}

    def _obtain(self, release: Release, partial: Path) -> None:
        title = f"{release.name} {release.version}"
        try:
            self._download(release, title, partial)
        except DownloadError as error:
            download_trouble = str(error)
            self._reporter.say(f"{title}: no official download: {download_trouble}")
        else:
            return
        for leftover in partial.iterdir():
            shutil.rmtree(leftover) if leftover.is_dir() else leftover.unlink()
        way, need = ("Go build", "Go with its module proxy") if release.go else ("Debian package", "a Debian mirror")
        try:
            self._make(release, title, partial)
        except (BuildError, DownloadError) as error:
            names = " and ".join(release.binaries)
            raise ToolMissingError(
                f"{title} is missing. Its official download failed: {download_trouble}. Its {way} failed: {error}.\n"
                f"Put {names} {release.version} on PATH, or give this machine a way to the download or {need}, "
                "then run this again."
            ) from error

    def _make(self, release: Release, title: str, partial: Path) -> None:
        if release.go is None:
            with self._reporter.step(f"{title}: downloading Debian packages") as step:
                debian.take(release, self._platform, partial, self._environ, self._network, step.tick)
            return
        with self._reporter.step(f"{title}: building with Go", release.seconds) as step:
            build(release, self._modules, partial, self._environ, self._network, step.tick)

    def _download(self, release: Release, title: str, partial: Path) -> None:
        if release.download is None:
            raise DownloadError("the product publishes no binaries")
        # Asked first, so that a machine without network shows no download that was never going to run.
        if self._platform in release.download.platforms:
            url = release.fill(release.download.url, self._platform, release.binaries[0])
            if (trouble := self._network.trouble(url)) is not None:
                raise DownloadError(f"{url.split('/')[2]} can't be reached: {trouble}")
        with self._reporter.step(f"{title}: downloading") as step:
            download(release, self._platform, partial, self._network, step.tick)


def ensure(need: Need = "dev") -> Path:
    """Fetch what a need lacks and return the folder of links to every tool, to put on PATH.

    The folder with Slurm belongs to `dev`; a machine that can't have it is told so, and has the rest. `training` is the
    folder that has PyTorch too, `upgrade` that with an older Slurm, `browser` what tests of the console look through.
    The chart that comes with Kueue is put beside the local cloud's own.

    Raises:
        ToolMissingError: a tool can't be had on this machine.
    """
    binaries = Toolchain().ensure(need)
    folder = links.refresh(binaries)
    if need == "kueue":
        links.put(binaries["kueue"].parent / "chart", places.CHARTS / "kueue")
    if need == "training":
        slurm_root.ensure(TRAINING)
    if need == "upgrade":
        slurm_root.ensure(UPGRADE)
    if need == "browser":
        browser.ensure()
    if need == "dev":
        try:
            slurm_root.ensure()
        except ToolMissingError as error:
            Reporter().say(str(error))
    return folder


def _there(toolchain: Toolchain, release: Release) -> dict[str, Path]:
    found = toolchain.locate(release)
    if found is None:
        raise ToolMissingError(
            f"{' and '.join(release.binaries)} {release.version} can't be found on this machine yet. "
            f"To get it: python -m tools ensure --for {release.needed_for}"
        )
    return found


def binary(name: str) -> Path:
    """Return the path of a tool that is already there, by name (`kwokctl`). Fetches nothing.

    Raises:
        ToolMissingError: it is not one of this project's tools, or not there yet; the message has the command that
            gets it.
    """
    toolchain = Toolchain()
    found = _there(toolchain, toolchain.release_of(name))
    return links.refresh({name: found[name]}) / name


def bin_folder() -> Path:
    """Return the folder of links to every tool, to put on PATH. Fetches nothing.

    Raises:
        ToolMissingError: one is not there yet; the message has the command that gets it.
    """
    toolchain = Toolchain()
    binaries: dict[str, Path] = {}
    for release in needed_for("dev", load()):
        binaries |= _there(toolchain, release)
    return links.refresh(binaries)
