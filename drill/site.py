"""The stack that is drilled, as its commands see it: kubectl, and programs in pods of Slurm. Every call is bounded."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

NAMESPACE = "slurm"
CONTROLLER = ("slurm-controller-0", "slurmctld")
_SECONDS = 60.0


class SiteError(Exception):
    """The stack did not do what it was asked; the text says what and why."""


@dataclass(frozen=True)
class Site:
    """A stack with Slurm on Slinky.

    Attributes:
        kubectl: the program.
        kubeconfig: a file that only this user can read.
        user: the unprivileged user who submits.
        login: the pod of the login node.
    """

    kubectl: str
    kubeconfig: Path
    user: str
    login: str

    def command(self, *arguments: str) -> list[str]:
        """A command line of kubectl for this cluster."""
        return [self.kubectl, f"--kubeconfig={self.kubeconfig}", *arguments]

    def run(self, *arguments: str, given: str | None = None, seconds: float = _SECONDS) -> str:
        """What kubectl says. Raises SiteError."""
        return _output(self.command(*arguments), given, seconds)

    def items(self, *arguments: str) -> list[dict[str, Any]]:
        """Objects of a kind. Raises SiteError."""
        found: list[dict[str, Any]] = json.loads(self.run("get", *arguments, "-o", "json"))["items"]
        return found

    def inside(self, pod: str, container: str, *command: str) -> list[str]:
        """A command line that runs a program in a pod of Slurm."""
        return self.command("-n", NAMESPACE, "exec", "-i", pod, "-c", container, "--", *command)

    def slurm(self, *command: str) -> str:
        """What one of Slurm's commands says to its administrator. Raises SiteError."""
        return _output(self.inside(*CONTROLLER, *command), None, _SECONDS)

    def worker(self, pod: str, script: str) -> str:
        """What a shell script says on a worker, as root. Raises SiteError."""
        return _output(self.inside(pod, "slurmd", "bash", "-c", script), None, _SECONDS)

    def person(self, script: str, given: str | None = None) -> str:
        """What the user sees who types a script on the login node, at home. Raises SiteError."""
        return _output(self.as_person(script), given, _SECONDS)

    def as_person(self, script: str) -> list[str]:
        """The command line of `person`."""
        return self.inside(self.login, "login", "runuser", "-l", self.user, "-c", script)

    def root(self, script: str) -> str:
        """What a shell script says on the login node, as root. Raises SiteError."""
        return _output(self.inside(self.login, "login", "bash", "-c", script), None, _SECONDS)


def login_pod(kubectl: str, kubeconfig: Path) -> str:
    """The first ready pod of the login nodes. Raises SiteError."""
    command = [kubectl, f"--kubeconfig={kubeconfig}", "-n", NAMESPACE, "get", "pods", "-o", "json"]
    found: list[dict[str, Any]] = json.loads(_output([*command, "-l", "app.kubernetes.io/name=login"], None, _SECONDS))[
        "items"
    ]
    for pod in found:
        conditions: Sequence[dict[str, Any]] = pod.get("status", {}).get("conditions", [])
        if any(each["type"] == "Ready" and each["status"] == "True" for each in conditions):
            return pod["metadata"]["name"]
    raise SiteError("No login node of Slurm is ready; `make up` brings the stack up, then run this again.")


def _output(command: Sequence[str], given: str | None, seconds: float) -> str:
    try:
        done = subprocess.run(
            command,
            input=given,
            stdin=subprocess.DEVNULL if given is None else None,
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise SiteError(f"`{_shown(command)}` did not end within {seconds:.0f} s.") from None
    if done.returncode != 0:
        lines = (done.stderr.strip() or done.stdout.strip()).splitlines()
        # kubectl's own last word about a program in a pod says nothing.
        said = [line for line in lines if not line.startswith("command terminated with exit code")] or lines
        raise SiteError(f"`{_shown(command)}` failed: {said[-1] if said else f'exit status {done.returncode}'}")
    return done.stdout


def _shown(command: Sequence[str]) -> str:
    words = [word for word in command[1:] if not word.startswith("--kubeconfig=")]
    return f"kubectl {' '.join(words)}"[:160]
