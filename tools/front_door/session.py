"""What the commands share: the stack, the arguments handed on, and Pulumi in the right environment."""

import os
import sys
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit

import yaml

from tools.front_door import recovery, room
from tools.front_door.environment import DEV, STATE, FrontDoorError, direct, environment, exports, local_cloud_port
from tools.front_door.process import output, run
from tools.places import BIN, LOCAL, ROOT
from tools.progress import Reporter
from tools.toolchain import ensure

BACKEND = "state:backend"
"""The configuration key in which a stack's file names where its state is kept."""


def _read(name: str) -> dict[str, Any]:
    """Return what a YAML file of the clone holds, nothing when that is no mapping. Raises FrontDoorError."""
    try:
        content: object = yaml.safe_load((ROOT / name).read_text(encoding="utf-8"))
    except yaml.MarkedYAMLError as error:
        line = f" line {error.problem_mark.line + 1}" if error.problem_mark else ""
        raise FrontDoorError(f"{name}{line} is not YAML: {error.problem}. Mend it and run this again.") from None
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        reason = " ".join(str(error).split())
        raise FrontDoorError(f"{name} can't be read: {reason}. Mend it and run this again.") from None
    return cast("dict[str, Any]", content) if isinstance(content, dict) else {}


class Session:
    """One command on one stack."""

    def __init__(self, stack: str, arguments: tuple[str, ...] = (), tier: str = "") -> None:
        self.stack = stack
        self.arguments = arguments
        self.tier = tier
        self._reporter = Reporter()

    def say(self, line: str) -> None:
        """Print one line for the person, on standard error."""
        self._reporter.say(line)

    @property
    def is_dev(self) -> bool:
        """Whether the stack lives on this machine."""
        return self.stack == DEV

    @property
    def is_agreed(self) -> bool:
        """Whether the person has already said yes on the command line."""
        return bool({"--yes", "-y", "--yes=true"} & set(self.arguments))

    @cached_property
    def project(self) -> str:
        """The project's name, from Pulumi.yaml."""
        return str(_read("Pulumi.yaml")["name"])

    @cached_property
    def backend(self) -> str:
        """Where the stack's own file says that its state is kept; empty where it doesn't."""
        found: object = self._config().get(BACKEND) if (ROOT / self._file).exists() else None
        return found if isinstance(found, str) else ""

    @cached_property
    def environ(self) -> Mapping[str, str]:
        """The environment for Pulumi; see environment.py."""
        return environment(self.stack, backend=self.backend)

    def exports(self) -> Mapping[str, str]:
        """Return what `make env` prints."""
        return exports(self.stack, backend=self.backend)

    def prepare(self, *, runs_program: bool = True) -> None:
        """Make everything ready for Pulumi: tools; for `dev` also the cloud, the backend and the stack itself.

        The local cloud listens where the settings look for it, or where the stack's state does when Pulumi will not
        run the program.

        Raises:
            ToolError: a tool is missing, the local cloud does not start, another run works on the stack, or the disk is
                full or not to be written to.
        """
        if not self.is_dev:
            return
        if refused := room.refusal((STATE, LOCAL)):
            raise FrontDoorError(refused)
        ensure("dev")
        # First of all: whoever works on the stack needs the local cloud where it is.
        held = self._dead_locks()
        if copy := recovery.mend(STATE, self.project, self.stack):
            self.say(f"The state was cut off while it was written, as on a full disk; going on with {copy.name}")
        cut_off = recovery.pending_creates(STATE, self.project, self.stack)
        recorded = recovery.cloud_port(STATE, self.project, self.stack)
        self._start_local_cloud(self._port() if runs_program and not cut_off else recorded)
        if held:
            self.say(f"An earlier run on the stack {self.stack} was killed; clearing the lock it left (pulumi cancel)")
            self.pulumi_or_fail("cancel", "--yes", "--stack", self.stack)
        if not recovery.checkpoint(STATE, self.project, self.stack).exists():
            self.pulumi_or_fail("stack", "init", self.stack, "--no-select")
        if cut_off:
            self._clear_pending_creates(cut_off)
            if runs_program:
                self._start_local_cloud(self._port())

    def start_local_cloud(self) -> None:
        """Start this clone's local cloud where the settings look for it. Raises FrontDoorError."""
        self._start_local_cloud(self._port())

    def _start_local_cloud(self, port: int | None) -> None:
        """Start the local cloud on a port, or where it ran last; one that runs on another port is moved."""
        before = local_cloud_port() if port else None
        if before and before != port:
            self.say(f"Moving the local cloud from port {before} to {port}")
            if self.stop_local_cloud():
                raise FrontDoorError("The local cloud did not stop; the reason stands above.")
            # It holds the old endpoint.
            self.__dict__.pop("environ", None)
        command = [sys.executable, "-m", "localcloud", "up", *([f"--port={port}"] if port else [])]
        if run(command, {**os.environ, **direct(os.environ)}, output_to_stderr=True):
            raise FrontDoorError(
                "The local cloud did not start; the reason stands above. "
                f"Its port is that of platform.cloud.endpoint in Pulumi.{self.stack}.yaml."
            )

    def stop_local_cloud(self) -> int:
        """Stop this clone's local cloud, whatever port it is on; return the exit status."""
        command = [sys.executable, "-m", "localcloud", "down"]
        return run(command, {**os.environ, **direct(os.environ)}, output_to_stderr=True)

    def settings(self) -> Mapping[str, Any]:
        """Return the stack's settings as they are written; nothing where they are not as they should be."""
        config = self._config()
        # `pulumi config set` writes the project's name before the key.
        found: object = next((config[key] for key in config if key.rpartition(":")[2] == "platform"), None)
        # The program says what is wrong, with the setting's path.
        return cast("dict[str, Any]", found) if isinstance(found, dict) else {}

    @property
    def file(self) -> Path:
        """Where the stack's settings are."""
        return ROOT / self._file

    def preview_of_a_file(self) -> list[str]:
        """Return a command line that previews the stack with the settings in a file, whose path comes last."""
        return [self._cli(), "preview", "--non-interactive", "--stack", self.stack, "--config-file"]

    @property
    def _file(self) -> str:
        # A stack's full name has its organization before it, its file has not.
        return f"Pulumi.{self.stack.rpartition('/')[2]}.yaml"

    def _config(self) -> dict[str, Any]:
        """Return the configuration in the stack's file."""
        found: object = _read(self._file).get("config")
        config = cast("dict[object, Any]", found) if isinstance(found, dict) else {}
        return {key: value for key, value in config.items() if isinstance(key, str)}

    def _port(self) -> int | None:
        """Return the port where the stack's settings look for the local cloud."""
        try:
            return urlsplit(str(self.settings()["cloud"]["endpoint"])).port
        except (KeyError, TypeError, ValueError):
            return None

    def _dead_locks(self) -> list[recovery.Lock]:
        """Return the locks that a killed run left. Raises FrontDoorError when one is held."""
        held = recovery.locks(STATE, self.project, self.stack)
        for lock in held:
            if not lock.is_dead:
                raise FrontDoorError(
                    f"Another pulumi (process {lock.pid} on {lock.host}, since {lock.since}) works on the stack "
                    f"{self.stack}. Wait for it, or end it, then run this again."
                )
        return held

    def _clear_pending_creates(self, cut_off: Sequence[str]) -> None:
        names = ", ".join(recovery.spoken(urn) for urn in cut_off)
        self.say(f"It was cut off while creating {names}; clearing that (pulumi refresh --clear-pending-creates)")
        options = ("--clear-pending-creates", "--yes", "--skip-preview", "--suppress-outputs")
        self.pulumi_or_fail("refresh", *options, "--stack", self.stack)

    def pulumi(self, *arguments: str, variables: Mapping[str, str] | None = None) -> int:
        """Run Pulumi with this terminal, and with more variables; return its exit status."""
        return run([self._cli(), *arguments], {**self.environ, **(variables or {})})

    def pulumi_or_fail(self, *arguments: str) -> None:
        """Run Pulumi for a step of our own, out of the way of standard output. Raises FrontDoorError."""
        if run([self._cli(), *arguments], self.environ, output_to_stderr=True):
            raise FrontDoorError(f"`pulumi {arguments[0]}` failed; the reason stands above.")

    def pulumi_output(self, *arguments: str) -> str:
        """Return what Pulumi prints. Raises CalledProcessError."""
        return output([self._cli(), *arguments], self.environ)

    def _cli(self) -> str:
        # Its own folder's, whatever else is called pulumi on PATH.
        _ = self.environ
        return str(Path(BIN) / "pulumi")
