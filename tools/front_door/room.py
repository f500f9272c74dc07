"""Whether the clone has room for a run: a disk that is full or read-only is told before anything is done."""

import os
import shutil
from collections.abc import Sequence
from pathlib import Path

LEAST = 64 * 1024**2
"""Bytes that have to be free: the state is written anew at every step, and the local cloud keeps its own beside it."""


def refusal(folders: Sequence[Path], least: int = LEAST) -> str | None:
    """Return why a run must not begin, or None; folders that are not there yet are judged by what they will lie in."""
    for folder in folders:
        place = next(each for each in (folder, *folder.parents) if each.exists())
        if not os.access(place, os.W_OK):
            return (
                f"{place} can't be written to, and the state of the stack dev has to be kept there: mount it writable,"
                " or give it to the user who runs this. Nothing was changed."
            )
        free = shutil.disk_usage(place).free
        if free < least:
            return (
                f"The disk of {place} has {free / 1024**2:.0f} MiB left, and a run needs {least / 1024**2:.0f}, or it"
                " could not record what it makes: free some, then run this again. Nothing was changed."
            )
    return None
