"""What is looked up among known vulnerabilities, when that counts, and what the bill of materials lists."""

from __future__ import annotations

import json
import re
import socketserver
import tomllib
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import unquote

import pytest

from components.gpu_sharing import kueue
from components.observability import stack
from components.slurm import charts
from tools.errors import ToolError
from tools.front_door import checks, rules
from tools.front_door.environment import FrontDoorError
from tools.front_door.session import Session
from tools.places import ROOT
from tools.releases import load
from tools.supply_chain import bill_of_materials, vulnerabilities


@contextmanager
def answering(body: bytes | None, status: int = 200) -> Generator[str]:
    """A server that gives one answer, or none at all; gives its address."""

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if body is None:
                self.rfile.read(1)
                return
            self.send_response(status)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
            pass

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Answer) as server:
        server.daemon_threads = True
        Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}/pypi/pip/24.0/json"
        server.shutdown()


def test_only_a_list_of_vulnerabilities_is_a_database() -> None:
    with answering(b'{"vulnerabilities": []}') as url:
        assert vulnerabilities.reachable(url)
    for body, status in ((b'{"info": {}}', 200), (b"<html>", 200), (b"[]", 200), (b'{"vulnerabilities": []}', 404)):
        with answering(body, status) as url:
            assert not vulnerabilities.reachable(url), body
    with answering(None) as url:
        assert not vulnerabilities.reachable(url, 0.1)
    assert not vulnerabilities.reachable("http://127.0.0.1:9/")


def test_the_database_is_asked_before_the_packages() -> None:
    found = ("-c", "raise SystemExit(1)")
    with answering(b'{"vulnerabilities": []}') as url:
        assert vulnerabilities.audit({}, database=url, command=found) == 1
        assert vulnerabilities.audit({}, database=url, command=("-c", "")) == 0
    assert vulnerabilities.audit({}, database="http://127.0.0.1:9/", command=found) is None


def test_a_package_that_the_database_does_not_know_is_no_pass() -> None:
    assert "--strict" in vulnerabilities.COMMAND
    assert str(ROOT / "requirements" / "dev.lock") in vulnerabilities.COMMAND


@pytest.mark.parametrize(("status", "result", "said"), [(None, 0, "were not looked up"), (0, 0, ""), (1, 1, "known")])
def test_lint_fails_on_what_is_known_and_says_when_nobody_knows(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], status: int | None, result: int, said: str
) -> None:
    def audited(_environ: object) -> int | None:
        return status

    def passed(*_: object, **__: object) -> int:
        return 0

    def nothing(_: Path) -> list[str]:
        return []

    monkeypatch.setattr(vulnerabilities, "audit", audited)
    monkeypatch.setattr(checks, "run", passed)
    monkeypatch.setattr(rules, "problems", nothing)
    assert checks.lint(Session("dev", (), "")) == result
    assert said in "".join(capsys.readouterr())


def test_an_audit_that_can_not_be_made_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(_environ: object) -> None:
        return None

    monkeypatch.setattr(vulnerabilities, "audit", unknown)
    with pytest.raises(FrontDoorError, match=r"pypi\.org"):
        checks.audit(Session("dev", (), ""))


@pytest.fixture(scope="module")
def bill() -> dict[str, Any]:
    return json.loads(bill_of_materials.written(bill_of_materials.parts()))


def listed(bill: dict[str, Any], kind: str, scope: str | None = None) -> set[str]:
    """`name@version` of each component of a kind."""
    return {
        unquote(component["purl"].removeprefix(f"pkg:{kind}/").partition("?")[0])
        for component in bill["components"]
        if component["purl"].startswith(f"pkg:{kind}/") and scope in (None, component["scope"])
    }


def test_the_bill_has_every_package_of_the_locks(bill: dict[str, Any]) -> None:
    assert bill["bomFormat"] == "CycloneDX"
    assert bill["specVersion"] == "1.6"
    for name, scope in (("dev.lock", None), ("runtime.lock", "required")):
        # Some packages are pinned twice, at one version for each version of Python.
        pins = re.findall(r"^(\S+)==(\S+)", (ROOT / "requirements" / name).read_text(), re.M)
        assert {f"{package}@{version}" for package, version in pins} == listed(bill, "pypi", scope)


def test_the_bill_has_every_tool_and_what_it_would_be_built_from(bill: dict[str, Any]) -> None:
    assert {f"{release.name}@{release.version}" for release in load()} == listed(bill, "generic")
    modules = listed(bill, "golang")
    for file in (ROOT / "tools" / "go").glob("*/go.mod"):
        direct = re.findall(r"^require (\S+) (\S+)$", file.read_text(), re.M)
        assert {f"{name}@{version}" for name, version in direct} <= {one.lower() for one in modules}


def test_the_bill_has_the_folders_the_charts_and_the_actions(bill: dict[str, Any]) -> None:
    by_name = {component["purl"].partition("?")[0]: component for component in bill["components"]}
    for version, lock in (("26.05.", "slurm-amd64.lock"), ("24.11.", "upgrade-amd64.lock")):
        start = f"pkg:deb/debian/slurmctld@{version}"
        slurm = next(component for url, component in by_name.items() if url.startswith(start))
        digest = slurm["hashes"][0]["content"]
        assert f"{digest} " in (ROOT / "tools" / "slurm_root" / lock).read_text()
    assert by_name[f"pkg:helm/slurm-operator@{charts.SLINKY}"]["scope"] == "required"
    assert f"pkg:helm/cert-manager@{charts.CERT_MANAGER.removeprefix('v')}" in by_name
    assert f"pkg:helm/kueue@{kueue.VERSION}" in by_name
    assert f"pkg:helm/kube-prometheus-stack@{stack.VERSION}" in by_name
    workflows = "".join(file.read_text() for file in (ROOT / ".github" / "workflows").glob("*.yml"))
    assert set(re.findall(r"uses: ([\w.-]+/[\w.-]+@[0-9a-f]{40})", workflows)) == listed(bill, "github")


def test_the_bill_is_of_this_version_and_depends_on_all_of_it(bill: dict[str, Any]) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    whole = bill["metadata"]["component"]
    assert (whole["name"], whole["version"]) == (project["name"], project["version"])
    (root,) = [entry for entry in bill["dependencies"] if entry["ref"] == whole["bom-ref"]]
    assert set(root["dependsOn"]) == {component["bom-ref"] for component in bill["components"]}


def test_a_bill_that_can_not_be_written_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ToolError, match=r"can't be written .*name another file"):
        bill_of_materials.write(tmp_path / "file" / "sbom.json")
    assert "components" in bill_of_materials.write(tmp_path / "new" / "sbom.json")
