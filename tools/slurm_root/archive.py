"""Debian's archive: where its mirrors are, and what is trusted of them.

A pinned file is trusted by its digest, wherever it comes from. A package list is trusted by Debian's signature, checked
with gpgv and the keys of this machine; without them only over https.
"""

import hashlib
import lzma
import re
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from pathlib import Path
from urllib.parse import urlsplit

from tools.errors import DownloadError
from tools.network import Network
from tools.slurm_root.pins import Pin

MIRROR_VARIABLE = "CRUSOE_DEBIAN_MIRROR"
"""Names the Debian mirror to use first, such as `https://deb.debian.org/debian`."""

DEFAULT_MIRROR = "https://deb.debian.org/debian"
SNAPSHOT = "https://snapshot.debian.org/archive/debian/{moment}"

KEYRINGS = tuple(Path("/usr/share/keyrings") / f"debian-archive-keyring.{ending}" for ending in ("pgp", "gpg"))
_PARALLEL = 8
_GPGV_SECONDS = 30


def mirrors(environ: Mapping[str, str], apt: Path = Path("/etc/apt")) -> list[str]:
    """Mirrors to ask, in order: the environment's, those of this machine's apt, Debian's own."""
    sources = sorted(
        [*apt.glob("sources.list"), *apt.glob("sources.list.d/*.list"), *apt.glob("sources.list.d/*.sources")]
    )
    found = [environ.get(MIRROR_VARIABLE, "").rstrip("/"), *(url for path in sources for url in _debian_urls(path))]
    return list(dict.fromkeys([url for url in found if url] + [DEFAULT_MIRROR]))


def _debian_urls(path: Path) -> list[str]:
    """URLs of a file of apt's sources that look like a mirror of Debian's main archive."""
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return []
    lines = [line for line in text.splitlines() if line.startswith(("deb ", "deb\t", "URIs:"))]
    urls = [word.rstrip("/") for line in lines for word in line.split() if word.startswith(("http://", "https://"))]
    return [url for url in urls if urlsplit(url).path.endswith("/debian")]


class Archive:
    """Debian's archive as this machine reaches it. `scratch` is a folder for what is fetched."""

    def __init__(
        self, bases: Sequence[str], network: Network, scratch: Path, keyrings: Sequence[Path] = KEYRINGS
    ) -> None:
        self._bases = bases
        self._network = network
        self._scratch = scratch
        self._keyrings = keyrings

    def fetch(self, pins: Sequence[Pin], snapshot: str, tick: Callable[[int], None]) -> list[Path]:
        """Fetch pinned files, several at a time; `tick` gets the bytes that are there.

        Raises:
            DownloadError: no mirror has one of them any more, or none can be reached.
        """
        # A hundred files: one broken connection must not be the end of it.
        bases = [*self._bases, *self._bases, SNAPSHOT.format(moment=snapshot)]
        with ThreadPoolExecutor(_PARALLEL) as pool:
            futures = [pool.submit(self._pinned, pin, bases) for pin in pins]
            files: list[Path] = []
            done = 0
            try:
                for pin, future in zip(pins, futures, strict=True):
                    files.append(future.result())
                    done += pin.size
                    tick(done)
                return files
            finally:
                pool.shutdown(cancel_futures=True)

    def _pinned(self, pin: Pin, bases: Sequence[str]) -> Path:
        file = self._scratch / pin.path.rsplit("/", 1)[-1]
        troubles: list[str] = []
        for base in bases:
            try:
                self._network.fetch(f"{base}/{pin.path}", file)
            except DownloadError as error:
                troubles.append(str(error))
                continue
            with file.open("rb") as content:
                if hashlib.file_digest(content, "sha256").hexdigest() == pin.sha256:
                    return file
            troubles.append(f"{base}/{pin.path} is not the pinned file; it was thrown away")
        raise DownloadError("; ".join(dict.fromkeys(troubles)))

    def package_lists(self, suites: Sequence[str], arch: str) -> tuple[dict[str, str], str]:
        """The text of each suite's package list for an architecture, and the first suite's moment (`20261030T080801Z`).

        Raises:
            DownloadError: no mirror gives lists that can be trusted.
        """
        troubles: list[str] = []
        for base in self._bases:
            try:
                releases = {suite: self._release(base, suite) for suite in suites}
                lists = {suite: self._list(base, suite, arch, release) for suite, release in releases.items()}
            except DownloadError as error:
                troubles.append(str(error))
            else:
                return lists, moment(releases[suites[0]])
        raise DownloadError("; ".join(troubles))

    def _release(self, base: str, suite: str) -> str:
        file = self._scratch / f"{suite}.InRelease"
        self._network.fetch(f"{base}/dists/{suite}/InRelease", file)
        keyring = next((path for path in self._keyrings if path.exists()), None)
        if keyring is None or shutil.which("gpgv") is None:
            if not base.startswith("https://"):
                raise DownloadError(
                    f"{base} is plain http, and without gpgv and Debian's keys (packages gpgv and "
                    "debian-archive-keyring) nobody can say whether its lists are Debian's"
                )
            return file.read_text(encoding="utf-8")
        signed = self._scratch / f"{suite}.Release"
        command = ["gpgv", "--quiet", "--keyring", str(keyring), "--output", str(signed), str(file)]
        try:
            checked = subprocess.run(command, capture_output=True, text=True, timeout=_GPGV_SECONDS, check=False)
        except subprocess.TimeoutExpired:
            raise DownloadError(f"gpgv did not answer about {base}/dists/{suite}/InRelease in time") from None
        if checked.returncode != 0 or not signed.exists():
            said = checked.stderr.strip().splitlines()
            raise DownloadError(f"{base}/dists/{suite}/InRelease is not signed by Debian: {said[-1] if said else ''}")
        return signed.read_text(encoding="utf-8")

    def _list(self, base: str, suite: str, arch: str, release: str) -> str:
        name = f"main/binary-{arch}/Packages.xz"
        digest = listed_digest(release, name)
        if digest is None:
            raise DownloadError(f"{base} has no package list of {suite} for {arch}")
        file = self._scratch / f"{suite}.Packages.xz"
        self._network.fetch(f"{base}/dists/{suite}/{name}", file)
        content = file.read_bytes()
        if hashlib.sha256(content).hexdigest() != digest:
            raise DownloadError(f"{base}/dists/{suite}/{name} is not the list that Debian signed")
        return lzma.decompress(content).decode()


def listed_digest(release: str, name: str) -> str | None:
    """The SHA-256 that a `Release` file names for a file; None where it doesn't."""
    found = re.search(rf"^ ([0-9a-f]{{64}})\s+\d+\s+{re.escape(name)}$", release, re.MULTILINE)
    return found.group(1) if found else None


def moment(release: str) -> str:
    """When a `Release` file was made, as snapshot.debian.org writes it."""
    found = re.search(r"^Date: (.+)$", release, re.MULTILINE)
    made = parsedate_to_datetime(found.group(1)) if found else datetime.now(UTC)
    return made.astimezone(UTC).strftime("%Y%m%dT%H%M%SZ")
