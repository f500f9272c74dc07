"""Throw-away local clouds and throw-away Pulumi projects, driven by the real commands as a user's shell would.

A `Project` is a folder with this program's entry file and stack files, its own Pulumi home, file backend and empty
HOME, so that nothing of the machine's user leaks in and nothing of the test leaks out.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import IO, Any, cast

import httpx
import yaml

from tools import places

ROOT = Path(__file__).resolve().parents[1]
VIRTUALENV = Path(sys.prefix)
COMMAND_SECONDS = 480
PATIENCE = 3
"""How many times longer than on a quiet machine a wait may take: its cores may be busy with other tests."""
PROJECT_ID = "00000000-0000-4000-8000-000000000001"
FAMILIES = (
    "/networking/vpc-networks",
    "/networking/vpc-subnets",
    "/networking/vpc-firewall-rules",
    "/networking/ib-partitions",
    "/networking/load-balancers",
    "/storage/disks",
    "/kubernetes/clusters",
    "/kubernetes/nodepools",
    "/compute/vms/instances",
)
"""Every list of the API whose things cost money or stand in the way of the next run."""

Json = dict[str, Any]


def free_port() -> int:
    """A TCP port on the loopback address that nobody listens on at this moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return cast(int, probe.getsockname()[1])


def merge(base: Json, changes: Mapping[str, Any]) -> Json:
    """A copy of `base` with `changes` laid over it, mapping by mapping; None removes a key."""
    result = dict(base)
    for key, value in changes.items():
        if value is None:
            result.pop(key, None)
        elif isinstance(value, Mapping) and isinstance(result.get(key), dict):
            result[key] = merge(result[key], cast(Mapping[str, Any], value))
        else:
            result[key] = value
    return result


@dataclass
class Result:
    """What a command did: its exit code and its two outputs as text."""

    code: int
    out: str
    err: str

    @property
    def text(self) -> str:
        """Both outputs, for messages and searches."""
        return self.out + self.err


def execute(command: list[str], cwd: Path, environment: Mapping[str, str], seconds: float = COMMAND_SECONDS) -> Result:
    """Runs a command to its end in its own process group; a command over its time is ended and fails the test."""
    process = subprocess.Popen(
        command,
        cwd=cwd,
        env=dict(environment),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        out, err = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        out, err = process.communicate()
        raise AssertionError(f"{' '.join(command)} took more than {seconds:.0f} s\n{out}\n{err}") from None
    return Result(process.returncode, out, err)


@dataclass
class Cloud:
    """One local cloud on a port and state folder of its own."""

    state: Path
    port: int
    options: tuple[str, ...] = ()
    _credentials: tuple[bytes, dict[str, str]] | None = field(default=None, init=False, repr=False, compare=False)

    @property
    def endpoint(self) -> str:
        """Where its API answers."""
        return f"http://127.0.0.1:{self.port}/v1"

    @cached_property
    def _http(self) -> httpx.Client:
        # One for all requests, since reading the machine's certificates takes longer than a request; and as the cloud
        # may be started anew meanwhile, no connection is used twice.
        limits = httpx.Limits(max_keepalive_connections=0)
        return httpx.Client(timeout=30, trust_env=False, verify=False, limits=limits)

    def command(self, *arguments: str, check: bool = True) -> Result:
        """Runs `python -m localcloud` on this cloud's state folder."""
        verb, *rest = arguments
        result = execute(
            [sys.executable, "-m", "localcloud", verb, *rest, "--state", str(self.state)], ROOT, os.environ
        )
        assert not check or result.code == 0, result.text
        return result

    def up(self) -> None:
        """Starts it, or finds it running."""
        self.command("up", "--port", str(self.port), *self.options)

    def down(self) -> None:
        """Stops it and its control planes, and keeps its state."""
        self.command("down")

    def status(self) -> Json:
        """What it says of itself: pid, settings, clusters, faults."""
        return cast(Json, self.admin("GET", "/status"))

    def credentials(self) -> dict[str, str]:
        """The environment variables that a client needs."""
        # Asked for once while the keys are the same: every command of a test has them, thousands in all.
        keys = (self.state / "keys.json").read_bytes()
        if self._credentials is None or self._credentials[0] != keys:
            lines = self.command("env").out.splitlines()
            pairs = (line.removeprefix("export ").split("=", 1) for line in lines if line.startswith("export "))
            self._credentials = keys, {name: value.strip("'\"") for name, value in pairs}
        return dict(self._credentials[1])

    def admin(self, method: str, path: str, body: Json | None = None) -> Any:
        """Asks the cloud's own administration surface, which only the holder of the state folder can."""
        token = json.loads((self.state / "keys.json").read_text())["admin_token"]
        url = f"http://127.0.0.1:{self.port}/_local{path}"
        answer = self._http.request(method, url, json=body, headers={"X-Local-Token": token})
        assert answer.is_success, answer.text
        return answer.json()

    def api(self, method: str, path: str, body: Json | None = None) -> Any:
        """Asks the API itself, signed by this test and not by the client under test; `path` is below the project."""
        # Read and not asked for: a command for each request would be most of what some tests take.
        keys = json.loads((self.state / "keys.json").read_text())["keys"]
        key = [one for one in keys if one["project"] == "local"][-1]
        full = f"/v1/projects/{PROJECT_ID}{path}"
        bare, _, query = full.partition("?")
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        digest = hmac.new(
            base64.urlsafe_b64decode(key["secret"] + "=" * (-len(key["secret"]) % 4)),
            f"{bare}\n{query}\n{method}\n{now}\n".encode(),
            hashlib.sha256,
        ).digest()
        signature = base64.urlsafe_b64encode(digest).decode().rstrip("=")
        headers = {
            "X-Crusoe-Timestamp": now,
            "Authorization": f"Bearer 1.0:{key['id']}:{signature}",
        }
        answer = self._http.request(method, f"http://127.0.0.1:{self.port}{full}", json=body, headers=headers)
        assert answer.is_success, answer.text
        return answer.json()

    def done(self, method: str, path: str, body: Json | None = None, seconds: float = 120) -> Any:
        """The result of a call that starts an operation, once that has succeeded; `path` is below the project."""
        operation = self.api(method, path, body)["operation"]
        family = "/".join(path.split("/")[:3])
        deadline = time.monotonic() + seconds * PATIENCE
        while operation["state"] == "IN_PROGRESS":
            assert time.monotonic() < deadline, f"{method} {path} takes too long"
            time.sleep(0.2)
            operation = self.api("GET", f"{family}/operations/{operation['operation_id']}")
        assert operation["state"] == "SUCCEEDED", operation
        return operation["result"]

    def settle(self, counts: Mapping[str, int]) -> str:
        """A CMK cluster in the default network with a pool of each VM type, without Pulumi; answers its id."""
        for name in counts:
            self.admin("PUT", "/capacities", {"vm_type": name, "location": "us-east1-a", "quantity": 5000})
            self.admin("PUT", "/quotas", {"name": name.rpartition(".")[0], "max": 1_000_000})
        body: Json = {"name": "made", "location": "us-east1-a", "version": "1.33.4-cmk.43", "add_ons": []}
        cluster_id = self.done("POST", "/kubernetes/clusters", body)["id"]
        for name, count in counts.items():
            pool = {"name": name.replace(".", "-"), "cluster_id": cluster_id, "product_name": name, "count": count}
            self.done("POST", "/kubernetes/nodepools", pool, seconds=300)
        return cluster_id

    def kubeconfig(self, cluster_id: str) -> Path:
        """A file with an administrator's credentials of a cluster."""
        found = self.api("POST", f"/kubernetes/clusters/{cluster_id}/get-credentials?auth_type=admin_cert")
        file = self.state.parent / f"{cluster_id}.kubeconfig"
        file.write_text(found["kube_config"])
        return file

    def items(self, path: str) -> list[Json]:
        """Everything that one list of the API holds."""
        return cast(list[Json], self.api("GET", path)["items"])

    def fault(self, match: str, kind: str, **options: Any) -> None:
        """Adds a fault; see `localcloud.faults`."""
        self.admin("POST", "/faults", {"match": match, "kind": kind, **options})

    def forget_requests(self) -> None:
        """Empties the request log, so that a test reads only its own."""
        self.admin("DELETE", "/requests")

    def requests(self, method: str | None = None, path: str = "") -> list[Json]:
        """The requests that it has seen, oldest first, filtered by method and a part of the path."""
        entries = cast(list[Json], self.admin("GET", "/requests?limit=20000")["items"])
        return [one for one in entries if path in one["path"] and method in (None, one["method"])]


@contextmanager
def running_cloud(folder: Path, *options: str) -> Generator[Cloud]:
    """A local cloud for the length of a test; ended with all its processes afterwards."""
    cloud = Cloud(folder / "cloud", free_port(), options)
    cloud.up()
    try:
        yield cloud
    finally:
        cloud.down()


@dataclass
class Project:
    """This program in a folder of its own, with one backend and one Pulumi home."""

    folder: Path
    cloud: Cloud
    stack: str
    variables: dict[str, str] = field(default_factory=dict[str, str])

    def __post_init__(self) -> None:
        """Lays the folder out."""
        self.folder.mkdir(parents=True, exist_ok=True)
        for name in ("home", "pulumi-home", "backend"):
            (self.folder / name).mkdir(exist_ok=True)
        shutil.copy(ROOT / "__main__.py", self.folder)
        # Charts of the dev stack are named relative to the project.
        charts = self.folder / "localcloud" / "charts"
        charts.parent.mkdir(exist_ok=True)
        if not charts.exists():
            charts.symlink_to(ROOT / "localcloud" / "charts")
        project = cast(Json, yaml.safe_load((ROOT / "Pulumi.yaml").read_text()))
        project["runtime"]["options"]["virtualenv"] = str(VIRTUALENV)
        for provider in project["plugins"]["providers"]:
            provider["path"] = str((ROOT / provider["path"]).resolve())
        (self.folder / "Pulumi.yaml").write_text(yaml.safe_dump(project, sort_keys=False))

    @property
    def stack_file(self) -> Path:
        """The stack's settings file."""
        return self.folder / f"Pulumi.{self.stack}.yaml"

    def environment(self) -> dict[str, str]:
        """What a prepared shell exports."""
        base = {name: value for name, value in os.environ.items() if not name.startswith(("PULUMI_", "CRUSOE_"))}
        return {
            **base,
            "HOME": str(self.folder / "home"),
            "PATH": f"{places.BIN}:{base['PATH']}",
            "PULUMI_HOME": str(self.folder / "pulumi-home"),
            "PULUMI_BACKEND_URL": f"file://{self.folder / 'backend'}",
            "PULUMI_CONFIG_PASSPHRASE": "",
            "PULUMI_SKIP_UPDATE_CHECK": "true",
            "PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION": "true",
            "NO_COLOR": "1",
            **self.cloud.credentials(),
            **self.variables,
        }

    def use_settings(self, base: str, changes: Mapping[str, Any] | None = None, *, slurm: bool = False) -> None:
        """Writes the stack file: a shipped one with endpoint, project and protection of the test, then `changes`.

        Slurm takes most of an `up`, so it is left out unless the test is about it.
        """
        shipped = cast(Json, yaml.safe_load((ROOT / f"Pulumi.{base}.yaml").read_text()))
        for key in ("encryptionsalt", "secretsprovider"):
            shipped.pop(key, None)
        own: Json = {"cloud": {"endpoint": self.cloud.endpoint, "project": "local"}, "protect": False}
        key = "platform"
        if not slurm:
            shipped["config"][key].pop("slurm", None)
            shipped["config"][key].pop("gpuSharing", None)
            shipped["config"][key].pop("observability", None)
        elif "slurm" in shipped["config"][key]:
            # The public registries can't be reached from a test.
            own["slurm"] = {"charts": {"source": "localcloud/charts"}}
        if "observability" in shipped["config"][key]:
            own["observability"] = {"chartSource": "localcloud/charts"}
        shipped["config"][key] = merge(merge(shipped["config"][key], own), changes or {})
        if self.stack_file.exists():
            salt = cast(Json, yaml.safe_load(self.stack_file.read_text())).get("encryptionsalt")
            if salt:
                shipped["encryptionsalt"] = salt
        self.stack_file.write_text(yaml.safe_dump(shipped, sort_keys=False))

    def change_settings(self, changes: Mapping[str, Any]) -> None:
        """Lays `changes` over the stack file's settings."""
        content, key = self._settings_file()
        content["config"][key] = merge(content["config"][key], changes)
        self.stack_file.write_text(yaml.safe_dump(content, sort_keys=False))

    def settings(self) -> Json:
        """The settings in the stack file."""
        content, key = self._settings_file()
        return content["config"][key]

    def _settings_file(self) -> tuple[Json, str]:
        content = cast(Json, yaml.safe_load(self.stack_file.read_text()))
        # Pulumi writes the project's name before the key once it has written the file.
        return content, next(key for key in content["config"] if key.rpartition(":")[2] == "platform")

    def pulumi(self, *arguments: str, check: bool = True, seconds: float = COMMAND_SECONDS) -> Result:
        """Runs the real CLI without a terminal."""
        result = execute(["pulumi", *arguments, "--non-interactive"], self.folder, self.environment(), seconds)
        assert not check or result.code == 0, f"pulumi {' '.join(arguments)} ended with {result.code}\n{result.text}"
        return result

    def start(self, *arguments: str, output: IO[str] | int = subprocess.PIPE) -> subprocess.Popen[str]:
        """Starts the CLI and leaves it running in a process group of its own, for tests that interrupt it."""
        return subprocess.Popen(
            ["pulumi", *arguments, "--non-interactive"],
            cwd=self.folder,
            env=self.environment(),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def init(self) -> None:
        """Makes the stack."""
        self.pulumi("stack", "init", self.stack)

    def up(self, *arguments: str, check: bool = True) -> Result:
        """`pulumi up` without questions."""
        return self.pulumi("up", "--yes", "--skip-preview", "-s", self.stack, *arguments, check=check)

    def destroy(self, *arguments: str, check: bool = True) -> Result:
        """`pulumi destroy` without questions."""
        return self.pulumi("destroy", "--yes", "--skip-preview", "-s", self.stack, *arguments, check=check)

    def preview(self, *arguments: str, check: bool = True) -> Json:
        """The digest of `pulumi preview --json`."""
        result = self.pulumi("preview", "--json", "-s", self.stack, *arguments, check=check)
        return cast(Json, json.loads(result.out))

    def outputs(self, *arguments: str) -> Json:
        """The stack's outputs as plain values; secrets masked unless `--show-secrets` is given."""
        return cast(Json, json.loads(self.pulumi("stack", "output", "--json", "-s", self.stack, *arguments).out))

    def exported(self) -> Json:
        """The stack's state, secrets encrypted."""
        return cast(Json, json.loads(self.pulumi("stack", "export", "-s", self.stack).out))

    def resources(self) -> list[Json]:
        """The resources in state."""
        return cast(list[Json], self.exported()["deployment"].get("resources", []))


def changes(digest: Json) -> dict[str, list[str]]:
    """Names by operation of everything that a preview would touch; what stays the same is left out."""
    touched: dict[str, list[str]] = {}
    for step in digest["steps"]:
        if step["op"] not in ("same", "read", "refresh"):
            touched.setdefault(step["op"], []).append(step["urn"].rsplit("::", 1)[1])
    return {op: sorted(names) for op, names in touched.items()}


def leftovers(cloud: Cloud) -> dict[str, list[str]]:
    """What a cloud still has, by list; the default network with its parts belongs to the cloud itself."""
    found = {path: [one["name"] for one in cloud.items(path)] for path in FAMILIES}
    own = {path: [name for name in names if not name.startswith("default")] for path, names in found.items()}
    return {path: names for path, names in own.items() if names}


def ended(process: subprocess.Popen[str], seconds: float) -> str:
    """What a started command says until its end; one over its time is killed and fails, and who still ran is told."""
    try:
        return process.communicate(timeout=seconds)[0]
    except subprocess.TimeoutExpired:
        command = ["ps", "-o", "pid,ppid,stat,wchan:20,etime,args", "--forest", "-s", str(process.pid)]
        running = subprocess.run(command, capture_output=True, text=True, check=False).stdout
        os.killpg(process.pid, signal.SIGKILL)
        out = process.communicate()[0]
        raise AssertionError(f"it still ran after {seconds:.0f} s\n{running}\n{out}") from None


def until(condition: Callable[[], bool], seconds: float, what: str) -> None:
    """Waits until `condition` holds; fails with `what` when it does not in time, or several times that."""
    wait(condition, seconds * PATIENCE, f"{what} did not happen within {seconds * PATIENCE:.0f} s")


def wait(condition: Callable[[], object], seconds: float, otherwise: str) -> None:
    """Waits until `condition` holds; fails with `otherwise` when it does not in time."""
    deadline = time.monotonic() + seconds
    pause = 0.1
    while not condition():
        assert time.monotonic() < deadline, otherwise
        time.sleep(pause)
        # What most conditions ask costs more than it waits, and takes it from what they wait for.
        pause = min(pause * 1.2, 0.4)
