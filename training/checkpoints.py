"""The files of checkpoints: names, the manifest, which are whole, which are pruned. No PyTorch.

A checkpoint is written into a hidden folder named by its attempt, gets a manifest with the size and SHA-256 of every
file, and becomes `step-<number>` by one rename. So a folder of that name is whole unless the storage broke it later,
and what an attempt left half-made is never taken for one.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

MANIFEST = "manifest.json"
_NAME = re.compile(r"step-(\d{8})")
_DRAFT, _TRASH = ".draft-", ".trash-"


@dataclass(frozen=True)
class File:
    """A file of a checkpoint."""

    bytes: int
    sha256: str


@dataclass(frozen=True)
class Manifest:
    """What a checkpoint is of.

    `step` is how many steps were done, `ranks` and `strategy` how they were spread, `data` the options that a resume
    must have too, `optimizer` the checksum of the optimizer's moments as a hex float.
    """

    step: int
    ranks: int
    strategy: str
    data: Mapping[str, Any]
    optimizer: str
    files: Mapping[str, File]


class TornError(Exception):
    """A checkpoint is not what its manifest says; `str()` says how."""


def name_of(step: int) -> str:
    """The folder of a checkpoint."""
    return f"step-{step:08d}"


def draft_of(folder: Path, step: int, attempt: int, round_: int) -> Path:
    """The folder that an attempt writes a checkpoint into."""
    return folder / f"{_DRAFT}{name_of(step)}.{attempt}.{round_}"


def digest(path: Path) -> File:
    """The size and SHA-256 of a file. Raises OSError."""
    with path.open("rb") as content:
        checksum = hashlib.file_digest(content, "sha256").hexdigest()
    return File(path.stat().st_size, checksum)


def manifest_of(checkpoint: Path) -> Manifest:
    """Read a manifest, and compare the sizes of the files with it.

    Raises:
        TornError: it is missing or unreadable, or a file has another size.
    """
    try:
        raw = json.loads((checkpoint / MANIFEST).read_text(encoding="utf-8"))
        files = {name: File(**each) for name, each in raw.pop("files").items()}
        manifest = Manifest(**raw, files=files)
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise TornError(f"its manifest can't be read: {error}") from error
    for name, file in manifest.files.items():
        try:
            size = (checkpoint / name).stat().st_size
        except OSError:
            raise TornError(f"{name} is missing") from None
        if size != file.bytes:
            raise TornError(f"{name} has {size} of {file.bytes} bytes")
    return manifest


def check(checkpoint: Path, files: Mapping[str, File]) -> None:
    """Compare the content of these files.

    Raises:
        TornError: one is another one than was saved.
    """
    for name, file in files.items():
        try:
            found = digest(checkpoint / name)
        except OSError as error:
            raise TornError(f"{name} can't be read: {error.strerror}") from error
        if found != file:
            raise TornError(f"{name} is not what was saved")


def published(folder: Path) -> list[Path]:
    """All checkpoints, whole or not, newest first."""
    if not folder.is_dir():
        return []
    return sorted((path for path in folder.iterdir() if _NAME.fullmatch(path.name)), reverse=True)


def whole(folder: Path) -> list[Path]:
    """The checkpoints whose files are there in their full size, newest first."""
    return [path for path in published(folder) if _is_whole(path)]


def newest_step(folder: Path) -> int:
    """The step of the newest whole checkpoint, -1 where there is none."""
    return next((int(path.name.removeprefix("step-")) for path in whole(folder)), -1)


def publish(draft: Path, manifest: Manifest) -> Path:
    """Make a finished draft a checkpoint; one of that step that is there (torn, or it would be kept) gives way.

    Raises:
        TornError: the draft has other files than the manifest.
        OSError: the storage refuses.
    """
    there = {path.name for path in draft.iterdir()}
    if there != set(manifest.files):
        raise TornError(f"{sorted(there ^ set(manifest.files))[0]} was saved by nobody, or was saved and isn't there")
    with (draft / MANIFEST).open("w", encoding="utf-8") as file:
        json.dump(asdict(manifest), file, indent=1)
        file.flush()
        os.fsync(file.fileno())
    _sync(draft)
    final = draft.with_name(name_of(manifest.step))
    _discard(final)
    draft.rename(final)
    _sync(final.parent)
    return final


def prune(folder: Path, keep: int) -> None:
    """Remove all but the newest `keep` whole checkpoints, and what is older than those.

    Only whole ones count, so however many torn ones lie above it, the last whole one stays.
    """
    kept = whole(folder)[:keep]
    if len(kept) < keep:
        return
    for path in published(folder):
        if path.name < kept[-1].name:
            _discard(path)


def clear(folder: Path) -> None:
    """Make the folder where it is missing; remove what earlier attempts left half-made or half-removed.

    Called by one rank while no other writes.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for path in folder.iterdir():
        if path.name.startswith((_DRAFT, _TRASH)):
            shutil.rmtree(path, ignore_errors=True)


def _is_whole(path: Path) -> bool:
    try:
        manifest_of(path)
    except TornError:
        return False
    return True


def _discard(path: Path) -> None:
    """Remove a checkpoint so that nobody ever sees half of it."""
    if not path.exists():
        return
    trash = path.with_name(f"{_TRASH}{path.name}")
    shutil.rmtree(trash, ignore_errors=True)
    path.rename(trash)
    shutil.rmtree(trash, ignore_errors=True)


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
