"""A folder with Slurm, or with a browser: found in the per-user cache, or made there whole from the pinned packages."""

import hashlib
import json
import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from tools import places
from tools.errors import DownloadError, ToolMissingError
from tools.network import Network
from tools.progress import Reporter
from tools.slurm_root import pins as pinning
from tools.slurm_root.archive import KEYRINGS, MIRROR_VARIABLE, Archive, mirrors
from tools.slurm_root.launcher import write_launcher
from tools.slurm_root.packages import BROWSER, SLURM, TRAINING, Contents, chosen, parse
from tools.slurm_root.pins import Pins
from tools.slurm_root.python import compile_python
from tools.slurm_root.unpack import build
from tools.whole import one_run, whole

MANIFEST = "packages.json"
"""In the folder: what it was made of, and whether that was what is pinned."""

# Counted up when the way a folder is made changes, so that nobody keeps one made the old way.
_RECIPE = 1


class SlurmRoot:
    """One folder on one machine. Everything it depends on can be given, for tests."""

    def __init__(
        self,
        contents: Contents = SLURM,
        *,
        cache: Path | None = None,
        environ: Mapping[str, str] = os.environ,
        platform: str | None = None,
        bases: list[str] | None = None,
        locks: Path = pinning.FOLDER,
        keyrings: Sequence[Path] = KEYRINGS,
        network: Network | None = None,
        reporter: Reporter | None = None,
    ) -> None:
        self._cache = places.cache_folder(environ) if cache is None else cache
        self._system, self._arch = (platform or places.this_platform()).split("-", 1)
        self._bases = mirrors(environ) if bases is None else bases
        self._contents = contents
        self._lock_file = locks / pinning.lock_name(contents, self._arch)
        self._keyrings = keyrings
        self._network = network or Network()
        self._reporter = reporter or Reporter()

    def locate(self) -> Path | None:
        """The folder where it is there, None where not. Reads the disk only."""
        if not self._lock_file.exists():
            return None
        folder = self._folder()
        return folder if (folder / MANIFEST).exists() else None

    def ensure(self) -> Path:
        """Make the folder where it is missing; return it.

        Raises:
            ToolMissingError: it can't be had on this machine.
        """
        if self._system != "linux" or not self._lock_file.exists():
            raise ToolMissingError(
                f"{self._contents.what} Debian's for Linux on amd64 and arm64, and this is "
                f"{self._system}-{self._arch}; everything else of the project works without."
            )
        found = self.locate()
        if found is not None:
            return found
        name = self._contents.name
        with one_run(self._cache / f"{name}-root.lock", name, self._reporter):
            # Another run may have made it while this one waited.
            return self.locate() or self._make()

    def _folder(self) -> Path:
        text = self._lock_file.read_text(encoding="utf-8")
        digest = hashlib.sha256(f"{_RECIPE}\n{text}".encode()).hexdigest()[:8]
        return self._cache / f"{self._contents.name}-{pinning.read(text).version}-linux-{self._arch}-{digest}"

    def _title(self, pins: Pins) -> str:
        return f"{self._contents.name} {pins.version}"

    def _make(self) -> Path:
        target = self._folder()
        pinned = pinning.read(self._lock_file.read_text(encoding="utf-8"))
        with whole(target, f"{self._contents.name}-root") as partial:
            scratch = partial / ".debs"
            scratch.mkdir()
            archive = Archive(self._bases, self._network, scratch, self._keyrings)
            try:
                made, debs = pinned, self._fetch(archive, pinned)
            except DownloadError as error:
                self._reporter.say(f"{self._title(pinned)}: the pinned packages can't be had: {error}")
                made, debs = self._fetch_anew(archive, str(error))
            try:
                with self._reporter.step(f"{self._title(made)}: unpacking") as step:
                    build(debs, partial, lambda count: step.tick(count, len(debs)))
                if self._contents is TRAINING:
                    with self._reporter.step(f"{self._title(made)}: compiling its Python") as step:
                        compile_python(partial, step.tick)
                if self._contents is BROWSER:
                    write_launcher(partial)
            except DownloadError as error:
                raise ToolMissingError(f"{self._contents.what} missing: {error}") from error
            shutil.rmtree(scratch)
            about = {made.product: made.version, "pinned": made is pinned, "files": [pin.path for pin in made.files]}
            (partial / MANIFEST).write_text(json.dumps(about, indent=1), encoding="utf-8")
        return target

    def _fetch(self, archive: Archive, pins: Pins) -> list[Path]:
        total = sum(pin.size for pin in pins.files)
        title = f"{self._title(pins)}: downloading {total / 1e6:.0f} MB of Debian packages"
        with self._reporter.step(title) as step:
            return archive.fetch(pins.files, pins.snapshot, lambda done: step.tick(done, total))

    def _fetch_anew(self, archive: Archive, trouble: str) -> tuple[Pins, list[Path]]:
        """Take what a mirror has now: Debian testing moves on, and then the pinned files are gone."""
        try:
            lists, snapshot = archive.package_lists(tuple(self._contents.wanted), self._arch)
            listed = {suite: parse(text) for suite, text in lists.items()}
            found = pinning.of(self._contents, chosen(listed, self._contents), snapshot)
            return found, self._fetch(archive, found)
        except DownloadError as error:
            raise ToolMissingError(
                f"{self._contents.what} missing. The pinned packages can't be had: {trouble}. What a mirror has now "
                f"can't be had either: {error}.\nGive this machine a way to a Debian mirror ({MIRROR_VARIABLE} names "
                "one), then run this again."
            ) from error


def ensure(contents: Contents = SLURM) -> Path:
    """Make the folder where it is missing; return it. Raises ToolMissingError."""
    return SlurmRoot(contents).ensure()


def folder(contents: Contents = SLURM) -> Path:
    """The folder with Slurm, with Slurm and PyTorch, with an older Slurm, or with a browser. Fetches nothing.

    Raises:
        ToolMissingError: it is not there yet; the message has the command that gets it.
    """
    found = SlurmRoot(contents).locate()
    if found is None:
        raise ToolMissingError(_MISSING[contents.name])
    return found


_MISSING = {
    "slurm": "Slurm's daemons can't be found on this machine yet. To get them: python -m tools ensure",
    "training": "PyTorch for the local cloud's workers can't be found on this machine yet. To get it: "
    "python -m tools ensure --for training",
    "browser": "The browser for tests of the console can't be found on this machine yet. To get it: "
    "python -m tools ensure --for browser",
    "upgrade": "The older Slurm for tests of an upgrade can't be found on this machine yet. To get it: "
    "python -m tools ensure --for upgrade",
}


def worker_folder() -> Path:
    """The folder that workers and login pods run: with PyTorch where it was made, else the plain one.

    Raises:
        ToolMissingError: neither is there.
    """
    return SlurmRoot(TRAINING).locate() or folder()
