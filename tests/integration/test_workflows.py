"""The workflows: what they may do, and their shell steps against a stand-in for `gh` that keeps comments and issues."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from gitops import markdown
from tests.harness import ROOT

pytestmark = pytest.mark.integration

WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))
BOT, PERSON = "github-actions[bot]", "ada"

GH = """
import json, subprocess, sys
from pathlib import Path

store = Path(__file__).with_name("store.json")
items = json.loads(store.read_text())
words, options, fields, place = sys.argv[2:], {}, {}, None
while words:
    word = words.pop(0)
    if word in ("--method", "--jq"):
        options[word] = words.pop(0)
    elif word in ("--field", "--raw-field"):
        name, value = words.pop(0).split("=", 1)
        fields[name] = Path(value[1:]).read_text() if word == "--field" and value.startswith("@") else value
    elif word not in ("--paginate", "--silent"):
        place = word
match options.get("--method", "GET"):
    case "POST":
        items.append({"id": len(items) + 1, "number": len(items) + 1, "state": "open",
                      "user": {"login": "github-actions[bot]"}, "pull_request": None, **fields})
    case "PATCH":
        next(one for one in items if str(one["id"]) == place.rsplit("/", 1)[1]).update(fields)
    case "GET":
        shown = [one for one in items if one.get("state", "open") == "open"]
        given = json.dumps(shown)
        print(subprocess.run(["jq", "-r", options["--jq"]], input=given, text=True, check=True, stdout=-1).stdout)
store.write_text(json.dumps(items))
"""


def jobs(path: Path) -> dict[str, Any]:
    return yaml.safe_load(path.read_text())["jobs"]


def steps() -> Iterator[tuple[str, dict[str, Any]]]:
    for path in WORKFLOWS:
        for name, job in jobs(path).items():
            for step in job["steps"]:
                yield f"{path.name}/{name}", step


def step(workflow: str, name: str) -> str:
    """The shell text of a step."""
    return next(one["run"] for place, one in steps() if place.startswith(workflow) and one.get("name") == name)


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_rights_are_given_one_by_one(path: Path) -> None:
    content = yaml.safe_load(path.read_text())
    assert content["permissions"] == {}
    # YAML 1.1 reads the key `on` as true.
    assert "pull_request_target" not in content[True]
    for job in content["jobs"].values():
        assert {"permissions", "timeout-minutes"} <= job.keys()
        writes = {right for right, access in job["permissions"].items() if access == "write"}
        runs_code = any("checkout" in one.get("uses", "") for one in job["steps"])
        assert not (writes and runs_code), "what may write runs no code of a branch"
        assert writes <= {"pull-requests", "issues"}


def test_actions_are_pinned_by_commit_and_keep_no_token() -> None:
    text = "\n".join(path.read_text() for path in WORKFLOWS)
    used = re.findall(r"uses: (.*)", text)
    assert used
    assert all(re.fullmatch(r"actions/[a-z-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", one) for one in used), used
    assert all(one["with"]["persist-credentials"] is False for _, one in steps() if "checkout" in one.get("uses", ""))


def test_no_text_of_a_pull_request_gets_into_a_shell() -> None:
    assert [place for place, one in steps() if "${{" in one.get("run", "")] == []


def test_secrets_reach_only_steps_with_an_environment() -> None:
    for path in WORKFLOWS:
        for name, job in jobs(path).items():
            assert ("secrets." in json.dumps(job)) == ("environment" in job), f"{path.name}/{name}"


@dataclass
class Desk:
    """A folder with reports, and a stand-in for GitHub."""

    folder: Path

    def store(self, items: list[dict[str, Any]]) -> None:
        (self.folder / "bin/store.json").write_text(json.dumps(items))

    @property
    def items(self) -> list[dict[str, Any]]:
        return json.loads((self.folder / "bin/store.json").read_text())

    def report(self, project: str, stack: str, text: str, outcome: str = "safe") -> None:
        place = self.folder / "reports" / f"report-{project}-{stack}"
        place.mkdir(parents=True, exist_ok=True)
        (place / "report.md").write_text(f"{markdown.marker(project, stack)}\n\n{text}\n")
        told = {"project": project, "stack": stack, "verdict": {"outcome": outcome}}
        (place / "report.json").write_text(json.dumps(told))

    def run(self, script: str, **environ: str) -> subprocess.CompletedProcess[str]:
        # As a runner does it where no shell is named.
        return subprocess.run(
            ["bash", "-e", "-c", script],
            cwd=self.folder,
            env={"PATH": f"{self.folder / 'bin'}:{os.environ['PATH']}", **environ},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    if shutil.which("jq") is None:
        pytest.skip("jq is not installed; GitHub's runners have it")
    (tmp_path / "bin").mkdir()
    gh = tmp_path / "bin/gh"
    gh.write_text(f"#!/usr/bin/env python3\n{GH}")
    gh.chmod(0o755)
    made = Desk(tmp_path)
    made.store([])
    return made


COMMENTS = {"COMMENTS": "repos/o/r/issues/7/comments", "REPOSITORY": "repos/o/r"}


def test_each_project_and_stack_has_one_comment_that_is_updated(desk: Desk) -> None:
    script = step("preview.yml", "Write or update the comments")
    human = {"id": 1, "user": {"login": PERSON}, "body": f"{markdown.marker('a', 'prod')}\nmine"}
    desk.store([human])
    stacks = [("a", "prod"), ("b", "prod"), *(("a", f"stack-{number}") for number in range(6))]
    for turn in ("first", "second"):
        for project, stack in stacks:
            desk.report(project, stack, f"{turn} of {project}/{stack} é 💥 $(id) `x`")
        assert (done := desk.run(script, **COMMENTS)).returncode == 0, done.stderr
    assert desk.items[0] == human
    bodies = [one["body"] for one in desk.items[1:]]
    assert len(bodies) == len(stacks)
    assert all("second of" in body and "$(id) `x`" in body for body in bodies)
    assert {body.splitlines()[0] for body in bodies} == {markdown.marker(*each) for each in stacks}


def test_what_is_no_report_is_not_posted(desk: Desk) -> None:
    desk.report("a", "prod", "text")
    (desk.folder / "reports/report-a-prod/report.md").write_text("# something else\n")
    assert desk.run(step("preview.yml", "Write or update the comments"), **COMMENTS).returncode != 0
    assert desk.items == []


def test_drift_is_one_issue_that_is_closed_when_the_check_is_clean(desk: Desk) -> None:
    script = step("drift.yml", "Open, update or close the issues")

    def check(outcome: str, text: str) -> list[tuple[str, str, str]]:
        desk.report("a", "prod", text, outcome)
        done = desk.run(script, ISSUES="repos/o/r/issues")
        assert done.returncode == 0, done.stderr
        return [(one["title"], one["state"], one["body"].split()[-1]) for one in desk.items]

    assert check("safe", "clean") == []
    assert check("drift", "one") == [("Drift: a/prod", "open", "one")]
    assert check("drift", "two") == [("Drift: a/prod", "open", "two")]
    assert check("preview-failed", "three") == [("Drift: a/prod", "open", "two")], (
        "nothing is known, so nothing changes"
    )
    assert check("safe", "four") == [("Drift: a/prod", "closed", "two")]
    assert check("drift", "five")[-1] == ("Drift: a/prod", "open", "five")


@pytest.mark.parametrize(
    ("status", "outcome", "green"),
    [(0, "safe", True), (2, "drift", True), (2, "preview-failed", False), (2, None, False)],
)
def test_only_a_drift_check_that_failed_is_red(desk: Desk, status: int, outcome: str | None, green: bool) -> None:
    make = desk.folder / "bin/make"
    make.write_text(f"#!/bin/sh\nexit {status}\n")
    make.chmod(0o755)
    if outcome:
        place = desk.folder / ".local/reports/prod"
        place.mkdir(parents=True)
        (place / "report.json").write_text(json.dumps({"verdict": {"outcome": outcome}}))
    assert (desk.run(step("drift.yml", "Check"), STACK="prod").returncode == 0) is green


def test_labels_of_what_was_merged_are_handed_on(desk: Desk) -> None:
    desk.store([{"labels": [{"name": "approve-loss-0123"}, {"name": "$(touch x); `y`"}]}])
    output = desk.folder / "output"
    done = desk.run(
        step("deploy.yml", "Read the labels of what was merged"), PULLS="repos/o/r/pulls", GITHUB_OUTPUT=str(output)
    )
    assert done.returncode == 0, done.stderr
    assert output.read_text() == "labels=approve-loss-0123,$(touch x); `y`\n"
    assert not (desk.folder / "x").exists()


@pytest.mark.parametrize("tool", [["actionlint"], ["zizmor", "--offline", "--quiet"]], ids=lambda tool: tool[0])
def test_linters_of_workflows_find_nothing(tool: list[str]) -> None:
    if shutil.which(tool[0]) is None:
        pytest.skip(f"{tool[0]} is not on PATH: `make test` puts it there")
    done = subprocess.run([*tool, *map(str, WORKFLOWS)], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
