"""Alerts through the real Alertmanager, with the configuration that settings give, to receivers that behave and not."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from components.observability.alertmanager import config
from components.observability.settings import ObservabilitySettings
from components.settings import parse
from tests.harness import ROOT, free_port
from tools.errors import ToolMissingError
from tools.toolchain import binary

START_SECONDS = 20.0


def tool(name: str) -> Path:
    """One of the monitoring tools; where it is not there the test says what gets it."""
    try:
        return binary(name)
    except ToolMissingError as error:
        pytest.skip(str(error))


@dataclass
class Receiver:
    """A webhook receiver: what came, by path; `/hang` never answers, `/refuse` says no."""

    port: int = 0
    got: dict[str, list[dict[str, Any]]] = field(default_factory=dict[str, list[dict[str, Any]]])
    released: threading.Event = field(default_factory=threading.Event)

    def url(self, path: str) -> str:
        return f"http://127.0.0.1:{self.port}/{path}"

    def alerts(self, path: str) -> list[str]:
        """Names of the alerts that came, in order."""
        return [alert["labels"]["alertname"] for body in self.got.get(path, []) for alert in body["alerts"]]


@pytest.fixture
def receiver() -> Generator[Receiver]:
    here = Receiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            path = self.path.strip("/")
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            if path == "hang":
                here.released.wait(60)
                return
            here.got.setdefault(path, []).append(body)
            self.send_response(403 if path == "refuse" else 200)
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:
            """Quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    here.port = server.server_address[1]
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield here
    here.released.set()
    server.shutdown()
    server.server_close()


@contextmanager
def alertmanager(folder: Path, settings: Mapping[str, Any], secrets: Mapping[str, str]) -> Generator[str]:
    """The real Alertmanager with the configuration of these settings; its address."""
    for name, value in secrets.items():
        (folder / "secrets").mkdir(exist_ok=True)
        (folder / "secrets" / name).write_text(value)
    parsed = parse(ObservabilitySettings, settings, "platform.observability")
    (folder / "alertmanager.json").write_text(json.dumps(config(parsed, str(folder / "secrets"))))
    checked = subprocess.run(
        [tool("amtool"), "check-config", folder / "alertmanager.json"],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert checked.returncode == 0, checked.stderr
    url = f"http://127.0.0.1:{free_port()}"
    command = [
        str(tool("alertmanager")),
        f"--config.file={folder / 'alertmanager.json'}",
        f"--storage.path={folder / 'data'}",
        f"--web.listen-address={url.removeprefix('http://')}",
        "--cluster.listen-address=",
        "--enable-feature=receiver-name-in-metrics",
    ]
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
        try:
            _wait(f"{url}/-/ready", process, folder / "log")
            yield url
        finally:
            process.terminate()
            process.wait()


def _wait(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while True:
        assert process.poll() is None, log.read_text()
        try:
            with urllib.request.urlopen(url, timeout=2):
                return
        except OSError:
            assert time.monotonic() < deadline, f"{url} did not answer"
            time.sleep(0.1)


def try_alert(url: str, routes: Mapping[str, str], seconds: float = 20) -> subprocess.CompletedProcess[str]:
    """What `make test-alert` runs."""
    outputs = {"observability": {"stack": "own", "service": "s", "namespace": "n", "port": 9093, "routes": routes}}
    return subprocess.run(
        [
            sys.executable,
            "-m",
            "components.observability.alert_command",
            "--kubectl=kubectl",
            f"--alertmanager={url}",
            f"--seconds={seconds}",
        ],
        cwd=ROOT,
        input=json.dumps(outputs),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def webhooks(*names: str) -> dict[str, Any]:
    return {"routes": {name: {"kind": "webhook", "secret": name} for name in names}}


def test_a_test_alert_arrives_on_every_route_each_time(tmp_path: Path, receiver: Receiver) -> None:
    secrets = {"one": receiver.url("one"), "two": receiver.url("two")}
    with alertmanager(tmp_path, webhooks("one", "two"), secrets) as url:
        for count in (1, 2):
            tried = try_alert(url, {"one": "webhook", "two": "webhook"})
            assert tried.returncode == 0, tried.stdout + tried.stderr
            assert tried.stdout.count("accepted after") == 2
            assert receiver.alerts("one") == receiver.alerts("two") == ["TestAlert"] * count


BAD = {
    "empty": "",
    "blank": "\n",
    "no URL": "not a URL",
    "nobody there": "http://127.0.0.1:9/x",
}


@pytest.mark.parametrize("value", BAD.values(), ids=[*BAD])
def test_one_bad_receiver_is_named_and_the_other_still_delivers(tmp_path: Path, receiver: Receiver, value: str) -> None:
    settings = webhooks("good")
    settings["routes"]["bad"] = {"kind": "slack", "secret": "bad", "channel": "#x"}
    with alertmanager(tmp_path, settings, {"good": receiver.url("good"), "bad": value}) as url:
        tried = try_alert(url, {"good": "webhook", "bad": "slack"}, seconds=5)
    assert tried.returncode == 1
    assert "Not delivered: bad." in tried.stdout
    assert receiver.alerts("good") == ["TestAlert"]


def test_a_secret_that_ends_in_a_line_break_still_delivers(tmp_path: Path, receiver: Receiver) -> None:
    with alertmanager(tmp_path, webhooks("good"), {"good": receiver.url("good") + "\n"}) as url:
        tried = try_alert(url, {"good": "webhook"})
    assert tried.returncode == 0, tried.stdout


def test_a_receiver_that_hangs_or_refuses_is_reported_in_bounded_time(tmp_path: Path, receiver: Receiver) -> None:
    names = ("good", "hang", "refuse")
    secrets = {name: receiver.url(name) for name in names}
    with alertmanager(tmp_path, webhooks(*names), secrets) as url:
        tried = try_alert(url, dict.fromkeys(names, "webhook"), seconds=20)
    lines = {line.split()[1]: line for line in tried.stdout.splitlines() if line.startswith(("ok", "NOT"))}
    assert tried.returncode == 1
    assert "accepted after" in lines["good"]
    assert "no answer within 10 s" in lines["hang"]
    assert "refused" in lines["refuse"]
    assert receiver.alerts("good") == ["TestAlert"]


def test_severities_go_where_they_are_to_go_and_the_heartbeat_alone_to_its_own(
    tmp_path: Path, receiver: Receiver
) -> None:
    settings = webhooks("pages", "all")
    settings["routes"]["pages"]["severities"] = ["page"]
    settings["heartbeat"] = {"secret": "heartbeat"}
    secrets = {name: receiver.url(name) for name in ("pages", "all", "heartbeat")}
    with alertmanager(tmp_path, settings, secrets) as url:
        tree = tmp_path / "alertmanager.json"
        for severity, name, receivers in (
            ("page", "RepairStuck", "pages,all"),
            ("ticket", "GpuLost", "all"),
            ("info", "RepairStarted", "nobody"),
            ("heartbeat", "Watchdog", "heartbeat"),
        ):
            routed = subprocess.run(
                [
                    tool("amtool"),
                    "config",
                    "routes",
                    "test",
                    f"--config.file={tree}",
                    f"alertname={name}",
                    f"severity={severity}",
                ],
                capture_output=True,
                text=True,
                timeout=30,
                check=True,
            )
            assert routed.stdout.strip() == receivers, name
        beat = [{"labels": {"alertname": "Watchdog", "severity": "heartbeat"}}]
        request = urllib.request.Request(
            f"{url}/api/v2/alerts",
            data=json.dumps(beat).encode(),
            headers={"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=10):
            deadline = time.monotonic() + 10
            while not receiver.alerts("heartbeat") and time.monotonic() < deadline:
                time.sleep(0.1)
    assert receiver.alerts("heartbeat") == ["Watchdog"]
    assert receiver.alerts("pages") == receiver.alerts("all") == []


def test_a_dead_alertmanager_is_told_in_one_sentence() -> None:
    tried = try_alert("http://127.0.0.1:9", {"one": "webhook"})
    assert tried.returncode == 1
    assert tried.stdout == ""
    assert tried.stderr.startswith("No alert was tried: Alertmanager does not answer")
    assert len(tried.stderr.splitlines()) == 1
