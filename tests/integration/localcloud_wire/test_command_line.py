"""`python -m localcloud`: what each command does, says, and answers to the shell."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
from pathlib import Path
from urllib.request import urlopen

import pytest

from tests.integration.localcloud_wire.conftest import client
from tests.integration.localcloud_wire.server import Server

pytestmark = pytest.mark.integration


def test_up_is_idempotent_and_says_where(server: Server) -> None:
    pid = server.pid
    again = server.run("up")
    assert f"http://127.0.0.1:{server.port}/v1" in again.stdout
    assert server.pid == pid
    assert "other options" in server.run("up", "--port", "1", check=False).stderr


def test_up_on_a_running_cloud_changes_what_can_change(fresh: Server) -> None:
    fresh.run("up", "--operation-seconds", "7", "--generation", "v2")
    assert fresh.admin("GET", "settings") == {
        "operation_seconds": 7.0,
        "generation": "v2",
        "clock_offset": 0.0,
        "watch_seconds": 5.0,
    }


def test_up_answers_soon(fresh: Server) -> None:
    fresh.run("down")
    started = time.monotonic()
    fresh.up()
    assert time.monotonic() - started < 10
    assert client(fresh).call("GET", "/locations")["items"]


def test_state_is_for_its_owner_alone(server: Server) -> None:
    assert server.folder.path.stat().st_mode & 0o077 == 0
    assert (server.folder.path / "keys.json").stat().st_mode & 0o077 == 0


def test_status(fresh: Server) -> None:
    words = fresh.run("status")
    assert str(fresh.pid) in words.stdout
    assert fresh.status()["running"] is True
    fresh.run("down")
    gone = fresh.run("status", check=False)
    assert gone.returncode == 3
    assert "No local cloud runs" in gone.stdout
    assert "was not running" in fresh.run("down").stdout


def test_the_address_of_the_pages_is_one_that_answers(fresh: Server) -> None:
    address = fresh.run("console").stdout.strip()
    assert address in fresh.run("status").stdout
    with urlopen(address, timeout=30) as answer:
        assert b"Nothing here" in answer.read()
    fresh.run("down")
    gone = fresh.run("console", check=False)
    assert (gone.returncode, gone.stdout) == (1, "")
    assert "python -m localcloud up" in gone.stderr


def test_the_end_does_not_wait_for_an_open_page(fresh: Server) -> None:
    with urlopen(f"{fresh.run('console').stdout.strip()}changes", timeout=30) as stream:
        assert stream.readline() == b": hello\n"
        started = time.monotonic()
        fresh.run("down")
        assert time.monotonic() - started < 8
        assert stream.read().count(b"event: changed") == 1
    log = (fresh.folder.path / "server.log").read_text()
    assert "graceful shutdown exceeded" not in log


def test_port_in_use_is_one_sentence_that_names_who_has_it(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = Server(tmp_path / "state").run("up", "--port", str(port), check=False)
    assert done.returncode == 1
    assert done.stderr.startswith(f"error: port {port} on 127.0.0.1 is in use by process ")
    assert len(done.stderr.strip().splitlines()) == 1
    assert "--port" in done.stderr


def test_port_of_another_local_cloud(server: Server, tmp_path: Path) -> None:
    done = Server(tmp_path / "second").run("up", "--port", str(server.port), check=False)
    assert done.returncode == 1
    assert f"the local cloud of {server.folder.path}" in done.stderr


def test_down_ends_no_stranger(fresh: Server) -> None:
    """A process file that names another process, as after a reboot: that process stays."""
    fresh.kill()
    stranger = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    try:
        record = {"pid": stranger.pid, "started": "long ago", "port": fresh.port}
        (fresh.folder.path / "server.json").write_text(json.dumps(record))
        fresh.run("down")
        assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.wait()


def test_reset_removes_everything_and_nothing_else(tmp_path: Path) -> None:
    server = Server(tmp_path / "state")
    server.up()
    keys = server.keys()
    server.run("reset")
    assert not server.folder.path.exists()
    server.up()
    assert server.keys() != keys
    server.run("reset")
    strange = tmp_path / "home"
    strange.mkdir()
    (strange / "thesis.txt").write_text("years")
    refused = Server(strange).run("reset", check=False)
    assert refused.returncode == 1
    assert "no state folder" in refused.stderr
    assert (strange / "thesis.txt").exists()


def test_env_can_be_evaluated(server: Server) -> None:
    shell = f'eval "$({sys.executable} -m localcloud env --state {server.state})"; echo $CRUSOE_API_ENDPOINT'
    done = subprocess.run(["sh", "-c", shell], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == f"http://127.0.0.1:{server.port}/v1"
    assert server.keys("local") != server.keys("other")
    assert "known are local, other" in server.run("env", "--project", "x", check=False).stderr


def test_env_without_a_cloud(tmp_path: Path) -> None:
    done = Server(tmp_path / "none").run("env", check=False)
    assert done.returncode == 1
    assert "python -m localcloud up" in done.stderr
    assert done.stdout == ""


def test_faults(server: Server) -> None:
    server.run(
        "faults", "add", "--match", "GET .../locations", "--kind", "http-429", "--times", "1", "--retry-after", "3"
    )
    assert "http-429 on GET .../locations (1 left, acted 0 times)" in server.run("faults", "list").stdout
    terraform = client(server, first_wait=0.01)
    assert terraform.call("GET", "/locations")["items"]
    assert len(terraform.tries) == 2
    assert "1 fault removed" in server.run("faults", "clear").stdout
    assert server.run("faults", "list").stdout == ""
    wrong = server.run("faults", "add", "--match", "locations", "--kind", "http-429", check=False)
    assert "is not METHOD PATH" in wrong.stderr
    unknown = server.run("faults", "add", "--match", "GET ...", "--kind", "flood", check=False)
    assert unknown.returncode == 1
    assert "partial-capacity" in unknown.stderr


def test_log(fresh: Server) -> None:
    terraform = client(fresh)
    terraform.call("GET", "/locations")
    terraform.request("GET", "/capacities", location="mars")
    first, second = fresh.run("log").stdout.splitlines()
    assert "200 GET" in first
    assert "400 GET    /v1/capacities?location=mars" in second
    assert json.loads(fresh.run("log", "--json", "-n", "1").stdout)["status"] == 400
    assert "--state" in fresh.run("log", "--help").stdout


def test_set(server: Server) -> None:
    """Last of what uses the module's server: it leaves little to be had."""
    terraform = client(server)
    server.run("set", "capacity", "--type", "c1a.8x", "--location", "us-east1-a", "--quantity", "3")
    server.run("set", "capacity", "--type", "h100-80gb-sxm-ib.8x", "--ib-network", IB, "--quantity", "2")
    assert server.run("set", "quota", "--name", "c1a", "--max", "16").stdout == "The quota c1a is 16.\n"
    [row] = terraform.call("GET", "/capacities", location="us-east1-a", product_name="c1a.8x")["items"]
    assert row["quantity"] == 3
    network = terraform.call("GET", f"{{p}}/networking/ib-networks/{IB}")
    assert {"quantity": 16, "slice_type": "h100-80gb-sxm-ib.8x"} in network["capacities"]
    assert {"name": "c1a", "max": 16, "used": 0, "available": 16} in terraform.call("GET", "{p}/quotas")["items"]
    assert (
        "there is no VM type"
        in server.run(
            "set", "capacity", "--type", "x", "--location", "us-east1-a", "--quantity", "3", check=False
        ).stderr
    )


IB = "00000000-0000-4000-8000-000000000101"


def test_log_file_holds_no_secret(server: Server) -> None:
    terraform = client(server)
    terraform.call("GET", "/locations")
    terraform.request("POST", "{p}/storage/disks", {"password": "canary"})
    text = server.folder.log.read_text() + server.folder.crash_log.read_text()
    assert "serving http://127.0.0.1" in text
    for secret in (terraform.secret, "Bearer", "canary", "X-Local-Token"):
        assert secret not in text


def test_commands_need_a_running_cloud(tmp_path: Path) -> None:
    for command in (["faults", "list"], ["log"], ["set", "clock", "--offset", "1"]):
        done = Server(tmp_path / "none").run(*command, check=False)
        assert done.returncode == 1
        assert "start it with 'python -m localcloud up'" in done.stderr
    assert not (tmp_path / "none").exists()


def test_gpu_faults_and_repairs(fresh: Server) -> None:
    said = fresh.run("set", "autoclusters", "--detect-seconds", "1", "--webhook", "http://127.0.0.1:9000/").stdout
    assert said == "AutoClusters sees a fault after 1 s, drains for 120 s and tells http://127.0.0.1:9000/.\n"
    assert "tells nobody" in fresh.run("set", "autoclusters", "--webhook", "").stdout
    refused = fresh.run("set", "autoclusters", "--webhook", "https://example.com/", check=False)
    assert "no http address of this machine" in refused.stderr
    nobody = fresh.run("gpu-fault", "--node", "nope", "--xid", "79", check=False)
    assert (nobody.returncode, nobody.stdout) == (1, "")
    assert "there is no VM 'nope'; nodes with GPUs are none" in nobody.stderr
    assert fresh.run("incidents").stdout == ""
