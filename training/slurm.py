"""The few questions that a batch script asks Slurm, as the user that it is."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass

_SECONDS = 30.0
_FAILED = ("DOWN", "DRAIN", "FAIL", "NOT_RESPONDING", "REBOOT", "POWERED")


class SlurmError(Exception):
    """Slurm refuses, or doesn't answer in time; `str()` says what it said."""


@dataclass(frozen=True)
class Node:
    """A node: its state in Slurm's words, and the id of the machine behind its name ("" where nobody notes it)."""

    name: str
    state: str
    partitions: tuple[str, ...]
    instance: str

    @property
    def failed(self) -> bool:
        """Whether Slurm, a health check or a person has taken it out."""
        return any(word in self.state for word in _FAILED)


def ask(*command: str) -> str:
    """Run one of Slurm's programs; returns what it prints. Raises SlurmError."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SlurmError(f"{command[0]}: {error}") from error
    if done.returncode != 0:
        raise SlurmError(f"{' '.join(command)}: {(done.stderr or done.stdout).strip()}")
    return done.stdout


def hostnames(hosts: str) -> list[str]:
    """The names in a list as Slurm writes it. Raises SlurmError."""
    return ask("scontrol", "show", "hostnames", hosts).split() if hosts and hosts != "(null)" else []


def excluded(job: str) -> list[str]:
    """The nodes that a job excludes. Raises SlurmError."""
    return hostnames(field(ask("scontrol", "--oneliner", "show", "job", job), "ExcNodeList"))


def nodes(names: Sequence[str] = ()) -> list[Node]:
    """These nodes, or all of them. Raises SlurmError."""
    text = ask("scontrol", "--oneliner", "show", "node", *([",".join(names)] if names else []))
    return [parsed(line) for line in text.splitlines() if "NodeName=" in line]


def parsed(line: str) -> Node:
    """A line of `scontrol --oneliner show node`."""
    extra = re.search(r"\bExtra=(\{.*?\})(?: \w+=|\s*$)", line)
    try:
        noted: dict[str, object] = json.loads(extra[1]) if extra else {}
    except ValueError:
        noted = {}
    partitions = tuple(field(line, "Partitions").split(","))
    return Node(field(line, "NodeName"), field(line, "State"), partitions, str(noted.get("instance", "")))


def field(text: str, name: str) -> str:
    """A field of a line of scontrol; "" where it has none."""
    found = re.search(rf"(?:^|\s){name}=(\S*)", text)
    return found[1] if found else ""
