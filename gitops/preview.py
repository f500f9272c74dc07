"""Running `pulumi preview` for a report: nothing is changed, and nothing is asked."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

import yaml

from crusoe.rules.values import table, text
from gitops import events
from gitops.events import Preview

_VARIABLES = {
    # Events instead of one digest, which leaves out policies and the result.
    "PULUMI_ENABLE_STREAMING_JSON_PREVIEW": "true",
    # The engine copies and checks the whole state after each resource, in a preview for nothing.
    "PULUMI_SKIP_CHECKPOINTS": "true",
    "PULUMI_SKIP_UPDATE_CHECK": "true",
}


@dataclass(frozen=True)
class Ran:
    """A preview that was run, and the exit status of the CLI."""

    preview: Preview
    status: int


class CannotRunError(Exception):
    """There is no preview to be had; `str()` says why and what to do."""


DRIFT: Mapping[str, str] = MappingProxyType({"CRUSOE_PROVIDER_DRIFT_CHECK": "true"})
"""Variables of a preview that looks for what others changed: the provider names also what no update would undo."""


def run(
    stack: str,
    arguments: Sequence[str] = (),
    *,
    variables: Mapping[str, str] | None = None,
    meanwhile: Callable[[], None] = lambda: None,
) -> Ran:
    """Preview a stack of the program in this folder; `arguments` are more options of `pulumi preview`.

    `variables` come on top of the environment. `meanwhile` is called while the engine starts.

    The whole plan is wanted, so protection is ignored here; the report says what is protected.

    Raises:
        CannotRunError: there is no `pulumi`.
        OtherFormatError: it says something else than this program reads.
    """
    command = [
        "pulumi",
        "preview",
        "--json",
        "--ignore-protect",
        "--non-interactive",
        "--color=never",
        "--stack",
        stack,
    ]
    with tempfile.TemporaryFile("w+", encoding="utf-8") as beside:
        try:
            process = subprocess.Popen(
                [*command, *arguments],
                env={**os.environ, **_VARIABLES, **(variables or {})},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=beside,
                text=True,
                encoding="utf-8",
                errors="replace",
            )
        except OSError as error:
            reason = f"`pulumi` can't be started ({error.strerror}); `make report` brings its own."
            raise CannotRunError(reason) from None
        with process:
            meanwhile()
            # Read as it comes: by the time the engine has ended, little is left to do.
            preview = events.read(process.stdout or ())
        beside.seek(0)
        said = [line for line in beside.read().splitlines() if line.strip()]
    return Ran(events.with_more(preview, said), process.returncode)


def project_name(folder: Path) -> str:
    """Return the project's name from its Pulumi.yaml. Raises CannotRunError."""
    file = folder / "Pulumi.yaml"
    try:
        name = text(table(yaml.safe_load(file.read_text(encoding="utf-8"))).get("name"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError):
        name = None
    if name is None:
        raise CannotRunError(f"{file} does not name a project; run this in the folder of a Pulumi program.")
    return name


def stack_file(folder: Path, stack: str) -> Mapping[str, object]:
    """Return what a stack's file holds. Raises CannotRunError."""
    file = folder / f"Pulumi.{stack}.yaml"
    try:
        return table(yaml.safe_load(file.read_text(encoding="utf-8")))
    except (OSError, UnicodeDecodeError, yaml.YAMLError):
        raise CannotRunError(f"{file} can't be read; the stack's file names its backend.") from None


def recorded(lines: Iterable[str], status: int) -> Ran:
    """Return a preview whose events were kept. Raises OtherFormatError."""
    return Ran(events.read(lines), status)
