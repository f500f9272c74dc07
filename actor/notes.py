"""Notes of a job that outlive the actor: `actor[hosts=a+b releases=2]` in the job's AdminComment.

What others have written there stays. Whoever measures recoveries reads them too (`exporter/recovery.py`).
"""

import re
from dataclasses import astuple, dataclass, fields

_NOTES = re.compile(r"\s*actor\[([^\]]*)\]")


@dataclass(frozen=True)
class Fault:
    """A fault that took a job's nodes away; moments in seconds since 1970.

    Attributes:
        restart: how many restarts the job has once it is back in the queue.
        told: since when the node's condition has said so; 0 where none does.
        isolated: since when the node is marked, as far as it says; else when the actor saw the mark.
        drained: when the actor drained the node in Slurm and requeued the job.
        host, pool: the machine, and its node pool by the name that Crusoe has for it.
    """

    restart: int
    told: int
    isolated: int
    drained: int
    host: str
    pool: str


@dataclass(frozen=True)
class Notes:
    """Machines that failed under a job, by the ids of their VMs, and how often it was released after a failed launch.

    `told` are alerts that have been given, `faults` how many took its nodes away, and `fault` is the last of them.
    """

    hosts: tuple[str, ...] = ()
    releases: int = 0
    told: tuple[str, ...] = ()
    faults: int = 0
    fault: Fault | None = None


def read(comment: str) -> Notes:
    """The notes in an AdminComment; empty ones where there are none."""
    found = _NOTES.search(comment)
    pairs = (item.partition("=") for item in found[1].split()) if found else ()
    items: dict[str, str] = {key: value for key, _, value in pairs}
    return Notes(
        _words(items, "hosts"),
        _number(items, "releases"),
        _words(items, "told"),
        _number(items, "faults"),
        _fault(items.get("fault", "")),
    )


def write(comment: str, notes: Notes) -> str:
    """The AdminComment with these notes in place of those that it has."""
    items = [
        *([f"hosts={'+'.join(notes.hosts)}"] if notes.hosts else []),
        *([f"releases={notes.releases}"] if notes.releases else []),
        *([f"told={'+'.join(notes.told)}"] if notes.told else []),
        *([f"faults={notes.faults}"] if notes.faults else []),
        *([f"fault={'/'.join(map(str, astuple(notes.fault)))}"] if notes.fault else []),
    ]
    others = _NOTES.sub("", comment).strip()
    return " ".join(part for part in (others, f"actor[{' '.join(items)}]" if items else "") if part)


def _number(items: dict[str, str], key: str) -> int:
    text = items.get(key, "")
    return int(text) if text.isdecimal() else 0


def _fault(text: str) -> Fault | None:
    *numbers, host, pool = text.split("/") if text.count("/") == len(fields(Fault)) - 1 else ("", "", "")
    if not all(each.isdecimal() for each in numbers):
        return None
    return Fault(*map(int, numbers), host=host, pool=pool)


def _words(items: dict[str, str], key: str) -> tuple[str, ...]:
    return tuple(word for word in items.get(key, "").split("+") if word)
