"""The whole loop on a bare repository: branch, change, report, merge, deploy, a day of normal life, drift, repair.

Each step is taken in a clone of its own, as a workflow's job would, and only repository, state and cloud are shared.
"""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.harness import ROOT, Cloud, Json, Project, Result, execute, until

pytestmark = pytest.mark.integration

STACK = "loop"
POOLS, RULES = "/kubernetes/nodepools", "/networking/vpc-firewall-rules"
TEAM = "example.com/team"
SETTINGS: Json = {
    "nodePools": {
        "train": None,
        "system": {"nodeLabels": {TEAM: "platform"}},
        "elastic": {"type": "c1a.8x", "autoscaling": {"min": 1, "max": 4}},
    },
    "network": {"infiniband": None},
    "storage": None,
}


class Repository:
    """A bare repository with clones, a state that they share, and a cloud."""

    def __init__(self, folder: Path, cloud: Cloud) -> None:
        self.folder, self.cloud = folder, cloud
        self.bare, self.state = folder / "platform.git", folder / "state"
        self.state.mkdir()
        self.git(folder, "init", "--quiet", "--bare", "--initial-branch=main", str(self.bare))

    def git(self, where: Path, *words: str) -> str:
        identity = ("-c", "user.name=t", "-c", "user.email=t@example.com")
        done = execute(["git", *identity, *words], where, {"PATH": "/usr/bin:/bin", "HOME": str(self.folder)})
        assert done.code == 0, done.text
        return done.out

    def clone(self, name: str, branch: str = "main") -> Project:
        """A fresh clone, in which nothing has ever run."""
        place = self.folder / name
        self.git(self.folder, "clone", "--quiet", "--branch", branch, str(self.bare), str(place))
        return Project(place, self.cloud, STACK, {"PULUMI_BACKEND_URL": self.state.as_uri()})

    def commit(self, project: Project, message: str, branch: str) -> None:
        self.git(project.folder, "add", "__main__.py", "Pulumi.yaml", project.stack_file.name)
        self.git(project.folder, "commit", "--quiet", "--message", message)
        self.git(project.folder, "push", "--quiet", "origin", f"HEAD:{branch}")

    def fingerprint(self) -> str:
        """Everything that the backend holds."""
        digest = hashlib.sha256()
        for path in sorted(self.state.rglob("*.json")):
            digest.update(str(path).encode() + path.read_bytes())
        return digest.hexdigest()


def gitops(project: Project, command: str, *words: str) -> tuple[Result, dict[str, Any]]:
    """One of gitops' commands as `make` runs it, and the report that it wrote."""
    environment = {**project.environment(), "PYTHONPATH": str(ROOT)}
    out = project.folder / "out"
    line = [sys.executable, "-m", "gitops", command, "--stack", STACK, "--out", str(out), *words]
    told = execute(line, project.folder, environment)
    return told, json.loads((out / "report.json").read_text())


def deploy(project: Project) -> dict[str, Any]:
    """What `make deploy` does: a report, and an `up` that is held to its plan."""
    plan = project.folder / "plan.json"
    told, report = gitops(project, "report", "--save-plan", str(plan))
    assert told.code == 0, told.text
    project.pulumi("up", "--yes", "-s", STACK, f"--plan={plan}")
    return report


def test_a_change_goes_round_and_what_others_change_is_found_and_repaired(cloud: Cloud, folder: Path) -> None:
    place = folder / "loop"
    place.mkdir()
    repository = Repository(place, cloud)
    author = Project(place / "author", cloud, STACK, {"PULUMI_BACKEND_URL": repository.state.as_uri()})
    author.init()
    author.use_settings("dev", SETTINGS)
    repository.git(author.folder, "init", "--quiet", "--initial-branch=main")
    repository.git(author.folder, "remote", "add", "origin", str(repository.bare))
    repository.commit(author, "The platform", "main")
    deploy(repository.clone("first"))

    def pool(name: str) -> Json:
        return next(one for one in cloud.items(POOLS) if one["name"] == f"{STACK}-{name}")

    # A branch changes one number. Its report says so, and nothing has happened.
    repository.git(author.folder, "switch", "--quiet", "--create", "more")
    author.change_settings({"nodePools": {"system": {"count": 3}}})
    repository.commit(author, "A third node", "more")
    told, report = gitops(repository.clone("review", "more"), "report")
    assert told.code == 0, told.text
    [change] = report["changes"]
    assert (change["name"], [one["path"] for one in change["properties"]]) == ("platform-pools-system", ["count"])
    assert pool("system")["count"] == 2

    # Merged and deployed, it has.
    repository.git(author.folder, "switch", "--quiet", "main")
    repository.git(author.folder, "merge", "--quiet", "--no-ff", "--message", "Merge", "more")
    repository.git(author.folder, "push", "--quiet", "origin", "main")
    assert [one["name"] for one in deploy(repository.clone("second"))["changes"]] == ["platform-pools-system"]
    assert pool("system")["count"] == 3

    # What controllers do in a day is no drift: the autoscaler has its way, and every look renews the certificate.
    cloud.admin("PUT", f"/nodepools/{pool('elastic')['id']}/count", {"count": 3})
    until(lambda: len(pool("elastic")["instance_ids"]) == 3, 30, "the autoscaler's nodes")
    told, report = gitops(repository.clone("night"), "drift")
    assert (told.code, report["changes"]) == (0, []), told.text

    # One label by hand is one item, found with nothing but reads.
    cloud.api("PATCH", f"{POOLS}/{pool('system')['id']}", {"node_labels": {TEAM: "somebody-elses"}})
    before = repository.fingerprint()
    cloud.forget_requests()
    told, report = gitops(repository.clone("next-night"), "drift")
    assert told.code == 12, told.text
    [change] = report["changes"]
    [label] = change["properties"]
    assert change["name"] == "platform-pools-system"
    assert ("somebody-elses" in label["old"], "platform" in label["new"]) == (True, True)
    assert {one["method"] for one in cloud.requests()} == {"GET"}
    assert repository.fingerprint() == before

    # Repaired from a fresh clone as the report says: `make up ARGS=--refresh`.
    assert f"`make up STACK={STACK} ARGS=--refresh`" in told.out
    repository.clone("repair").up("--refresh")
    assert pool("system")["node_labels"][TEAM] == "platform"
    assert pool("elastic")["count"] == 3
    last = repository.clone("last")
    assert gitops(last, "drift")[0].code == 0
    last.destroy()
