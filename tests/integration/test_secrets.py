"""No key and no kubeconfig in clear: not in state, previews, logs, event logs, outputs or errors (also encoded)."""

from __future__ import annotations

import base64
import json
import re
import signal
import threading
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
import pytest
import yaml

from tests.harness import Project, until
from tests.integration.conftest import NewProject
from tests.processes import command_line

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


def plugins(cli: int) -> list[psutil.Process]:
    """The crusoe plugins that a CLI has started."""
    with suppress(psutil.NoSuchProcess):
        started = psutil.Process(cli).children(recursive=True)
        return [each for each in started if any(part.endswith("crusoe/provider") for part in command_line(each))]
    return []


@contextmanager
def faults_dumped(project: Project) -> Generator[None]:
    """Every Python that is started tells where all its threads are when it crashes."""
    before = project.variables
    project.variables = {**before, "PYTHONFAULTHANDLER": "1"}
    try:
        yield
    finally:
        project.variables = before


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


def canaries(project: Project) -> dict[str, str]:
    """Secrets of a stack that is up, by name."""
    kubeconfig = yaml.safe_load(project.outputs("--show-secrets")["kubeconfig"])
    user = kubeconfig["users"][0]["user"]
    key = base64.b64decode(user["client-key-data"]).decode()
    return {
        "API key": project.cloud.credentials()["CRUSOE_SECRET_KEY"],
        "client key as data": user["client-key-data"],
        "client key": key.splitlines()[1],
    }


def found(
    planted: Mapping[str, str], more: Mapping[str, str], texts: Iterable[str], project: Project
) -> list[tuple[str, str]]:
    """Which secrets stand where: in what was said, in a file of the stack, or in something more."""
    places = {f"output {number}": text for number, text in enumerate(texts)}
    places |= {str(path): text for path, text in written(project.folder).items()} | dict(more)
    return [
        (name, place)
        for name, secret in planted.items()
        for place, text in places.items()
        if any(form in text for form in forms(secret))
    ]


def test_no_secret_is_ever_written_in_clear(project: Project) -> None:
    with arguments() as command_lines:
        texts = everything_said(project)
    planted = canaries(project)
    assert found(planted, {"process list": "\n".join(command_lines)}, texts, project) == []
    assert any("wholeCluster" in text for text in texts)
    assert any("pulumi-resource-kubernetes" in line for line in command_lines)


def test_no_secret_is_in_the_last_words_of_what_crashes(project: Project) -> None:
    """The program, and then the plugin in the middle of its work, each with every log that it can have."""
    planted = canaries(project)
    entry = project.folder / "__main__.py"
    whole = entry.read_text()
    try:
        entry.write_text(f"{whole}\nraise RuntimeError('the program ends here')\n")
        ended_early = project.up("-v=9", "--logtostderr", check=False)
    finally:
        entry.write_text(whole)
    assert ended_early.code != 0
    assert "the program ends here" in ended_early.text
    project.change_settings({"nodePools": {"system": {"count": 3}}})
    project.cloud.fault("PATCH .../nodepools/*", "slow", seconds=30, times=1)
    said = project.folder / "crash.log"
    with said.open("w") as log, faults_dumped(project):
        command = ("up", "--yes", "--skip-preview", "-s", project.stack, "-v=9", "--logtostderr")
        process = project.start(*command, output=log)
    try:
        until(lambda: "pending_operations" in project.exported()["deployment"], 60, "the change of the pool")
        for plugin in plugins(process.pid):
            plugin.send_signal(signal.SIGABRT)
        assert process.wait(120) != 0
    finally:
        process.kill()
        process.wait()
    assert "Fatal Python error: Aborted" in said.read_text()
    assert found(planted, {}, [ended_early.text], project) == []
    project.pulumi("refresh", "--clear-pending-creates", "--yes", "--skip-preview", "-s", project.stack)
    project.up()


def test_files_with_secrets_are_their_owners_alone(project: Project) -> None:
    state = project.cloud.state
    secret = project.cloud.credentials()["CRUSOE_SECRET_KEY"]
    # A key itself, not a program that knows what one looks like.
    private_key = re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----\n[A-Za-z0-9+/=\n]{64}")
    holders = [path for path, text in written(state).items() if secret in text or private_key.search(text)]
    assert holders
    assert [str(path) for path in holders if path.stat().st_mode & 0o077] == []
