"""Every process of this machine with its command line, by which the local cloud knows its own."""

from __future__ import annotations

from collections.abc import Iterator

import psutil


def command_lines() -> Iterator[tuple[psutil.Process, list[str]]]:
    """Processes that have a command line, as they are now."""
    # Numbers are used again. psutil would go on giving the process that it has seen under one before, and whoever ends
    # that then ends nobody.
    psutil.process_iter.cache_clear()
    for process in psutil.process_iter():
        try:
            line = process.cmdline()
        except psutil.Error:
            continue
        if line:
            yield process, line
