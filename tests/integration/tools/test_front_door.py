"""`make up` and its neighbours end to end, on a clone with the tiny project and a local cloud that only takes notes."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.integration.tools.support import creating, lay_out, wait_until
from tools.places import ROOT

pytestmark = pytest.mark.integration

LOCAL_CLOUD = """
import sys
from pathlib import Path
with Path("calls").open("a") as file:
    print(sys.argv[1], file=file)
if sys.argv[1] == "console":
    if "up" not in Path("calls").read_text().split():
        sys.exit("error: no local cloud runs")
    print("http://127.0.0.1:9/console/")
if sys.argv[1] == "env":
    print("export CRUSOE_ACCESS_KEY_ID=key CRUSOE_SECRET_KEY='a secret'")
"""


class Clone:
    """A clone of this project with another program in it."""

    def __init__(self, folder: Path, home: Path) -> None:
        self.folder = folder
        kept = {key: value for key, value in os.environ.items() if not key.startswith(("PULUMI_", "CRUSOE_"))}
        # The tool cache stays where it is: nothing is fetched here.
        cache = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
        self.environ = {**kept, "HOME": str(home), "XDG_CACHE_HOME": cache, "PATH": "/usr/bin:/bin"}

    def command(self, name: str, *arguments: str, stack: str = "dev") -> list[str]:
        python = str(self.folder / ".venv" / "bin" / "python")
        return [python, "-m", "tools.front_door", name, "--stack", stack, "--", *arguments]

    def run(self, name: str, *arguments: str, stack: str = "dev", **environ: str) -> subprocess.CompletedProcess[str]:
        return self.shell(self.command(name, *arguments, stack=stack), **environ)

    def shell(self, command: list[str], **environ: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command,
            cwd=self.folder,
            env={**self.environ, **environ},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=90,
            check=False,
        )

    def start(self, name: str, *arguments: str, **environ: str) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            self.command(name, *arguments),
            cwd=self.folder,
            env={**self.environ, **environ},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            process_group=0,
        )

    def kill_an_up_while_it_creates(self) -> None:
        """Run an `up` up to a create that takes long, then kill its pulumi."""
        up = self.start("up", TINY_NAME="two", TINY_TEXT="slow")
        wait_until(lambda: creating(self.folder / ".local" / "state"), "the create", seconds=30)
        listed = subprocess.run(["pgrep", "-f", f"{self.folder}/.local/bin/pulumi up"], capture_output=True, text=True)
        [pulumi] = listed.stdout.split()
        os.kill(int(pulumi), signal.SIGKILL)
        assert up.wait(20) == 128 + signal.SIGKILL

    @property
    def calls(self) -> list[str]:
        return (self.folder / "calls").read_text().split()

    @property
    def changes(self) -> str:
        """What git sees changed."""
        return self.shell(["git", "status", "--porcelain"]).stdout


@pytest.fixture
def clone(tmp_path: Path) -> Clone:
    lay_out(folder := tmp_path / "clone")
    (folder / "environment").unlink()
    for name in ("Pulumi.yaml", "plugin/PulumiPlugin.yaml"):
        path = folder / name
        path.write_text(path.read_text().replace("environment", ".venv"))
    shutil.copytree(ROOT / "tools", folder / "tools", ignore=shutil.ignore_patterns("go", "__pycache__"))
    for name in ("policies", "crusoe"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("provider", "__pycache__"))
    (folder / ".venv").symlink_to(sys.prefix)
    (folder / "localcloud").mkdir()
    (folder / "localcloud" / "__init__.py").touch()
    (folder / "localcloud" / "__main__.py").write_text(LOCAL_CLOUD)
    shutil.copy(ROOT / ".gitignore", folder)
    (tmp_path / "home").mkdir()
    made = Clone(folder, tmp_path / "home")
    for arguments in (
        ["init", "-q"],
        ["add", "."],
        ["-c", "user.name=t", "-c", "user.email=t@example.com", "commit", "-q", "-m", "all"],
    ):
        assert made.shell(["git", *arguments]).returncode == 0
    with (folder / ".git" / "info" / "exclude").open("a") as file:
        print("/.venv\n/calls", file=file)
    return made


def test_up_from_nothing_then_by_hand_then_down(clone: Clone):
    up = clone.run("up")
    assert up.returncode == 0, up.stdout
    assert "+ 2 created" in up.stdout
    assert "warning" not in up.stdout
    end = up.stdout[up.stdout.index("Outputs of the stack dev:") :]
    assert "HELLO" in end
    assert re.findall(r"^  (eval|make \w+)", end, re.M) == ["eval", "make preview", "make down"]
    assert clone.changes == ""

    prepare = " ".join(clone.command("env"))
    by_hand = clone.shell(["sh", "-c", f'eval "$({prepare} 2>/dev/null)" && pulumi up -s dev --yes'])
    assert by_hand.returncode == 0, by_hand.stdout
    assert "2 unchanged" in by_hand.stdout
    # The policies guard what is typed as well.
    assert all("crusoe-gpu-platform@v" in each.stdout for each in (up, by_hand))
    assert "warning" not in by_hand.stdout

    outputs = clone.run("outputs", "--json")
    assert '"shout": "HELLO"' in outputs.stdout
    assert clone.run("preview", "--expect-no-changes").returncode == 0
    assert clone.run("refresh").returncode == 0

    down = clone.run("down")
    assert down.returncode == 0, down.stdout
    assert "- 2 deleted" in down.stdout
    assert clone.calls[-1] == "down"
    assert clone.changes == ""
    assert not (clone.folder.parent / "home" / ".pulumi").exists()


def test_a_report_and_a_picture_of_a_foreign_program(clone: Clone):
    for name in ("gitops", "crusoe/catalog.py", "crusoe/catalog.yaml", "crusoe/__init__.py", "crusoe/rules"):
        source, target = ROOT / name, clone.folder / name
        target.parent.mkdir(exist_ok=True)
        shutil.copytree(source, target, dirs_exist_ok=True) if source.is_dir() else shutil.copy(source, target)
    reports = clone.folder / ".local/reports/dev"
    told = clone.run("report")
    assert told.returncode == 0, told.stdout
    assert "Resources: 1 created" in told.stdout
    assert "tiny:index:Thing" in (reports / "report.md").read_text()
    assert json.loads((reports / "report.json").read_text())["verdict"]["outcome"] == "safe"
    assert clone.run("diagram").returncode == 0
    assert "Thing" in (reports / "diagram.svg").read_text()

    deployed = clone.run("deploy")
    assert deployed.returncode == 0, deployed.stdout
    assert "+ 2 created" in deployed.stdout
    assert not (reports / "plan.json").exists()
    assert clone.run("drift").returncode == 0

    failed = clone.run("report", TINY_FAIL="run-error")
    assert failed.returncode == 20
    assert "one plain sentence" in failed.stdout
    assert "docs/gitops.md" in failed.stdout
    # No report is better than the last one's.
    assert "one plain sentence" in (reports / "report.md").read_text()
    assert clone.run("deploy", TINY_FAIL="run-error").returncode == 20
    assert clone.run("report", TINY_PROTECT="yes").returncode == 0
    assert clone.run("down").returncode == 0


def test_after_a_kill_up_clears_what_it_left_and_says_so(clone: Clone):
    assert clone.run("up").returncode == 0
    clone.kill_an_up_while_it_creates()
    up = clone.run("up", TINY_NAME="two")
    assert up.returncode == 0, up.stdout
    assert "was killed; clearing the lock it left (pulumi cancel)" in up.stdout
    assert "cut off while creating two (tiny:index:Thing); clearing that" in up.stdout
    assert "pending" not in up.stdout.replace("--clear-pending-creates", "")
    assert clone.run("preview", "--expect-no-changes", TINY_NAME="two").returncode == 0


def test_after_a_kill_the_documented_lines_do_for_plain_pulumi(clone: Clone):
    assert clone.run("up").returncode == 0
    clone.kill_an_up_while_it_creates()
    page = (ROOT / "docs" / "troubleshooting.md").read_text()
    lines = re.findall(r"a test runs these lines -->\n```sh\n(.*?)```", page, re.S)
    prepare = (
        "export PATH=$PWD/.local/bin:$PATH PULUMI_BACKEND_URL=file://$PWD/.local/state PULUMI_CONFIG_PASSPHRASE="
        " PULUMI_HOME=$PWD/.local/pulumi-home"
    )
    blocked = clone.shell(["sh", "-c", f"{prepare}\npulumi up --yes -s dev"])
    assert blocked.returncode != 0
    assert "locked" in blocked.stdout
    cleared = clone.shell(["sh", "-ec", f"{prepare}\n{lines[0]}\npulumi up --yes -s dev"], TINY_NAME="two")
    assert cleared.returncode == 0, cleared.stdout
    assert "pending" not in cleared.stdout[cleared.stdout.index("Updating") :]


def test_a_run_that_is_alive_keeps_its_lock(clone: Clone):
    assert clone.run("up").returncode == 0
    up = clone.start("up", TINY_NAME="two", TINY_TEXT="slow")
    locks = clone.folder / ".local" / "state" / ".pulumi" / "locks" / "organization" / "tiny" / "dev"
    wait_until(lambda: any(locks.glob("*.json")), "the lock")
    second = clone.run("up")
    assert second.returncode == 1
    assert "works on the stack dev" in second.stdout
    assert "Updating" not in second.stdout
    for _ in range(2):
        os.killpg(up.pid, signal.SIGINT)
        time.sleep(0.5)
    up.communicate(timeout=20)


def test_an_interrupt_ends_it_in_order_and_the_next_run_finishes(clone: Clone):
    up = clone.start("up", TINY_TEXT="slow")
    wait_until(lambda: creating(clone.folder / ".local" / "state"), "the create", seconds=30)
    for _ in range(2):
        os.killpg(up.pid, signal.SIGINT)
        time.sleep(0.5)
    shown = up.communicate(timeout=20)[0]
    assert up.returncode != 0
    assert "Traceback" not in shown
    again = clone.run("up")
    assert again.returncode == 0, again.stdout
    assert "HELLO" in again.stdout


def test_down_stops_at_what_is_protected_before_touching_anything(clone: Clone):
    assert clone.run("up", TINY_PROTECT="yes").returncode == 0
    down = clone.run("down")
    assert down.returncode == 1
    assert "Nothing was touched" in down.stdout
    assert "one (tiny:index:Thing)" in down.stdout
    assert "deleted" not in down.stdout
    assert clone.calls[-1] != "down"
    assert '"shout": "HELLO"' in clone.run("outputs", "--json").stdout
    assert clone.run("up").returncode == 0
    assert clone.run("down").returncode == 0


def test_the_console_starts_a_cloud_that_is_down_and_leaves_the_stack_alone(clone: Clone):
    for calls in (["console", "up", "console"], ["console", "up", "console", "console"]):
        shown = clone.run("console", DISPLAY="", WAYLAND_DISPLAY="")
        assert shown.returncode == 0, shown.stdout
        assert "http://127.0.0.1:9/console/" in shown.stdout.splitlines()
        assert clone.calls == calls
    assert not (clone.folder / ".local" / "state").exists()


def test_down_without_a_stack_stops_the_cloud_only(clone: Clone):
    down = clone.run("down")
    assert down.returncode == 0
    assert "nothing to take down" in down.stdout
    assert clone.calls == ["down"]


def test_another_stack_uses_the_users_own_backend_and_is_asked_first(clone: Clone):
    home = clone.folder.parent / "home"
    own = {
        "PULUMI_BACKEND_URL": home.as_uri(),
        "PULUMI_CONFIG_PASSPHRASE": "mine",
        "PULUMI_SKIP_UPDATE_CHECK": "true",
    }
    pulumi = str(clone.folder / ".local" / "bin" / "pulumi")
    refused = clone.run("up", stack="other", **own)
    assert refused.returncode == 1
    assert "There is no terminal to ask on before changing the stack other." in refused.stdout
    clone.run("preview", stack="other", **own)
    (clone.folder / "Pulumi.other.yaml").write_text("config:\n  tiny:object: {a: 1}\n")
    assert clone.shell([pulumi, "stack", "init", "other"], **own).returncode == 0
    up = clone.run("up", "--yes", stack="other", **own)
    assert up.returncode == 0, up.stdout
    assert (home / ".pulumi" / "stacks" / "tiny" / "other.json").exists()
    assert not (clone.folder / "calls").exists()
    assert clone.run("down", "--yes", stack="other", **own).returncode == 0


def test_clean_leaves_nothing_of_a_run(clone: Clone):
    assert clone.run("up").returncode == 0
    (clone.folder / ".local" / "cloud").mkdir()
    clean = clone.run("clean")
    assert clean.returncode == 0, clean.stdout
    assert clone.calls[-1] == "down"
    assert not (clone.folder / ".local").exists()
    assert list((clone.folder / "tools").rglob("__pycache__")) == []


def in_a_mount_of_its_own(clone: Clone, script: str) -> subprocess.CompletedProcess[str]:
    """Run a script as root of a mount namespace, in which `$UP` is `make up` and what it mounts ends with it."""
    if os.geteuid() != 0 or shutil.which("unshare") is None:
        pytest.skip("only root may mount")
    up = " ".join(clone.command("up"))
    return clone.shell(["unshare", "--mount", "sh", "-c", f"UP='{up}'\n{script}"])


@pytest.mark.parametrize(
    ("mount", "told"),
    [
        ("mount -t tmpfs -o size=1m none .local/state", "has 1 MiB left, and a run needs 64"),
        ("mount --bind .local .local && mount -o remount,ro,bind .local", "can't be written to"),
    ],
    ids=["full", "read-only"],
)
def test_a_disk_that_takes_nothing_is_told_in_one_sentence_and_nothing_is_changed(clone: Clone, mount: str, told: str):
    assert clone.run("up").returncode == 0
    state = clone.folder / ".local/state"
    before = {path: path.read_bytes() for path in state.rglob("*") if path.is_file()}
    refused = in_a_mount_of_its_own(clone, f"{mount} && TINY_NAME=two $UP")
    assert refused.returncode == 1, refused.stdout
    assert told in refused.stdout
    assert "Nothing was changed." in refused.stdout
    assert "Traceback" not in refused.stdout
    assert {path: path.read_bytes() for path in state.rglob("*") if path.is_file()} == before
    assert clone.run("preview", "--expect-no-changes").returncode == 0
