"""What came of the rounds, as a page tells it."""

from __future__ import annotations

from collections.abc import Sequence

from tests.soak.rounds import VICTIMS, Told

COMMAND = "make soak"
_COMMANDS = {"up": "`up` of a new stack", "change": "`up` of a change", "destroy": "`destroy`"}


def summary(played: Sequence[Told], first: int) -> str:
    """How many rounds there were of what, and what the next run had to clear."""
    last = first + len(played) - 1
    met = [one for one in played if one.met]
    lines = [
        "",
        f"{len(played)} rounds, seeds {first} to {last}. In all of them the next run finished, state and cloud held the"
        " same objects,\neach once, and no machine was left. In"
        f" {len(met)} the kill came before the command had ended:",
        "",
        "| | killed: the CLI | the plugin | the cloud |",
        "|---|---|---|---|",
    ]
    for command, title in _COMMANDS.items():
        counts = (sum(one.round.command == command and one.round.victim == each for one in met) for each in VICTIMS)
        lines.append(f"| {title} | {' | '.join(str(count) for count in counts)} |")
    locks, pending = sum(one.lock for one in played), sum(bool(one.pending) for one in played)
    lines += [
        "",
        f"A lock was left and cleared {locks} times, creates that were cut off {pending} times.",
        "",
        "",
    ]
    return "\n".join(lines)
