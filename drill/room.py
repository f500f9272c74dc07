"""What a drill leaves on this machine while it runs, and its removal, by itself or by the next one.

In the drill's folder lie the kubeconfig, a file per running drill that says how to take back what it did, and the
reports. A drill that was killed is found by that file: its deeds are taken back, its programs ended by their command
lines, which name the kubeconfig.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Literal

import psutil


class RoomError(Exception):
    """A drill can't begin; the text says why and what to do."""


@dataclass(frozen=True)
class Undo:
    """How a deed is taken back: a command of kubectl, of scancel or of the local cloud, a PATCH of the API, or the
    replacement of a node that is still there.
    """

    kind: Literal["kubectl", "scancel", "localcloud", "api", "replace"]
    arguments: Sequence[str]


@dataclass
class Room:
    """A drill's folder."""

    folder: Path
    _undos: list[Undo] = field(default_factory=list[Undo])

    @property
    def kubeconfig(self) -> Path:
        """The cluster's kubeconfig, for this user only."""
        return self.folder / "kubeconfig"

    @property
    def _running(self) -> Path:
        return self.folder / "running.json"

    def enter(self, kubeconfig: str) -> list[Undo]:
        """Begin; returns what an earlier drill that was killed did not take back, last deed first.

        Raises:
            RoomError: another drill runs.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        left = self._left()
        for process in self._programs():
            with suppress(psutil.Error):
                process.kill()
        self.kubeconfig.touch(mode=0o600)
        self.kubeconfig.write_text(kubeconfig, encoding="utf-8")
        self._undos = list(reversed(left))
        self._write()
        return left

    def undo_later(self, undo: Undo) -> None:
        """Note, before a deed is done, how it is taken back."""
        self._undos.append(undo)
        self._write()

    def take_back(self, how: Callable[[Undo], None]) -> None:
        """Take everything back, last deed first."""
        while self._undos:
            how(self._undos[-1])
            self._undos.pop()
            self._write()

    def leave(self, how: Callable[[Undo], None]) -> None:
        """Take everything back, and end."""
        self.take_back(how)
        self._running.unlink(missing_ok=True)
        self.kubeconfig.unlink(missing_ok=True)

    def report_folder(self, name: str) -> Path:
        """An empty folder for a report; the one of the last drill of this name goes."""
        path = self.folder / name
        shutil.rmtree(path, ignore_errors=True)
        path.mkdir(parents=True)
        return path

    def _write(self) -> None:
        me = psutil.Process()
        text = json.dumps(
            {"pid": me.pid, "began": me.create_time(), "undo": [asdict(undo) for undo in self._undos]}, indent=1
        )
        draft = self._running.with_suffix(".draft")
        draft.write_text(text, encoding="utf-8")
        draft.replace(self._running)

    def _left(self) -> list[Undo]:
        try:
            kept = json.loads(self._running.read_text(encoding="utf-8"))
            pid, began = int(kept["pid"]), float(kept["began"])
            undos = [Undo(each["kind"], each["arguments"]) for each in kept["undo"]]
        except (OSError, ValueError, KeyError, TypeError):
            return []
        if pid != os.getpid() and _is(pid, began):
            raise RoomError(f"Another drill runs here (process {pid}). Wait for it, or end it with Ctrl-C, then again.")
        return list(reversed(undos))

    def _programs(self) -> list[psutil.Process]:
        """Programs of an earlier drill."""
        mark = f"--kubeconfig={self.kubeconfig}"
        return [process for process in psutil.process_iter() if mark in _line(process)]


def _line(process: psutil.Process) -> Sequence[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return ()


def _is(pid: int, began: float) -> bool:
    try:
        return abs(psutil.Process(pid).create_time() - began) < 1.0
    except psutil.Error:
        return False
