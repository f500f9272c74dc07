"""Reports and drift checks of a test's project, as a user's shell would make them."""

from __future__ import annotations

import json
import sys

from tests.harness import ROOT, Json, Project, Result, execute


def gitops(project: Project, *arguments: str, **environ: str) -> Result:
    """`python -m gitops` in a project's folder."""
    environment = {**project.environment(), "PYTHONPATH": str(ROOT), **environ}
    return execute([sys.executable, "-m", "gitops", *arguments], project.folder, environment)


def report(project: Project, *arguments: str, **environ: str) -> Result:
    """What an `up` would change, written to the folder `out`."""
    out = str(project.folder / "out")
    return gitops(project, "report", "--stack", project.stack, "--out", out, *arguments, **environ)


def drift(project: Project) -> Result:
    """What differs in the cloud from the program, written to the folder `out`."""
    return gitops(project, "drift", "--stack", project.stack, "--out", str(project.folder / "out"))


def content(project: Project) -> Json:
    """The last report."""
    return json.loads((project.folder / "out/report.json").read_text())


def outcome(project: Project) -> str:
    """The last report's verdict."""
    return content(project)["verdict"]["outcome"]
