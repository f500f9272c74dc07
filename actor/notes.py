"""Notes of a job that outlive the actor: `actor[hosts=a+b releases=2]` in the job's AdminComment.

What others have written there stays.
"""

import re
from dataclasses import dataclass

_NOTES = re.compile(r"\s*actor\[([^\]]*)\]")


@dataclass(frozen=True)
class Notes:
    """Machines that failed under a job, by the ids of their VMs, and how often it was released after a failed launch.

    `told` are alerts that have been given.
    """

    hosts: tuple[str, ...] = ()
    releases: int = 0
    told: tuple[str, ...] = ()


def read(comment: str) -> Notes:
    """The notes in an AdminComment; empty ones where there are none."""
    found = _NOTES.search(comment)
    pairs = (item.partition("=") for item in found[1].split()) if found else ()
    items: dict[str, str] = {key: value for key, _, value in pairs}
    releases = items.get("releases", "0")
    return Notes(_words(items, "hosts"), int(releases) if releases.isdecimal() else 0, _words(items, "told"))


def write(comment: str, notes: Notes) -> str:
    """The AdminComment with these notes in place of those that it has."""
    items = [
        *([f"hosts={'+'.join(notes.hosts)}"] if notes.hosts else []),
        *([f"releases={notes.releases}"] if notes.releases else []),
        *([f"told={'+'.join(notes.told)}"] if notes.told else []),
    ]
    others = _NOTES.sub("", comment).strip()
    return " ".join(part for part in (others, f"actor[{' '.join(items)}]" if items else "") if part)


def _words(items: dict[str, str], key: str) -> tuple[str, ...]:
    return tuple(word for word in items.get(key, "").split("+") if word)
