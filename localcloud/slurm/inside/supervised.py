"""One container over its life: started, probed, started again with growing pauses when it ends, and ended."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from localcloud.slurm.inside.container import Container, StartError, run_inside, start
from localcloud.slurm.inside.probes import Probe

# A kubelet begins with 10 s and goes up to 300 s; here nobody waits for an image to be pulled again.
_FIRST_PAUSE, _LONGEST_PAUSE = 1.0, 30.0
_WELL_AFTER_SECONDS = 60.0
# A kubelet gives a container these after a preStop hook that took the whole grace period.
_EXTRA_SECONDS = 2.0


@dataclass
class _End:
    """A container that is being ended: by when (monotonic seconds), and the hook that it still waits for."""

    deadline: float
    hook: int | None = None
    told: bool = False


class Supervised:
    """A container and what is known of it. `folder` holds its root and its log."""

    def __init__(self, wanted: Container, image: Path, folder: Path, address: str, grace: float) -> None:
        """Nothing is started. `address` is the pod's; `grace` (s) is what a failed liveness probe leaves it."""
        self.name: str = wanted["name"]
        self._wanted = wanted
        self._image = image
        self._folder = folder
        self._address = address
        self._grace = grace
        folder.mkdir(parents=True, exist_ok=True)
        self._waiter: int | None = None
        self._first = 0
        self._end: _End | None = None
        self._final = False
        self._done = False
        self._begun = 0.0
        self._again_at = 0.0
        self._pause = 0.0
        self._restarts = 0
        self._probes: dict[str, Probe] = {}
        self._state: dict[str, Any] = {"waiting": {"reason": "PodInitializing"}}
        self._last: dict[str, Any] = {}

    @property
    def running(self) -> bool:
        """Whether its processes are there."""
        return self._waiter is not None

    @property
    def calm(self) -> bool:
        """Whether nothing is on its way: it has ended well, or runs and every probe of it passes."""
        return self._done or (self.running and self._end is None and all(each.calm for each in self._probes.values()))

    @property
    def lets_others_start(self) -> bool:
        """Of an init container: whether what comes after it may start."""
        return self._done or (not self._wanted["once"] and self.running and self._passed("startup"))

    def tick(self, at: float) -> None:
        """Do what is due at a moment (monotonic seconds)."""
        if not self.running:
            if not self._done and not self._final and at >= self._again_at:
                self._start(at)
        elif self._end is not None:
            self._go_on_ending(self._end, at)
        else:
            startup = self._probes.get("startup")
            waits = startup is not None and not startup.passed
            for kind, probe in self._probes.items():
                if waits == (kind == "startup"):
                    probe.tick(at, self._address)
                    if probe.failed and kind != "readiness" and self._end is None:
                        self._begin_ending(at + self._grace)

    def end(self, deadline: float) -> None:
        """End it for good, by a moment (monotonic seconds)."""
        self._final = True
        if not self.running:
            return
        if self._end is None:
            self._begin_ending(deadline)
        else:
            self._end.deadline = min(self._end.deadline, deadline)

    def gone(self, pid: int, status: int, at: float) -> None:
        """Take note that a child of the pod's first process has ended; it may be none of this container's."""
        if pid == self._waiter:
            self._ended(status, at)
        elif self._end is not None and pid == self._end.hook:
            self._end.hook = None
            self._tell(self._end)
        else:
            for probe in self._probes.values():
                if probe.pid == pid:
                    probe.answered(status)

    def report(self) -> dict[str, Any]:
        """What a kubelet would say of it; times in seconds since 1970, the pid as the pod's namespace counts."""
        well = self._done and self._state.get("terminated", {}).get("exitCode") == 0
        started = self.running and self._passed("startup")
        return {
            "state": self._state,
            "last": self._last,
            "restarts": self._restarts,
            "started": started,
            "ready": well or (started and self._passed("readiness") and not self._final),
            "pid": self._first if self.running else None,
        }

    def _passed(self, kind: str) -> bool:
        probe = self._probes.get(kind)
        return probe is None or probe.passed

    def _start(self, at: float) -> None:
        try:
            self._waiter, self._first = start(self._wanted, self._image, self._folder)
        except (StartError, OSError) as error:
            self._state = {"waiting": {"reason": "CreateContainerError", "message": str(error)}}
            self._pause_longer(at)
            return
        self._begun = at
        self._end = None
        self._state = {"running": {"startedAt": time.time()}}
        self._probes = {
            kind: Probe(probe, lambda argv: run_inside(self._wanted, self._first, argv, self._folder), at)
            for kind, probe in self._wanted["probes"].items()
        }
        # Beside the container's own program, as with a kubelet; a hook that fails is not played.
        if self._wanted.get("post_start"):
            run_inside(self._wanted, self._first, self._wanted["post_start"], self._folder)

    def _begin_ending(self, deadline: float) -> None:
        self._end = _End(deadline)
        hook = self._wanted["pre_stop"]
        if hook:
            self._end.hook = run_inside(self._wanted, self._first, hook, self._folder)
        else:
            self._tell(self._end)

    def _go_on_ending(self, end: _End, at: float) -> None:
        if at < end.deadline:
            return
        if not end.told:
            # The hook took it all. It ends with the container's namespaces.
            end.hook, end.deadline = None, at + _EXTRA_SECONDS
            self._tell(end)
        else:
            self._signal(signal.SIGKILL)

    def _tell(self, end: _End) -> None:
        end.told = True
        self._signal(signal.SIGTERM)

    def _signal(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(self._first, number)

    def _ended(self, status: int, at: float) -> None:
        begun = self._state.get("running", {}).get("startedAt", time.time())
        reason = "Completed" if status == 0 else "Error"
        past = {"terminated": {"exitCode": status, "reason": reason, "startedAt": begun, "finishedAt": time.time()}}
        self._waiter, self._first, self._probes, self._state = None, 0, {}, past
        if self._wanted["once"] and status == 0:
            self._done = True
        elif not self._final:
            self._last = past
            self._restarts += 1
            if at - self._begun > _WELL_AFTER_SECONDS:
                self._pause = 0.0
            if self._pause:
                message = f"back-off {self._pause:g} s restarting {self.name}"
                self._state = {"waiting": {"reason": "CrashLoopBackOff", "message": message}}
            self._pause_longer(at)

    def _pause_longer(self, at: float) -> None:
        self._again_at = at + self._pause
        self._pause = min(max(2 * self._pause, _FIRST_PAUSE), _LONGEST_PAUSE)
