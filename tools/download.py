"""The official download of a release: fetched, compared with its checksum, and only then unpacked."""

import hashlib
import json
import re
import shutil
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tools.errors import DownloadError
from tools.network import Network
from tools.releases import Download, Release

Tick = Callable[[int, int | None], None]

_SHA256 = re.compile(r"[0-9a-f]{64}")


def published_digest(text: str, file_name: str) -> str | None:
    """Return the SHA-256 of one file from what a release publishes, None when it does not name the file.

    Understood are the lines of `sha256sum`, one digest alone, and the JSON of a GitHub release.
    """
    if text.lstrip().startswith("{"):
        assets: list[dict[str, Any]] = json.loads(text).get("assets", [])
        digests = [str(asset.get("digest") or "") for asset in assets if asset.get("name") == file_name]
        kind, _, digest = digests[0].partition(":") if digests else ("", "", "")
        return digest if kind == "sha256" and _SHA256.fullmatch(digest) else None
    lines = [line.split() for line in text.splitlines() if line.strip()]
    if len(lines) == 1 and len(lines[0]) == 1:
        candidates = [lines[0][0]]
    else:
        candidates = [words[0] for words in lines if len(words) == 2 and words[1].lstrip("*") == file_name]
    return candidates[0].lower() if candidates and _SHA256.fullmatch(candidates[0].lower()) else None


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _unpack(archive: Path, member: str, target: Path, *, optional: bool = False) -> None:
    try:
        with tarfile.open(archive, "r:gz") as tar:
            source = None
            for entry in tar:
                # Release archives name their members with and without a leading "./".
                if entry.isfile() and entry.name.removeprefix("./") == member:
                    source = tar.extractfile(entry)
                    break
            if source is None:
                if optional:
                    return
                raise DownloadError(f"{archive.name} holds no {member}")
            with source, target.open("wb") as file:
                shutil.copyfileobj(source, file)
    except (tarfile.TarError, EOFError, OSError) as error:
        raise DownloadError(f"{archive.name} can't be unpacked: {error}") from error
    target.chmod(0o755)


def download(release: Release, platform: str, folder: Path, network: Network, tick: Tick | None = None) -> None:
    """Put every binary of a release into `folder`, as the product released it for `platform` (`linux-amd64`).

    A file whose checksum can't be had is refused like one whose checksum differs.

    Raises:
        DownloadError: there is no such release for the platform, it can't be fetched, or it is not what was published.
    """
    source = release.download
    if source is None or platform not in source.platforms:
        raise DownloadError(f"there is no official download for {platform}")
    scratch = folder / ".download"
    scratch.mkdir(exist_ok=True)
    fetched: dict[str, Path] = {}
    for name in release.binaries:
        url = release.fill(source.url, platform, name)
        if url not in fetched:
            fetched[url] = _verified(release, source, platform, name, scratch, network, tick)
        file = fetched[url]
        if source.member is None:
            shutil.copyfile(file, folder / name)
            (folder / name).chmod(0o755)
        else:
            _unpack(file, release.fill(source.member, platform, name), folder / name)
    if source.member is not None:
        for name in source.companions:
            for file in fetched.values():
                _unpack(file, release.fill(source.member, platform, name), folder / name, optional=True)
    shutil.rmtree(scratch)


def _verified(
    release: Release, source: Download, platform: str, name: str, scratch: Path, network: Network, tick: Tick | None
) -> Path:
    """Fetch the file that holds one binary and compare it with its digest."""
    url = release.fill(source.url, platform, name)
    file_name = urlsplit(url).path.rsplit("/", 1)[-1]
    expected = source.sha256.get(file_name)
    if expected is None:
        checksums = release.fill(source.checksums, platform, name)
        expected = published_digest(network.text(checksums, scratch / "checksums"), file_name)
        if expected is None:
            raise DownloadError(f"{checksums} has no SHA-256 of {file_name}, and nothing is used unchecked")
    file = scratch / file_name
    network.fetch(url, file, tick)
    actual = _sha256(file)
    if actual != expected:
        raise DownloadError(
            f"{url} has the SHA-256 {actual[:12]}... where {expected[:12]}... was published; it was thrown away"
        )
    return file
