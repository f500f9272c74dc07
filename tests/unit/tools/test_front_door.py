"""The front door's decisions, without Pulumi: who is asked, what is refused, what an interrupted run left."""

import dataclasses
import io
import json
import os
import shlex
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest

from tests.conftest import LONG
from tools.errors import ToolMissingError
from tools.front_door import (
    autoclusters,
    checks,
    cleaning,
    commands,
    console,
    environment,
    environments,
    foreign,
    gitops,
    monitoring,
    recovery,
    session,
    slurm,
)
from tools.front_door.__main__ import main
from tools.front_door.environment import FrontDoorError, shell_lines
from tools.front_door.process import run
from tools.front_door.recovery import Lock
from tools.front_door.session import Session
from tools.places import ROOT


class Recorded(Session):
    """A session whose Pulumi only writes down what it was asked."""

    def __init__(self, stack: str = "dev", *arguments: str, state: Mapping[str, object] | None = None) -> None:
        super().__init__(stack, arguments)
        self.asked: list[tuple[str, ...]] = []
        self.said: list[str] = []
        self.prepared = False
        self._state = state or {}

    def say(self, line: str) -> None:
        self.said.append(line)

    def prepare(self, *, runs_program: bool = True) -> None:
        self.prepared = True
        self.runs_program = runs_program

    def start_local_cloud(self) -> None:
        self.asked.append(("localcloud", "up"))

    def stop_local_cloud(self) -> int:
        self.asked.append(("localcloud", "down"))
        return 0

    def pulumi(self, *arguments: str, variables: Mapping[str, str] | None = None) -> int:
        self.asked.append(arguments)
        self.variables = variables
        return 0

    def pulumi_or_fail(self, *arguments: str) -> None:
        self.asked.append(arguments)

    def pulumi_output(self, *arguments: str) -> str:
        self.asked.append(arguments)
        return json.dumps(self._state)


@pytest.fixture(autouse=True)
def no_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO())


class Terminal(io.StringIO):
    """Standard input that a person sits at."""

    def isatty(self) -> bool:
        return True


def giving(value: object) -> Callable[..., object]:
    """A function that takes anything and gives one value."""

    def give(*_: object, **__: object) -> object:
        return value

    return give


def test_dev_is_never_asked():
    dev = Recorded("dev")
    assert commands.up(dev) == 0
    assert dev.asked[0] == ("up", "--stack", "dev", "--suppress-outputs", "--yes")
    assert dev.asked[1] == ("stack", "output", "--stack", "dev")
    assert sum(line.count("  make ") + line.count("  eval ") for line in dev.said) == 3


@pytest.mark.parametrize(("settings", "needs"), [({"observability": {}}, ["monitoring"]), ({}, [])])
def test_an_up_of_dev_gets_alertmanager_where_the_stack_has_monitoring(
    monkeypatch: pytest.MonkeyPatch, settings: Mapping[str, object], needs: Sequence[str]
):
    asked: list[str] = []
    monkeypatch.setattr(monitoring, "ensure", asked.append)
    monitoring.get_alertmanager(Recorded("dev"), settings)
    assert asked == needs


def test_a_machine_that_can_not_have_alertmanager_is_told(monkeypatch: pytest.MonkeyPatch):
    def missing(_need: str) -> None:
        raise ToolMissingError("alertmanager is missing")

    monkeypatch.setattr(monitoring, "ensure", missing)
    dev = Recorded("dev")
    monitoring.get_alertmanager(dev, {"observability": {}})
    assert dev.said == ["alertmanager is missing"]


@pytest.mark.parametrize(("action", "paused"), [("off", "true"), ("on", "false")])
def test_repairs_are_paused_in_the_settings_and_in_the_cloud_and_nothing_else_is_touched(action: str, paused: str):
    prod = Recorded("prod", "--yes", f"--action={action}")
    assert commands.pausing(prod) == 0
    setting = "platform.autoClusters.paused"
    assert prod.asked[0] == ("config", "set", "--path", setting, paused, "--type", "bool", "--stack", "prod")
    targets = tuple(f"--target={each}" for each in autoclusters.TARGETS)
    assert prod.asked[1] == ("up", "--stack", "prod", "--suppress-outputs", *targets, "--yes")
    assert "commit it" in prod.said[-1]


@pytest.mark.parametrize("given", [(), ("--action=",), ("--action=OFF",)])
def test_a_pause_is_asked_for_in_plain_words(given: tuple[str, ...]):
    dev = Recorded("dev", *given)
    with pytest.raises(FrontDoorError, match="ACTION=off"):
        commands.pausing(dev)
    assert dev.asked == []


@pytest.mark.parametrize("command", [commands.up, commands.down, commands.refresh, commands.pausing])
def test_outside_dev_nothing_changes_without_a_terminal_or_a_yes(command: Callable[[Session], int]):
    prod = Recorded("prod")
    with pytest.raises(FrontDoorError, match=r"no terminal to ask on .*prod.* ARGS=--yes"):
        command(prod)
    assert prod.asked == []
    assert not prod.prepared
    agreed = Recorded("prod", "--yes", *(["--action=off"] if command is commands.pausing else []))
    assert command(agreed) == 0
    assert agreed.asked[-1 if command is not commands.up else 0].count("--yes") == 1


def test_outside_dev_pulumi_asks_on_the_terminal(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("sys.stdin", Terminal())
    prod = Recorded("prod")
    assert commands.up(prod) == 0
    assert "--yes" not in prod.asked[0]
    assert any("make down STACK=prod" in line for line in prod.said)


@pytest.mark.parametrize(
    ("wanted", "user", "platform", "newuidmap", "runs"),
    [
        ({}, 0, "linux", None, True),
        ({}, 1000, "linux", "/usr/bin/newuidmap", True),
        ({}, 1000, "linux", None, False),
        ({}, 0, "darwin", None, False),
        ({"mode": "managed"}, 1000, "darwin", None, True),
        (None, 1000, "darwin", None, True),
    ],
)
def test_a_slurm_that_can_not_run_here_is_told_of_at_once(
    monkeypatch: pytest.MonkeyPatch,
    wanted: Mapping[str, object] | None,
    user: int,
    platform: str,
    newuidmap: str | None,
    runs: bool,
):
    monkeypatch.setattr(os, "geteuid", lambda: user)
    monkeypatch.setattr("sys.platform", platform)
    monkeypatch.setattr("shutil.which", giving(newuidmap))
    if runs:
        slurm.ensure_slurm_can_run({"slurm": wanted})
        return
    with pytest.raises(FrontDoorError, match="take `slurm` out of"):
        slurm.ensure_slurm_can_run({"slurm": wanted})


def test_only_a_preview_goes_without_checkpoints():
    told = Recorded()
    commands.preview(told)
    assert told.variables == {"PULUMI_SKIP_CHECKPOINTS": "true"}
    # What an `up` has made is kept as soon as it is there, or a kill would lose it.
    commands.up(told)
    assert told.variables is None


@pytest.mark.parametrize(("status", "deployed"), [(0, True), (10, False), (11, False), (20, False)])
def test_only_what_is_safe_is_deployed_and_nothing_else_than_was_reported(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, status: int, deployed: bool
):
    reported: list[Sequence[str]] = []

    def note(command: Sequence[str], _environ: Mapping[str, str]) -> int:
        reported.append(command)
        return status

    monkeypatch.setattr(gitops, "run", note)
    monkeypatch.setattr(gitops, "REPORTS", tmp_path)
    monkeypatch.setattr(Recorded, "environ", {})
    prod = Recorded("org/prod", "--yes", "--label=x")
    assert commands.deploy(prod) == status
    plan = tmp_path / "org_prod" / "plan.json"
    [words] = reported
    assert f"--save-plan={plan}" in words
    assert "--label=x" in words
    assert "--yes" not in words
    up = ("up", "--stack", "org/prod", "--suppress-outputs", f"--plan={plan}", "--yes")
    assert prod.asked == ([up] if deployed else [])


@pytest.mark.parametrize("argument", ["--skip-preview", "-f", "--skip-preview=true"])
def test_down_never_skips_its_preview(argument: str):
    dev = Recorded("dev", argument)
    with pytest.raises(FrontDoorError, match="always shows its preview"):
        commands.down(dev)
    assert dev.asked == []


URN = "urn:pulumi:prod::platform::gpuplatform:cluster:Cluster$crusoe:index:KubernetesCluster::main"


def test_down_lists_what_is_protected_and_stops():
    resources = [{"urn": URN, "protect": True}, {"urn": URN.replace("main", "other")}]
    prod = Recorded("prod", "--yes", state={"deployment": {"resources": resources}})
    with pytest.raises(FrontDoorError, match=r"Nothing was touched: .*\n  main \(crusoe:index:KubernetesCluster\)\n"):
        commands.down(prod)
    assert [asked[0] for asked in prod.asked] == ["stack"]


@pytest.mark.parametrize("state", [{"deployment": None}, {"deployment": {"resources": None}}, {"deployment": {}}])
def test_down_of_an_empty_stack_goes_on(state: dict[str, object]):
    prod = Recorded("prod", "--yes", state=state)
    assert commands.down(prod) == 0
    assert prod.asked[-1] == ("destroy", "--stack", "prod", "--yes")


def test_shell_lines_survive_a_shell():
    values = {"PATH": "/a b/bin", "EMPTY": "", "ODD": 'it\'s $HOME; "x"\n'}
    script = "\n".join([*shell_lines(values), 'printf "%s|" "$PATH" "$EMPTY" "$ODD"'])
    got = subprocess.run(["/bin/sh", "-c", script], env={"PATH": "/bin"}, capture_output=True, text=True, check=True)
    assert got.stdout == f"/a b/bin:/bin|{values['EMPTY']}|{values['ODD']}|"


def test_outside_dev_only_path_and_policies_change(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    needs: list[str] = []

    def ensure(need: str) -> Path:
        needs.append(need)
        return tmp_path

    monkeypatch.setattr(environment, "ensure", ensure)
    monkeypatch.setenv("PULUMI_OPTION_POLICY_PACK", "/theirs")
    user = {"PATH": "/bin", "PULUMI_BACKEND_URL": "s3://state", "CRUSOE_ACCESS_KEY_ID": "mine"}
    got = environment.environment("prod", user)
    packs = {"PULUMI_OPTION_POLICY_PACK": f"{ROOT / 'policies'},/theirs"}
    assert got == {**user, "PATH": f"{tmp_path}:{sys.prefix}/bin:/bin", **packs}
    monkeypatch.setenv("PULUMI_OPTION_POLICY_PACK", packs["PULUMI_OPTION_POLICY_PACK"])
    assert environment.environment("prod", user)["PULUMI_OPTION_POLICY_PACK"] == packs["PULUMI_OPTION_POLICY_PACK"]
    assert set(needs) == {"cloud"}


def test_dev_lives_in_the_clone_whatever_the_user_has_set(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    (tmp_path / "pulumi-resource-kubernetes").touch()
    monkeypatch.setattr(environment, "ensure", giving(tmp_path))
    monkeypatch.setattr(environment, "STATE", tmp_path / "state")
    monkeypatch.setattr(environment, "PULUMI_HOME", tmp_path / "home")
    monkeypatch.setattr(environment, "output", giving("# keys\nexport CRUSOE_A=1 CRUSOE_B='2 3'\n"))
    user = {"PULUMI_BACKEND_URL": "s3://production", "CRUSOE_A": "production"}
    got = environment.environment("dev", user)
    assert got["PULUMI_BACKEND_URL"] == (tmp_path / "state").as_uri()
    assert got["PULUMI_CONFIG_PASSPHRASE"] == ""
    assert (got["CRUSOE_A"], got["CRUSOE_B"]) == ("1", "2 3")
    [plugin] = (tmp_path / "home" / "plugins").glob("resource-kubernetes-v*/pulumi-resource-kubernetes")
    assert plugin.resolve() == tmp_path / "pulumi-resource-kubernetes"


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({}, None),
        ({"NO_PROXY": "a"}, None),
        ({"HTTPS_PROXY": "p"}, "127.0.0.1,localhost"),
        ({"http_proxy": "p", "NO_PROXY": ".corp,localhost"}, ".corp,localhost,127.0.0.1"),
    ],
)
def test_behind_a_proxy_this_machine_is_reached_directly(environ: dict[str, str], expected: str | None):
    assert environment.direct(environ) == ({"NO_PROXY": expected, "no_proxy": expected} if expected else {})


def write_lock(state: Path, **content: object) -> None:
    folder = state / ".pulumi" / "locks" / "organization" / "platform" / "dev"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "1.json").write_text(json.dumps(content))
    (folder / "1.json.attrs").write_text("{}")


def test_a_lock_is_read_as_pulumi_writes_it(tmp_path: Path):
    assert recovery.locks(tmp_path, "platform", "dev") == []
    write_lock(tmp_path, pid=7, username="me", hostname="here", timestamp="2026-01-01T00:00:00Z")
    assert recovery.locks(tmp_path, "platform", "dev") == [Lock(7, "here", "2026-01-01T00:00:00Z")]
    assert recovery.locks(tmp_path, "platform", "other") == []


def test_a_lock_that_was_cut_off_while_written_is_dead(tmp_path: Path):
    write_lock(tmp_path, pid=7)
    [lock] = recovery.locks(tmp_path, "platform", "dev")
    assert lock.is_dead


def test_a_lock_is_alive_while_its_pulumi_runs(tmp_path: Path):
    pulumi = tmp_path / "pulumi"
    pulumi.symlink_to("/bin/sleep")
    holder = subprocess.Popen([pulumi, "60"])
    lock = Lock(holder.pid, socket.gethostname(), "now")
    for _ in range(50):
        if not lock.is_dead:
            break
        time.sleep(0.02)
    assert not lock.is_dead
    holder.kill()
    # Not waited for yet, as where nobody does.
    for _ in range(50):
        if lock.is_dead:
            break
        time.sleep(0.02)
    assert lock.is_dead
    holder.wait()
    assert lock.is_dead


def test_a_process_that_is_no_pulumi_holds_no_lock():
    assert Lock(os.getpid(), socket.gethostname(), "now").is_dead


def test_a_lock_of_another_machine_is_taken_to_be_alive():
    assert not Lock(1, "another-machine", "now").is_dead


def test_a_checkpoint_that_was_cut_off_is_mended_from_the_newest_whole_copy(tmp_path: Path):
    def mend() -> Path | None:
        return recovery.mend(tmp_path, "platform", "dev")

    assert mend() is None
    path = recovery.checkpoint(tmp_path, "platform", "dev")
    path.parent.mkdir(parents=True)
    path.write_text(whole := '{"checkpoint": {"latest": {}}}')
    assert mend() is None
    path.write_text(whole[:9])
    with pytest.raises(FrontDoorError, match="no copy of it"):
        mend()
    history = tmp_path / ".pulumi/history/platform/dev"
    history.mkdir(parents=True)
    for number, text in (("1", "oldest"), ("2", "newest"), ("3", None)):
        content = f'{{"checkpoint": {{"stack": "{text}"}}}}' if text else ""
        (history / f"dev-{number}.checkpoint.json").write_text(content)
    assert mend() == history / "dev-2.checkpoint.json"
    assert "newest" in path.read_text()
    path.write_text("")
    (backup := path.with_suffix(".json.bak")).write_text(whole)
    assert mend() == backup
    assert path.read_text() == whole


def test_pending_creates_are_read_from_the_checkpoint(tmp_path: Path):
    assert recovery.pending_creates(tmp_path, "platform", "dev") == []
    path = recovery.checkpoint(tmp_path, "platform", "dev")
    path.parent.mkdir(parents=True)
    operations = [{"type": "creating", "resource": {"urn": URN}}, {"type": "updating", "resource": {"urn": "other"}}]
    path.write_text(json.dumps({"checkpoint": {"latest": {"pending_operations": operations}}}))
    assert recovery.pending_creates(tmp_path, "platform", "dev") == [URN]
    path.write_text(json.dumps({"checkpoint": {"latest": None}}))
    assert recovery.pending_creates(tmp_path, "platform", "dev") == []


def test_an_up_waits_for_nobody_that_works_on_the_stack(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    write_lock(tmp_path, pid=7, username="me", hostname="another-machine", timestamp="today")
    monkeypatch.setattr(session, "STATE", tmp_path)
    monkeypatch.setattr(session, "ensure", giving(tmp_path))
    monkeypatch.setattr(session, "run", giving(0))
    monkeypatch.setattr(Session, "project", "platform")
    with pytest.raises(FrontDoorError, match=r"process 7 on another-machine, since today.* Wait for it, or end it"):
        Session("dev").prepare()


def test_a_local_cloud_that_does_not_start_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setattr(session, "ensure", giving(tmp_path))
    monkeypatch.setattr(session, "run", giving(1))
    with pytest.raises(FrontDoorError, match="did not start"):
        Session("dev").prepare()


@pytest.mark.parametrize(
    ("endpoint", "expected"),
    [("http://127.0.0.1:9999/v1", ["--port=9999"]), ("http://127.0.0.1/v1", []), ("http://[", []), (7, [])],
)
@pytest.mark.parametrize("key", ["platform", "crusoe-gpu-platform:platform"])
def test_the_local_cloud_starts_where_the_settings_look_for_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, key: str, endpoint: object, expected: list[str]
):
    settings = {"config": {"pulumi:tags": {}, key: {"cloud": {"endpoint": endpoint}}}}
    (tmp_path / "Pulumi.dev.yaml").write_text(json.dumps(settings))
    (tmp_path / "Pulumi.yaml").write_text("name: platform")
    asked: list[list[str]] = []

    def record(command: list[str], *_: object, **__: object) -> int:
        asked.append(command)
        return 1

    monkeypatch.setattr(session, "ROOT", tmp_path)
    monkeypatch.setattr(session, "STATE", tmp_path / "state")
    monkeypatch.setattr(session, "ensure", giving(tmp_path))
    monkeypatch.setattr(session, "local_cloud_port", giving(None))
    monkeypatch.setattr(session, "run", record)
    with pytest.raises(FrontDoorError, match=r"platform\.cloud\.endpoint in Pulumi\.dev\.yaml"):
        Session("dev").prepare()
    assert asked == [[sys.executable, "-m", "localcloud", "up", *expected]]


def test_an_unknown_tier_lists_the_known_ones():
    with pytest.raises(FrontDoorError, match=r"no tier 'units'; TIER is one of .*unit"):
        checks.test(Session("dev", tier="units"))


def test_tests_get_what_few_need_before_they_begin_and_go_on_without_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    asked: list[str] = []

    def ensure(need: str) -> Path:
        asked.append(need)
        if need in ("kueue", "browser"):
            raise ToolMissingError("there is no `go` on PATH")
        return tmp_path

    ran: list[Sequence[str]] = []

    def run(command: Sequence[str], *_arguments: object, **_options: object) -> int:
        ran.append(command)
        return 0

    monkeypatch.setattr(checks, "ensure", ensure)
    monkeypatch.setattr(checks, "run", run)
    assert checks.test(Session("dev", tier="unit")) == 0
    assert asked == []
    assert checks.test(Session("dev", tier="integration")) == 0
    assert asked == ["dev", "browser", "monitoring", "training", "workflows"]
    asked.clear()
    assert checks.test(Session("dev", tier="long")) == 0
    assert asked == ["dev", "kueue", "training", "upgrade"]
    assert [command[-2:] for command in ran] == [
        ["--length=short", "tests/unit"],
        ["--length=short", "tests/integration"],
        ["--length=long", "tests/integration"],
    ]


def test_what_the_long_tier_names_is_there_and_is_in_no_other():
    tests = ROOT / "tests"
    assert [name for name in LONG if not (tests / name).is_file()] == []
    assert all(name.startswith("integration/") for name in LONG)


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, object]]:
    """What `make check` starts: a program that is not run."""
    started: list[dict[str, object]] = []

    def start(command: Sequence[str], environ: Mapping[str, str], **options: object) -> int:
        started.append({"command": command, "environ": environ, **options})
        return 1

    monkeypatch.setattr(slurm, "run", start)
    return started


class WithOutputs(Recorded):
    """A session of a stack with outputs, on a machine that has kubectl or not."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        super().__init__(
            "prod", *arguments, state={"slurm": {"mode": "slinky"}, "kubeconfig": "apiVersion: v1", "x": 1}
        )
        self.environ = {"PATH": str(folder)}


def test_check_hands_outputs_on_and_no_secret_where_others_see_it(tmp_path: Path, told: list[dict[str, object]]):
    (tmp_path / "kubectl").touch(mode=0o755)
    session = WithOutputs(tmp_path, "--json")
    assert slurm.check(session) == 1
    assert session.asked == [("stack", "output", "--json", "--show-secrets", "--stack", "prod")]
    assert not session.prepared
    (started,) = told
    command = started["command"]
    assert isinstance(command, list)
    assert command[1:] == ["-m", "components.slurm.check_command", f"--kubectl={tmp_path / 'kubectl'}", "--json"]
    assert "apiVersion" not in str(started["command"]) + str(started["environ"])
    given = {"slurm": {"mode": "slinky"}, "kubeconfig": "apiVersion: v1", "slurmKubeconfig": None, "gpuSharing": None}
    assert json.loads(str(started["given"])) == given


def test_plan_hands_the_settings_on_and_asks_nobody(told: list[dict[str, object]], monkeypatch: pytest.MonkeyPatch):
    session = Recorded("prod")
    monkeypatch.setattr(session, "settings", lambda: {"location": "us-east1-a"})
    assert slurm.plan(session) == 1
    (started,) = told
    command = started["command"]
    assert isinstance(command, list)
    assert command[1:] == ["-m", "components.gpu_sharing.plan_command", "--stack=prod"]
    assert json.loads(str(started["given"])) == {"location": "us-east1-a"}
    assert not session.asked
    assert not session.prepared


def test_check_without_kubectl_says_how_to_get_it(tmp_path: Path, told: list[dict[str, object]]):
    with pytest.raises(FrontDoorError, match="kubectl is not on PATH"):
        slurm.check(WithOutputs(tmp_path))
    assert told == []


def test_a_text_can_be_given_to_a_program():
    assert run(["sh", "-c", '[ "$(cat)" = "the text" ]'], os.environ, given="the text") == 0
    # One that does not read it ends as it would.
    assert run(["sh", "-c", "exit 3"], os.environ, given="x" * 1_000_000) == 3


PARENT = """
import sys
from tools.front_door.process import run
sys.exit(run([sys.executable, "-c", '''
import signal, sys, time
def stop(*_):
    time.sleep(0.3); print("ended in order", flush=True); sys.exit(3)
signal.signal(signal.SIGINT, stop)
print("ready", flush=True)
time.sleep(30)
'''], None))
"""


@pytest.mark.parametrize("sign", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_lets_the_child_end_in_order(sign: signal.Signals):
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT], cwd=ROOT, stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    assert parent.stdout is not None
    assert parent.stdout.readline() == "ready\n"
    # A terminal interrupts the whole group; a supervisor terminates the one process that it knows.
    if sign is signal.SIGINT:
        os.killpg(parent.pid, sign)
    else:
        parent.send_signal(sign)
    assert parent.stdout.read() == "ended in order\n"
    assert parent.wait(5) == (130 if sign is signal.SIGINT else 3)


def test_a_program_past_its_time_is_ended(monkeypatch: pytest.MonkeyPatch):
    # Programs in a script's background ignore interrupts.
    monkeypatch.setattr("tools.front_door.process.LEAVE_SECONDS", 0.1)
    assert run(["sleep", "30"], os.environ, seconds=0.1) == 124


def test_the_status_of_a_killed_program_is_a_shells():
    assert run(["sh", "-c", "kill -9 $$"], os.environ) == 137


def asked(monkeypatch: pytest.MonkeyPatch, *answers: str | None) -> list[str]:
    """Have the local cloud's address be these, one after the other; gives what a browser is asked to open."""
    opened: list[str] = []

    def open_it(address: str) -> bool:
        opened.append(address)
        return True

    waiting = list(answers)
    monkeypatch.setattr(console, "_address", lambda: waiting.pop(0))
    monkeypatch.setattr(console, "ensure", giving(None))
    monkeypatch.setattr("webbrowser.open", open_it)
    monkeypatch.setenv("DISPLAY", ":0")
    return opened


ADDRESS = "http://127.0.0.1:8787/console/"


def test_the_console_of_a_running_cloud_is_opened(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    opened = asked(monkeypatch, ADDRESS)
    told = Recorded("dev")
    assert console.console(told) == 0
    assert opened == [ADDRESS]
    assert capsys.readouterr().out == f"{ADDRESS}\n"
    assert told.asked == []


def test_a_cloud_that_is_down_is_started_for_its_console(monkeypatch: pytest.MonkeyPatch):
    opened = asked(monkeypatch, None, ADDRESS)
    told = Recorded("dev")
    assert console.console(told) == 0
    assert (told.asked, opened) == ([("localcloud", "up")], [ADDRESS])
    assert not told.prepared, "who works on the stack is not disturbed"


def test_a_cloud_that_does_not_stay_is_told(monkeypatch: pytest.MonkeyPatch):
    asked(monkeypatch, None, None)
    with pytest.raises(FrontDoorError, match="has the reason"):
        console.console(Recorded("dev"))


def test_without_a_desktop_the_address_is_all(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    opened = asked(monkeypatch, ADDRESS)
    monkeypatch.setattr(console, "has_desktop", giving(False))
    told = Recorded("dev")
    assert console.console(told) == 0
    assert (opened, capsys.readouterr().out) == ([], f"{ADDRESS}\n")
    assert "ssh -L" in told.said[0]


@pytest.mark.parametrize(
    ("environ", "platform", "has"),
    [
        ({}, "linux", False),
        ({"DISPLAY": ":0"}, "linux", True),
        ({"WAYLAND_DISPLAY": "w"}, "linux", True),
        ({}, "darwin", True),
    ],
)
def test_what_a_desktop_is(environ: Mapping[str, str], platform: str, has: bool):
    assert console.has_desktop(environ, platform) is has


def test_a_real_environment_has_no_console_here():
    with pytest.raises(FrontDoorError, match="stack prod is in a real one"):
        console.console(Recorded("prod"))


def test_make_explains_every_target_and_knows_every_command():
    shown = subprocess.run(["make", "-s"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    named = [line.split()[1] for line in shown.splitlines() if line.startswith("  make ")]
    assert set(commands.COMMANDS) | {"help", "lock"} == set(named)


@pytest.mark.parametrize(("stack", "need"), [("dev", "dev"), ("prod", "cloud")])
def test_make_hands_stack_and_arguments_on(stack: str, need: str):
    shown = subprocess.run(
        ["make", "-n", "up", f"STACK={stack}", "ARGS=--diff -m 'two words'"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert shlex.split(shown)[2:] == [
        *("--for", need, "-m", "tools.front_door", "up", "--stack", stack, "--", "--diff", "-m", "two words")
    ]


def test_make_hands_on_what_a_new_stack_is_asked_for():
    words = ["new-stack", "NAME=r", "LOCATION=us-east1-a", "POOLS=a=x:1,b=y:2", "ARGS=--generation v2"]
    shown = subprocess.run(["make", "-n", *words], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    given = ["--name=r", "--location=us-east1-a", "--pools=a=x:1,b=y:2", "--generation", "v2"]
    assert shlex.split(shown)[4:] == ["-m", "tools.front_door", "new-stack", "--", *given]


def test_a_new_stack_without_a_name_says_how_to_ask():
    with pytest.raises(FrontDoorError, match=r"NAME= and POOLS= is missing. .* make new-stack NAME=research"):
        environments.new_stack(Recorded("dev", "--name=", "--location=x", "--pools="))


@pytest.fixture
def local(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The folder `.local` of a clone of its own."""
    folder = tmp_path / "a clone" / ".local"
    folder.mkdir(parents=True)
    monkeypatch.setattr("tools.places.ROOT", folder.parent)
    monkeypatch.setattr("tools.places.LOCAL", folder)
    monkeypatch.setattr(cleaning, "ROOT", folder.parent)
    monkeypatch.setattr(cleaning, "LOCAL", folder)
    return folder


def dev_shell(local: Path) -> dict[str, str]:
    """What `make env` of dev leaves in a shell."""
    return {
        "PULUMI_BACKEND_URL": (local / "state").as_uri(),
        "PULUMI_HOME": str(local / "pulumi-home"),
        "PULUMI_CONFIG_PASSPHRASE": "",
        "PULUMI_SKIP_UPDATE_CHECK": "true",
        "PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION": "true",
        "PULUMI_IGNORE_AMBIENT_PLUGINS": "true",
        "CRUSOE_ACCESS_KEY_ID": "LOCAL0123456789ABCDEF",
        "CRUSOE_SECRET_KEY": "secret",
        "CRUSOE_API_ENDPOINT": "http://127.0.0.1:8787/v1",
    }


def test_a_shell_loses_all_that_dev_has_set(local: Path, monkeypatch: pytest.MonkeyPatch):
    shell = dev_shell(local)
    assert set(environment.left_of_dev({"PATH": "/bin", **shell})) == set(shell)
    for name, value in shell.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(environment, "ensure", giving(local))
    staging = Recorded("staging")
    lines: list[str] = []
    monkeypatch.setattr("builtins.print", lines.append)
    assert commands.env(staging) == 0
    script = f"{lines[0]}\n/usr/bin/env"
    left = subprocess.run(["/bin/sh", "-c", script], env=shell, capture_output=True, text=True, check=True).stdout
    # The policies guard every stack, and its own file names where its state is.
    guard = f"PULUMI_OPTION_POLICY_PACK={ROOT / 'policies'}"
    own = f"PULUMI_BACKEND_URL={staging.backend}"
    assert sorted(line for line in left.splitlines() if line.startswith(("PULUMI_", "CRUSOE_"))) == [own, guard]
    assert "PULUMI_HOME" in staging.said[0]


@pytest.mark.parametrize("theirs", ["", "s3://theirs"])
def test_a_stack_goes_to_the_backend_of_its_file_unless_the_shell_names_another(
    local: Path, monkeypatch: pytest.MonkeyPatch, theirs: str
):
    monkeypatch.setattr(environment, "ensure", giving(local))
    monkeypatch.setattr(session, "ROOT", local)
    monkeypatch.setenv("PULUMI_BACKEND_URL", theirs)
    (local / "Pulumi.prod.yaml").write_text("config:\n  state:backend: s3://ours\n")
    (local / "Pulumi.other.yaml").write_text("config: {}\n")
    assert Session("org/prod").environ["PULUMI_BACKEND_URL"] == (theirs or "s3://ours")
    assert Session("other").environ.get("PULUMI_BACKEND_URL") == theirs
    assert Session("none").environ.get("PULUMI_BACKEND_URL") == theirs


@pytest.mark.parametrize(
    "own",
    [
        {"PULUMI_BACKEND_URL": "s3://state", "PULUMI_CONFIG_PASSPHRASE": "", "PULUMI_SKIP_UPDATE_CHECK": "true"},
        {"PULUMI_BACKEND_URL": "file:///srv/state", "PULUMI_HOME": "/srv/home", "CRUSOE_ACCESS_KEY_ID": "mine"},
        {"CRUSOE_API_ENDPOINT": "http://127.0.0.1:8080/v1", "CRUSOE_SECRET_KEY": "mine"},
        {},
    ],
)
def test_what_the_user_has_set_stays(local: Path, own: dict[str, str]):
    assert local.exists()
    assert environment.left_of_dev(own) == []


@pytest.mark.parametrize(
    "url", ["file://{local}/state", "file://{local}", "file://./.local/x", "file://.local/state?a=b"]
)
@pytest.mark.parametrize("command", [commands.up, commands.preview, commands.refresh, commands.outputs, commands.down])
def test_the_state_of_a_real_stack_never_lands_where_clean_removes_it(
    local: Path, monkeypatch: pytest.MonkeyPatch, command: Callable[[Session], int], url: str
):
    url = url.format(local=str(local).replace(" ", "%20"))
    devs = environment.environment

    def in_that_shell(stack: str, backend: str) -> dict[str, str]:
        return devs(stack, {"PULUMI_BACKEND_URL": url}, backend)

    monkeypatch.setattr(session, "environment", in_that_shell)
    with pytest.raises(
        FrontDoorError, match=r'destroy the state of staging. Run `eval "\$\(make -s env STACK=staging\)"'
    ):
        command(Session("staging", ("--yes",)))


def write_stack(local: Path, name: str, resources: Sequence[Mapping[str, object]] = ()) -> Path:
    path = local / "state" / ".pulumi" / "stacks" / "platform" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    latest = {"resources": list(resources)} if resources else None
    path.write_text(json.dumps({"checkpoint": {"latest": latest}}))
    return path


@pytest.mark.parametrize("name", ["staging.json", "staging.json.gz"])
def test_clean_keeps_the_state_of_a_stack_that_is_not_devs(local: Path, name: str):
    write_stack(local, "dev.json")
    write_stack(local, "dev.json.bak")
    assert foreign.refusal(local) is None
    path = write_stack(local, name)
    said = Recorded()
    assert cleaning.clean(said) == 1
    assert path.exists()
    assert "holds the state of staging," in said.said[0]
    assert "pulumi stack rm staging --preserve-config" in said.said[0]
    path.unlink()
    assert cleaning.clean(said) == 0
    assert not local.exists()


def test_clean_asks_also_where_there_is_no_virtual_environment(tmp_path: Path):
    (tmp_path / "tools" / "front_door").mkdir(parents=True)
    for name in ("Makefile", "tools/__init__.py", "tools/places.py", "tools/front_door/__init__.py"):
        (tmp_path / name).write_bytes((ROOT / name).read_bytes())
    (tmp_path / "tools/front_door/foreign.py").write_bytes((ROOT / "tools/front_door/foreign.py").read_bytes())
    path = write_stack(tmp_path / ".local", "staging.json")
    refused = subprocess.run(["make", "clean"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert refused.returncode
    assert "Nothing was removed: .local holds the state of staging" in refused.stderr
    assert path.exists()
    path.unlink()
    subprocess.run(["make", "clean"], cwd=tmp_path, capture_output=True, check=True)
    assert not (tmp_path / ".local").exists()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("config:\n\tplatform: 1\n", r"Pulumi\.dev\.yaml line 2 is not YAML: .*'\\t'.* Mend it"),
        (None, r"Pulumi\.dev\.yaml can't be read: .*No such file"),
    ],
)
def test_settings_that_are_not_yaml_are_said_in_a_sentence(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, text: str | None, said: str
):
    (tmp_path / "Pulumi.yaml").write_text("name: platform")
    if text:
        (tmp_path / "Pulumi.dev.yaml").write_text(text)
    monkeypatch.setattr(session, "ROOT", tmp_path)
    monkeypatch.setattr(session, "STATE", tmp_path / "state")
    monkeypatch.setattr(session, "ensure", giving(tmp_path))
    with pytest.raises(FrontDoorError, match=said):
        Session("dev").prepare()


@pytest.mark.parametrize(
    ("runs_program", "runs_on", "expected"),
    [
        (True, 8787, ["down", "up --port=9999"]),
        (True, 9999, ["up --port=9999"]),
        (True, None, ["up --port=9999"]),
        (False, 9999, ["down", "up --port=8787"]),
        (False, 8787, ["up --port=8787"]),
    ],
)
def test_the_local_cloud_moves_to_where_it_is_looked_for(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, runs_program: bool, runs_on: int | None, expected: list[str]
):
    calls: list[str] = []

    def record(command: list[str], *_: object, **__: object) -> int:
        calls.append(" ".join(command[3:]))
        return 0

    provider = {"type": "pulumi:providers:crusoe", "inputs": {"endpoint": "http://127.0.0.1:8787/v1"}}
    write_stack(tmp_path, "dev.json", [{"type": "pulumi:pulumi:Stack"}, provider])
    (tmp_path / "Pulumi.yaml").write_text("name: platform")
    endpoint = "http://127.0.0.1:9999/v1"
    (tmp_path / "Pulumi.dev.yaml").write_text(json.dumps({"config": {"platform": {"cloud": {"endpoint": endpoint}}}}))
    monkeypatch.setattr(session, "ROOT", tmp_path)
    monkeypatch.setattr(session, "STATE", tmp_path / "state")
    monkeypatch.setattr(session, "ensure", giving(tmp_path))
    monkeypatch.setattr(session, "local_cloud_port", giving(runs_on))
    monkeypatch.setattr(session, "run", record)
    Session("dev").prepare(runs_program=runs_program)
    assert calls == expected


def test_down_and_refresh_go_where_the_state_says(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    write_stack(tmp_path, "dev.json", [{"type": "pulumi:pulumi:Stack"}])
    monkeypatch.setattr(commands, "STATE", tmp_path / "state")
    monkeypatch.setattr(Session, "project", "platform")
    for command, expected in ((commands.down, False), (commands.refresh, False), (commands.up, True)):
        dev = Recorded("dev")
        assert command(dev) == 0
        assert dev.runs_program is expected


def test_a_second_down_has_nothing_to_take_down(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    write_stack(tmp_path, "dev.json")
    monkeypatch.setattr(commands, "STATE", tmp_path / "state")
    monkeypatch.setattr(Session, "project", "platform")
    dev = Recorded("dev")
    assert commands.down(dev) == 0
    assert dev.asked == [("localcloud", "down")]
    assert "nothing to take down" in dev.said[0]
    write_lock(tmp_path / "state", pid=7, hostname="another-machine", timestamp="today")
    commands.down(dev)
    assert dev.prepared


def ending(error: BaseException) -> Callable[..., int]:
    def end(*_: object) -> int:
        raise error

    return end


@pytest.mark.parametrize(
    ("stack", "end", "said", "unsaid"),
    [
        ("dev", giving(1), "What was finished is kept: mend the cause", "README"),
        ("prod", giving(1), "step 3 of `A real environment` in README.md", "Stopped"),
        ("dev", giving(130), "Stopped by you", "mend the cause"),
        ("dev", ending(KeyboardInterrupt()), "Stopped by you", "mend the cause"),
        ("dev", ending(FrontDoorError("Refused.")), "Refused.\n", "What was finished"),
        ("dev", giving(0), "", "troubleshooting"),
    ],
)
def test_what_is_said_last_fits_how_it_ended(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    stack: str,
    end: Callable[[Session], int],
    said: str,
    unsaid: str,
):
    monkeypatch.setitem(commands.COMMANDS, "up", dataclasses.replace(commands.COMMANDS["up"], run=end))
    main(["up", "--stack", stack])
    shown = capsys.readouterr().err
    unwrapped = " ".join(shown.split())
    assert said.strip() in unwrapped
    assert unsaid not in unwrapped


def test_a_soak_takes_a_number_and_a_seed(monkeypatch: pytest.MonkeyPatch):
    asked: list[list[str]] = []

    def started(command: list[str], *_: object, **__: object) -> int:
        asked.append(command)
        return 0

    monkeypatch.setattr(checks, "run", started)
    monkeypatch.setattr(checks, "ensure", giving(Path("/tools")))
    assert checks.soak(Recorded("dev", "3", "7")) == 0
    assert asked[0][1:] == ["-m", "tests.soak", "3", "7"]
    for number, seed in (("0", "1"), ("x", "1"), ("1", "")):
        with pytest.raises(FrontDoorError, match=r"whole numbers, such as N=1 SEED=7"):
            checks.soak(Recorded("dev", number, seed))
    assert checks.faults(Recorded("dev", "pool")) == 0
    assert asked[1][1:] == ["-m", "tests.provider.faults", "pool"]
