"""Progress on standard error: a live line on a terminal, plain lines where there is none (CI, a pipe)."""

import time
from collections.abc import Generator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

HEARTBEAT_SECONDS = 30
"""How often a plain log says that a long step still runs."""


def spoken(seconds: float) -> str:
    """Return a duration as a person says it: `8 s`, `3 min`, `6 min 10 s`."""
    minutes, rest = divmod(round(seconds), 60)
    if not minutes:
        return f"{rest} s"
    return f"{minutes} min {rest} s" if rest else f"{minutes} min"


class Step:
    """One long step that is running. `tick()` is called often; it says what there is to say, and no more."""

    def __init__(self, console: Console, title: str, expected_seconds: float | None) -> None:
        self._console = console
        self._title = title
        self._expected = expected_seconds
        self._started = time.monotonic()
        self._spoken = self._started
        self._live: Progress | None = None
        suffix = f" (about {spoken(expected_seconds)})" if expected_seconds else ""
        if console.is_terminal:
            self._live = Progress(
                SpinnerColumn(),
                TextColumn("{task.description}", markup=False),
                BarColumn(bar_width=24),
                TimeElapsedColumn(),
                TextColumn(suffix.strip(), markup=False),
                console=console,
                transient=True,
            )
            self._task = self._live.add_task(title, total=expected_seconds)
            self._live.start()
        else:
            self._print(f"{title}{suffix} ...")

    def _print(self, line: str) -> None:
        self._console.print(line, markup=False, highlight=False, soft_wrap=True)

    def tick(self, done: float | None = None, total: float | None = None) -> None:
        """Report that the step is alive, and how far it is where that is known (both in one unit)."""
        now = time.monotonic()
        if self._live is not None:
            if done is not None and total:
                self._live.update(self._task, completed=done, total=total)
            elif self._expected:
                # Never full before it is done: an estimate is no promise.
                self._live.update(self._task, completed=min(now - self._started, self._expected * 0.97))
        elif now - self._spoken >= HEARTBEAT_SECONDS:
            self._spoken = now
            self._print(f"  still at it after {spoken(now - self._started)}")

    def close(self, outcome: str) -> None:
        """End the step with one line that stays."""
        if self._live is not None:
            self._live.stop()
        self._print(f"{self._title}: {outcome} after {spoken(time.monotonic() - self._started)}")


class Reporter:
    """Says on standard error what a run is doing."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console(stderr=True)

    def say(self, line: str) -> None:
        """Print one line."""
        self._console.print(line, markup=False, highlight=False, soft_wrap=True)

    @contextmanager
    def step(self, title: str, expected_seconds: float | None = None) -> Generator[Step]:
        """Run one long step; the line that ends it says whether it got through."""
        step = Step(self._console, title, expected_seconds)
        try:
            yield step
        except BaseException:
            step.close("stopped")
            raise
        step.close("done")
