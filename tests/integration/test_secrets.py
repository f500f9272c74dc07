"""No key and no kubeconfig in clear: not in state, previews, logs, event logs, outputs or errors (also encoded)."""

from __future__ import annotations

import base64
import json
import re
import threading
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
import yaml

from tests.harness import Project
from tests.integration.conftest import NewProject

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def project(new_project: NewProject) -> Generator[Project]:
    """A small stack that also exports whole resources and a whole component, as careless programs do."""
    project = new_project("canary")
    project.use_settings("dev", {"nodePools": {"train": None}, "network": {"infiniband": None}})
    project.variables = {"PULUMI_DEBUG_COMMANDS": "true"}  # makes the CLI take --event-log
    entry = project.folder / "__main__.py"
    entry.write_text(
        entry.read_text()
        + "pulumi.export('wholeComponent', platform)\n"
        + "pulumi.export('wholeCluster', platform.cluster.cluster)\n"
        + "pulumi.export('wholeProvider', platform.cluster.kubernetes)\n"
    )
    yield project
    project.destroy()


def forms(secret: str) -> set[str]:
    """A secret as it may be written: plain, JSON-escaped once or twice, and base64 in each alignment."""
    escaped = json.dumps(secret)[1:-1]
    encoded = {
        base64.b64encode(b"x" * shift + secret.encode()).decode()[4 if shift else 0 : -4].strip("=")
        for shift in range(3)
    }
    return {secret, escaped, json.dumps(escaped)[1:-1], *encoded}


def written(folder: Path) -> dict[Path, str]:
    """Every file that a run left in a folder, as text."""
    return {path: path.read_bytes().decode(errors="replace") for path in folder.rglob("*") if path.is_file()}


@contextmanager
def arguments() -> Generator[set[str]]:
    """The command lines of all processes that are seen meanwhile, as anybody on the machine sees them."""
    seen: set[str] = set()
    done = threading.Event()

    def look() -> None:
        while not done.wait(0.02):
            for process in Path("/proc").glob("[0-9]*"):
                with suppress(OSError):
                    seen.add((process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace"))

    looking = threading.Thread(target=look)
    looking.start()
    try:
        yield seen
    finally:
        done.set()
        looking.join()


def everything_said(project: Project) -> list[str]:
    """What a life of the stack prints, at the highest level of its logs too."""
    events = project.folder / "events.json"
    return [
        project.pulumi("preview", "--diff", "-s", project.stack).text,
        project.pulumi("preview", "--json", "-s", project.stack).text,
        project.up("--event-log", str(events), "-v=9", "--logtostderr").text,
        project.pulumi("preview", "--diff", "-s", project.stack).text,
        project.pulumi("preview", "--json", "--refresh", "-s", project.stack).text,
        project.pulumi("refresh", "--yes", "--skip-preview", "-s", project.stack).text,
        project.pulumi("stack", "export", "-s", project.stack).text,
        project.pulumi("stack", "output", "--json", "-s", project.stack).text,
    ]


def test_no_secret_is_ever_written_in_clear(project: Project) -> None:
    with arguments() as command_lines:
        texts = everything_said(project)
    kubeconfig = yaml.safe_load(project.outputs("--show-secrets")["kubeconfig"])
    user = kubeconfig["users"][0]["user"]
    key = base64.b64decode(user["client-key-data"]).decode()
    canaries = {
        "API key": project.cloud.credentials()["CRUSOE_SECRET_KEY"],
        "client key as data": user["client-key-data"],
        "client key": key.splitlines()[1],
    }
    places = {Path(f"output {number}"): text for number, text in enumerate(texts)} | written(project.folder)
    places[Path("process list")] = "\n".join(command_lines)
    found = [
        (name, str(path))
        for name, secret in canaries.items()
        for path, text in places.items()
        if any(form in text for form in forms(secret))
    ]
    assert found == []
    assert any("wholeCluster" in text for text in texts)
    assert any("pulumi-resource-kubernetes" in line for line in command_lines)


def test_files_with_secrets_are_their_owners_alone(project: Project) -> None:
    state = project.cloud.state
    secret = project.cloud.credentials()["CRUSOE_SECRET_KEY"]
    # A key itself, not a program that knows what one looks like.
    private_key = re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----\n[A-Za-z0-9+/=\n]{64}")
    holders = [path for path, text in written(state).items() if secret in text or private_key.search(text)]
    assert holders
    assert [str(path) for path in holders if path.stat().st_mode & 0o077] == []
