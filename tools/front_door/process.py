"""Running other programs with the user's terminal, so that an interrupt ends them in order and not in half."""

import signal
import subprocess
import sys
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from types import FrameType

from tools.places import ROOT

INTERRUPTED = 128 + signal.SIGINT
"""The exit status of a command that the person has stopped."""

LEAVE_SECONDS = 30.0
"""How long a program may take to end that was interrupted because its time is over."""


@contextmanager
def _passing_signals_on(child: subprocess.Popen[bytes]) -> Generator[list[int]]:
    """Leave an interrupt to the child, which gets it from the terminal itself, and turn a SIGTERM into one.

    Gives a list that is empty until the person interrupts.
    """
    interrupts: list[int] = []

    def interrupted(number: int, _frame: FrameType | None) -> None:
        interrupts.append(number)

    def terminated(_number: int, _frame: FrameType | None) -> None:
        child.send_signal(signal.SIGINT)

    before = {
        signal.SIGINT: signal.signal(signal.SIGINT, interrupted),
        signal.SIGTERM: signal.signal(signal.SIGTERM, terminated),
    }
    try:
        yield interrupts
    finally:
        for sign, handler in before.items():
            signal.signal(sign, handler)


def run(
    command: Sequence[str],
    environ: Mapping[str, str],
    *,
    output_to_stderr: bool = False,
    seconds: float | None = None,
    given: str | None = None,
) -> int:
    """Run a program in the clone's folder with this terminal; return its exit status, 128 + n after signal n.

    With `given` its standard input is that text instead of the terminal.
    After a Ctrl-C a failed program's status is that of an interrupted one (130), whatever it made of it.
    Past `seconds` it is interrupted, then killed, and the status is 124.
    """
    child = subprocess.Popen(
        command,
        cwd=ROOT,
        env=environ,
        stdin=None if given is None else subprocess.PIPE,
        stdout=sys.stderr if output_to_stderr else None,
    )
    with _passing_signals_on(child) as interrupts:
        if child.stdin is not None and given is not None:
            # One that ends without reading has said why.
            with suppress(BrokenPipeError), child.stdin as text:
                text.write(given.encode())
        try:
            status = child.wait(seconds)
        except subprocess.TimeoutExpired:
            child.send_signal(signal.SIGINT)
            try:
                child.wait(LEAVE_SECONDS)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()
            return 124
    if status and interrupts:
        return INTERRUPTED
    return status if status >= 0 else 128 - status


def output(command: Sequence[str], environ: Mapping[str, str], seconds: float = 120) -> str:
    """Return what a program prints. Raises CalledProcessError, or TimeoutExpired past `seconds`."""
    done = subprocess.run(
        command, cwd=ROOT, env=environ, stdout=subprocess.PIPE, text=True, check=True, timeout=seconds
    )
    return done.stdout
