"""One folder with every tool, to put on PATH: links into the cache, and the Python language host beside `pulumi`.

The Pulumi CLI looks for its language hosts beside its own executable. Where the official Python host came with it, a
link is enough. Where it did not (the CLI was built with Go), the stand-in of language_host.py takes its place, and the
CLI itself is put into the folder as a file, so that it finds the stand-in as its own and says nothing about it.
"""

import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

from tools import places

HOST = "pulumi-language-python"

_OFFICIAL = (HOST, f"{HOST}-exec")

_STAND_IN = """\
#!/bin/sh
# Stands in for the official Python language host, which did not come with this Pulumi CLI.
exec '{python}' -I '{host}' "$@"
"""


def refresh(binaries: Mapping[str, Path], folder: Path = places.BIN) -> Path:
    """Make the folder hold these binaries (by name); others in it stay. Safe to run twice at once."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, path in binaries.items():
        if name == "pulumi":
            _put_pulumi(path.resolve(), folder)
        else:
            put(path, folder / name)
    return folder


def _put_pulumi(pulumi: Path, folder: Path) -> None:
    official = [pulumi.with_name(name) for name in _OFFICIAL]
    if all(os.access(path, os.X_OK) for path in official):
        for path in (pulumi, *official):
            put(path, folder / path.name)
        return
    (folder / f"{HOST}-exec").unlink(missing_ok=True)
    python = Path(sys.prefix) / "bin" / "python"
    _put_script(_STAND_IN.format(python=python, host=places.ROOT / "tools" / "language_host"), folder / HOST)
    _put_file(pulumi, folder / "pulumi")


def put(target: Path, link: Path) -> None:
    """Have a link lead there, in one step."""
    if link.is_symlink() and link.readlink() == target:
        return
    new = _beside(link)
    new.symlink_to(target)
    new.replace(link)


def _put_script(text: str, path: Path) -> None:
    if not path.is_symlink() and path.is_file() and path.read_text() == text:
        return
    new = _beside(path)
    new.write_text(text)
    new.chmod(0o755)
    new.replace(path)


def _put_file(source: Path, path: Path) -> None:
    """Put a file there under its own name: a second name for it where the file system allows that, else a copy."""
    if not path.is_symlink() and path.is_file():
        there, wanted = path.stat(), source.stat()
        if (there.st_size, there.st_mtime_ns) == (wanted.st_size, wanted.st_mtime_ns):
            return
    new = _beside(path)
    try:
        new.hardlink_to(source)
    except OSError:
        shutil.copy2(source, new)
    new.replace(path)


def _beside(path: Path) -> Path:
    new = path.with_name(f".{path.name}.{os.getpid()}")
    new.unlink(missing_ok=True)
    return new
