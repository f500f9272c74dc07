"""Package files into a folder: Debian's .deb is an `ar` archive whose member `data.tar.*` holds the files (deb(5))."""

import io
import re
import shutil
import tarfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import repeat
from pathlib import Path

from tools.errors import DownloadError

# Nobody reads them here, and they are a fifth of the folder.
UNUSED = ("usr/include", "usr/share/doc", "usr/share/info", "usr/share/lintian", "usr/share/locale", "usr/share/man")

# What the packages' own scripts would have linked (update-alternatives).
LINKS = {
    "usr/bin/awk": "mawk",
    "usr/bin/sh": "bash",
    "usr/sbin/slurmctld": "slurmctld-wlm",
    "usr/sbin/slurmd": "slurmd-wlm",
    "usr/sbin/slurmstepd": "slurmstepd-wlm",
}
# Libraries of which a system has one of several, each in a folder of its own.
_ALTERNATIVES = ("blas", "lapack")
_TESTS = re.compile(r"usr/lib/python3/dist-packages/.*/tests/")
_MAGIC = b"!<arch>\n"
_HEADER = 60


def data_member(deb: bytes) -> tuple[str, bytes]:
    """Name and content of the member that holds the files. Raises DownloadError."""
    if not deb.startswith(_MAGIC):
        raise DownloadError("it is no .deb file")
    at = len(_MAGIC)
    while at + _HEADER <= len(deb):
        name = deb[at : at + 16].decode("ascii", "replace").strip().rstrip("/")
        size = int(deb[at + 48 : at + 58])
        at += _HEADER
        if name.startswith("data.tar"):
            return name, deb[at : at + size]
        at += size + size % 2
    raise DownloadError("it holds no data.tar")


def unpack(deb: Path, folder: Path) -> None:
    """Put the files of one package into the folder, as this user's.

    Raises:
        DownloadError: the file is damaged, or packed in a way that this Python can't read.
    """
    try:
        _, content = data_member(deb.read_bytes())
        with tarfile.open(fileobj=io.BytesIO(content), mode="r:*") as tar:
            for member in tar:
                if _is_used(member.name.removeprefix("./")):
                    tar.extract(member, folder, filter=_plain)
    except (tarfile.TarError, EOFError, OSError, ValueError, DownloadError) as error:
        raise DownloadError(f"{deb.name} can't be unpacked: {error}") from error


def _is_used(name: str) -> bool:
    return name not in ("", ".") and not name.startswith(UNUSED) and not _TESTS.match(name)


def _plain(member: tarfile.TarInfo, folder: str) -> tarfile.TarInfo | None:
    """Keep files, folders and links inside the folder; drop devices and set-user-id bits."""
    if not (member.isfile() or member.isdir() or member.issym() or member.islnk()):
        return None
    target = Path(folder, member.name).parent.resolve()
    if not target.is_relative_to(Path(folder).resolve()):
        raise DownloadError(f"{member.name} would lie outside the folder")
    return member.replace(mode=member.mode & 0o777, deep=False)


def build(debs: Sequence[Path], folder: Path, tick: Callable[[int], None]) -> None:
    """Unpack all packages into the folder and link what belongs together; `tick` gets how many are done.

    Raises:
        DownloadError: a package can't be unpacked.
    """
    # First the one that lays out the folder (/bin -> usr/bin), so that the others' files find their place.
    first = [deb for deb in debs if deb.name.startswith("base-files_")]
    for deb in first:
        unpack(deb, folder)
    others = [deb for deb in debs if deb not in first]
    # Unpacking is mostly decompression, which leaves Python's lock alone.
    with ThreadPoolExecutor(4) as pool:
        for count, _ in enumerate(pool.map(unpack, others, repeat(folder)), start=1):
            tick(count)
    for link, target in LINKS.items():
        path = folder / link
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        path.symlink_to(target)
    for library in folder.glob("usr/lib/*-linux-gnu/*/lib*.so.3"):
        if library.parent.name in _ALTERNATIVES:
            library.parent.with_name(library.name).symlink_to(f"{library.parent.name}/{library.name}")
    for name in UNUSED:
        shutil.rmtree(folder / name, ignore_errors=True)
