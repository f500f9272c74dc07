"""A project of the harness with a program of a test's own, which a file of JSON beside it tells what to declare."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from tests.harness import Cloud, Json, Project, until
from tools.front_door import recovery

WANTED = "wanted.json"
PROGRAM = '''"""Declares what wanted.json says: kinds of the provider with their inputs, none standing on another."""

import json
from pathlib import Path

import pulumi

from crusoe import resources as crusoe

wanted = json.loads((Path(__file__).parent / "wanted.json").read_text())
provider = crusoe.Provider("cloud", endpoint=wanted["endpoint"], project="local")
timeouts = pulumi.CustomTimeouts(**{name: wanted["timeout"] for name in ("create", "update", "delete")})
for one in wanted["resources"]:
    options = pulumi.ResourceOptions(provider=provider, custom_timeouts=timeouts)
    getattr(crusoe, one["kind"])(one["name"], opts=options, **one["inputs"])
'''


class SmallStack:
    """A stack of the kinds that it is told, on a cloud."""

    def __init__(self, folder: Path, cloud: Cloud, name: str) -> None:
        self.project = Project(folder / "project", cloud, name)
        self.name = name
        content: Json = yaml.safe_load((self.project.folder / "Pulumi.yaml").read_text())
        kept = {key: content[key] for key in ("runtime", "plugins")}
        (self.project.folder / "Pulumi.yaml").write_text(yaml.safe_dump({"name": name, **kept}))
        (self.project.folder / "__main__.py").write_text(PROGRAM)
        self.want([])
        self.project.init()

    def want(self, resources: Sequence[Mapping[str, Any]], timeout: str = "10m") -> None:
        """Write what the program declares from now on: kind, logical name and inputs of each."""
        wanted = {"endpoint": self.project.cloud.endpoint, "timeout": timeout, "resources": resources}
        (self.project.folder / WANTED).write_text(json.dumps(wanted))

    def arguments(self, verb: str) -> list[str]:
        """`up` or `destroy` without questions."""
        return [verb, "--yes", "--skip-preview", "--suppress-outputs", "--stack", self.name]

    @property
    def backend(self) -> Path:
        """Where its state is kept."""
        return self.project.folder / "backend"

    def recorded(self) -> list[Json]:
        """The resources in state. Raises AssertionError when an operation is pending."""
        file = recovery.checkpoint(self.backend, self.name, self.name)
        latest: Json = json.loads(file.read_text())["checkpoint"].get("latest") or {}
        assert not latest.get("pending_operations"), latest["pending_operations"]
        return latest.get("resources") or []

    def clear(self) -> tuple[bool, tuple[str, ...]]:
        """Clear what a killed run left, as `make up` does on the stack `dev`: whether a lock, and which creates."""
        place = (self.backend, self.name, self.name)
        held = recovery.locks(*place)
        until(lambda: all(lock.is_dead for lock in held), 5, f"the end of what was killed: {held}")
        recovery.mend(*place)
        if held:
            self.project.pulumi("cancel", "--yes", "--stack", self.name)
        pending = tuple(recovery.spoken(urn) for urn in recovery.pending_creates(*place))
        if pending:
            options = ("--clear-pending-creates", "--yes", "--skip-preview", "--suppress-outputs")
            self.project.pulumi("refresh", *options, "--stack", self.name)
        return bool(held), pending
