"""Runbooks as a person follows them: the settings and commands of a page, in their order, in one shell."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast

import yaml

from tests.harness import COMMAND_SECONDS, ROOT, VIRTUALENV, Project, Result, execute

FOLDER = ROOT / "docs" / "runbooks"

_BLOCK = re.compile(r"^( *)```(sh|yaml)\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Block:
    """A block of a page: `sh` is run, `yaml` is laid over the stack's settings."""

    kind: str
    text: str


def blocks(page: str) -> list[Block]:
    """All blocks of a page, without the indentation of the step that they belong to."""
    text = (FOLDER / page).read_text(encoding="utf-8")
    return [
        Block(kind, re.sub(f"^{indent}", "", body, flags=re.MULTILINE)) for indent, kind, body in _BLOCK.findall(text)
    ]


@dataclass
class Shell:
    """A shell in a project's folder, prepared as the runbooks' first page says; what is exported in it stays."""

    project: Project
    exported: dict[str, str] = field(default_factory=dict[str, str])

    def environment(self) -> dict[str, str]:
        """What a command finds."""
        prepared = self.project.environment()
        prepared |= {"PATH": f"{VIRTUALENV / 'bin'}:{prepared['PATH']}", "PYTHONPATH": str(ROOT)}
        return {**prepared, "STACK": self.project.stack, **self.exported}

    def follow(self, *steps: Block) -> Result:
        """Takes steps, each of which has to succeed; the last command's result."""
        result = Result(0, "", "")
        for step in steps:
            if step.kind == "yaml":
                self.project.change_settings(cast("Mapping[str, Any]", yaml.safe_load(step.text))["platform"])
            else:
                result = self.run(step.text)
                assert result.code == 0, f"{step.text}\n{result.text}"
        return result

    def run(self, lines: str) -> Result:
        """Runs lines as they stand, until the first that fails."""
        kept = self.project.folder / "exported"
        script = f"set -euo pipefail\n{lines}\nenv -0 > {kept}\n"
        result = execute(["bash", "-c", script], self.project.folder, self.environment(), COMMAND_SECONDS)
        if result.code == 0:
            after = dict(entry.split("=", 1) for entry in kept.read_text().split("\0") if "=" in entry)
            kept.unlink()
            before = self.environment()
            changed = {name: value for name, value in after.items() if before.get(name) != value}
            self.exported |= {name: changed[name] for name in changed.keys() - {"_", "SHLVL", "PWD", "OLDPWD"}}
        return result
