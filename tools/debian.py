"""A release out of Debian's packages: pinned files of a mirror, of which only the binaries are kept."""

import io
import shutil
import tarfile
from collections.abc import Callable, Mapping
from pathlib import Path

from tools.errors import DownloadError
from tools.network import Network
from tools.releases import Release
from tools.slurm_root.archive import Archive, mirrors
from tools.slurm_root.unpack import data_member

Tick = Callable[[int, int | None], None]


def take(
    release: Release, platform: str, folder: Path, environ: Mapping[str, str], network: Network, tick: Tick
) -> None:
    """Put every binary of a release into `folder`; `tick` gets bytes done, and of how many.

    Raises:
        DownloadError: Debian has no such release for the platform, no mirror has its files, or they lack a binary.
    """
    pins = release.debian.packages.get(platform) if release.debian else None
    if release.debian is None or pins is None:
        raise DownloadError(f"there are no Debian packages of it for {platform}")
    scratch = folder / ".debs"
    scratch.mkdir()
    total = sum(pin.size for pin in pins)
    archive = Archive(mirrors(environ), network, scratch)
    debs = archive.fetch(pins, release.debian.snapshot, lambda done: tick(done, total))
    wanted = {path: name for name, path in release.debian.members.items()}
    for deb in debs:
        for name in _unpack(deb, wanted, folder):
            wanted = {path: each for path, each in wanted.items() if each != name}
    if wanted:
        raise DownloadError(f"the Debian packages hold no {', '.join(wanted)}")
    shutil.rmtree(scratch)


def _unpack(deb: Path, wanted: Mapping[str, str], folder: Path) -> list[str]:
    """Put those of the wanted files (names by path) that a package has into the folder; return their names."""
    found: list[str] = []
    try:
        _, content = data_member(deb.read_bytes())
        with tarfile.open(fileobj=io.BytesIO(content), mode="r:*") as tar:
            for member in tar:
                name = wanted.get(member.name.removeprefix("./"))
                source = tar.extractfile(member) if name else None
                if name and source is not None:
                    with source, (folder / name).open("wb") as file:
                        shutil.copyfileobj(source, file)
                    (folder / name).chmod(0o755)
                    found.append(name)
    except (tarfile.TarError, EOFError, OSError, DownloadError) as error:
        raise DownloadError(f"{deb.name} can't be unpacked: {error}") from error
    return found
