"""People as real programs see them: users, groups and keys in a container, while it runs on."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from components.settings import parse
from components.slurm import directory
from components.slurm.people import PeopleSettings
from tests.box import ADDRESS, Box, box, until

ADA = {"uid": 10001, "fullName": "Ada Lovelace", "groups": ["vision", "audit"]}
BOB = {"uid": 10002, "sudo": True}
GROUPS = {"vision": {"gid": 50001}, "audit": {"gid": 50002}}
SSHD = """\
Include /etc/ssh/sshd_config.d/*.conf
UsePAM yes
X11Forwarding yes
Subsystem sftp internal-sftp
"""
"""What Slinky's operator writes before `extraSshdConfig` (slurm-operator 1.2)."""

PAM = """\
auth required pam_deny.so
account required pam_unix.so
session required pam_limits.so
session required pam_unix.so
"""
"""The modules of Ubuntu's sshd that judge who comes in with a key."""


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A private key of each person, beside its public half."""
    folder = tmp_path_factory.mktemp("keys")
    with box("keys", {"/keys": folder}) as made:
        for name in ("ada", "bob", "eve", "root"):
            made.run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", name, "-f", f"/keys/{name}")
    return {name: folder / name for name in ("ada", "bob", "eve", "root")}


def people(keys: Mapping[str, Path], **users: Mapping[str, object]) -> dict[str, str]:
    document = {
        "groups": GROUPS,
        "users": {name: {**user, "keys": [keys[name].with_suffix(".pub").read_text()]} for name, user in users.items()},
    }
    return directory.files(parse(PeopleSettings, document, "people"), most_processes=300)


def write(folder: Path, files: Mapping[str, str]) -> None:
    """Bring a mounted ConfigMap up to date as a kubelet does: a new folder, then a link to it in one step."""
    number = len(list(folder.glob("..version*")))
    version = folder / f"..version{number}"
    version.mkdir(parents=True)
    for name, text in files.items():
        (version / name).write_text(text)
    draft = folder / "..data_tmp"
    draft.symlink_to(version.name)
    draft.replace(folder / "..data")
    for name in files:
        if not (folder / name).is_symlink():
            (folder / name).symlink_to(f"..data/{name}")
    for link in folder.glob("[!.]*"):
        if link.name not in files:
            link.unlink()


@contextmanager
def node(
    role: str, folder: Path, *, homes: bool = True, root: bool = False, home: Path | None = None, notice: int = 0
) -> Generator[Box]:
    """A login node or worker with the platform's hooks."""
    mounts = {directory.FOLDER: folder, **({"/home": home} if home else {})}
    start = directory.post_start(role, homes=homes)["exec"]["command"]
    stop = directory.login_pre_stop(notice)["exec"]["command"]
    files = {
        "ssh/sshd_config": SSHD + directory.sshd_conf(own=True, root=root),
        "pam.d/sshd": PAM,
        "skel/.profile": "export FROM_SKEL=yes\n",
        "sudoers.d/README": "",
    }
    with box("node", mounts, post_start=start, pre_stop=stop, files=files) as made:
        until(lambda: "people:" in made.log or "can't" in made.log, 20, "nobody was told of the people")
        yield made


def known(made: Box, name: str) -> bool:
    return "no such user" not in made.run("id", name, ok=False)


def serve(made: Box, keys: Mapping[str, Path]) -> None:
    """Start sshd, and have everybody's private key at hand."""
    made.bash("mkdir -p /run/sshd /keys; ssh-keygen -A; /usr/sbin/sshd")
    for name, key in keys.items():
        made.write(f"/keys/{name}", key.read_bytes(), "0600")


def ssh(key: str, user: str, *command: str) -> list[str]:
    options = ["StrictHostKeyChecking=no", "UserKnownHostsFile=/dev/null", "BatchMode=yes", "LogLevel=ERROR"]
    given = [word for option in options for word in ("-o", option)]
    return ["ssh", *given, "-i", f"/keys/{key}", f"{user}@{ADDRESS}", *command]


def refused(made: Box, key: str, user: str) -> bool:
    return "Permission denied" in made.run(*ssh(key, user, "true"), ok=False)


def test_people_have_their_numbers_groups_and_homes_everywhere(keys: Mapping[str, Path], tmp_path: Path) -> None:
    write(tmp_path, people(keys, ada=ADA, bob=BOB))
    for role in ("login", "worker"):
        with node(role, tmp_path) as made:
            wanted = "uid=10001(ada) gid=10001(ada) groups=10001(ada),50001(vision),50002(audit)"
            assert sorted(made.run("id", "ada").strip().split(",")) == sorted(wanted.split(","))
            assert "49999(slurm-sudo)" in made.run("id", "bob")
            assert made.run("stat", "-c", "%U %G %a", "/home/ada").strip() == "ada ada 700"
            # The image's own users stay, root first.
            assert made.run("id", "-u", "slurm").strip() == "401"
            assert made.bash("head -1 /etc/passwd").startswith("root:x:0:0:")
            sudoers = made.run("cat", "/etc/sudoers.d/people", ok=False)
            assert ("NOPASSWD" in sudoers) == (role == "login")


def test_somebody_is_added_changed_and_removed_while_the_node_runs_on(keys: Mapping[str, Path], tmp_path: Path) -> None:
    write(tmp_path, people(keys, ada=ADA, bob=BOB))
    with node("login", tmp_path) as made:
        before = made.process
        write(tmp_path, people(keys, ada={**ADA, "groups": ["vision"]}, eve={"uid": 10003}))
        until(lambda: known(made, "eve"), 20, "eve is not known")
        until(lambda: not known(made, "bob"), 20, "bob is still known")
        # Accounts, groups, keys and sudo rules are written one after the other.
        until(lambda: "audit" not in made.run("id", "ada"), 20, "ada is still in the group audit")
        until(
            lambda: made.bash("ls /etc/ssh/people").split() == ["ada", "eve"],
            20,
            "the keys are not those of ada and eve",
        )
        until(lambda: "people" not in made.bash("ls /etc/sudoers.d").split(), 20, "bob may still use sudo")
        assert made.process == before


def test_people_come_in_with_their_own_keys_and_nobody_else_does(keys: Mapping[str, Path], tmp_path: Path) -> None:
    write(tmp_path, people(keys, ada=ADA, bob=BOB))
    with node("login", tmp_path) as made:
        serve(made, keys)
        assert made.run(*ssh("ada", "ada", "id -un; pwd; ulimit -u")).split() == ["ada", "/home/ada", "300"]
        assert refused(made, "eve", "ada")
        assert refused(made, "ada", "bob")
        # A key beside the settings opens nothing, and root nothing at all.
        for user, home in (("ada", "/home/ada"), ("root", "/root")):
            made.bash(f"mkdir -p {home}/.ssh; ssh-keygen -y -f /keys/eve > {home}/.ssh/authorized_keys")
            made.bash(f"chown -R {user}: {home}/.ssh; chmod 700 {home}/.ssh")
            assert refused(made, "eve", user)
        write(tmp_path, people(keys, bob=BOB))
        until(lambda: refused(made, "ada", "ada"), 20, "ada still comes in")
        assert made.run(*ssh("bob", "bob", "id", "-un")).strip() == "bob"


def test_root_comes_in_with_its_key_where_the_settings_have_one(keys: Mapping[str, Path], tmp_path: Path) -> None:
    write(tmp_path, people(keys, ada=ADA))
    with node("login", tmp_path, root=True) as made:
        serve(made, keys)
        made.bash("mkdir -m 0700 -p /root/.ssh; ssh-keygen -y -f /keys/root > /root/.ssh/authorized_keys")
        assert made.run(*ssh("root", "root", "id", "-un")).strip() == "root"
        assert refused(made, "eve", "root")


def test_homes_are_made_where_root_has_no_rights(keys: Mapping[str, Path], tmp_path: Path) -> None:
    # A disk that squashes root can't be had here, so the folder's owner is somebody else and root may not write it:
    # setpriv takes the rights away that root has over other people's files.
    home = tmp_path / "home"
    home.mkdir()
    os.chown(home, 65534, 65534)
    home.chmod(0o1777)
    write(tmp_path / "lists", people(keys, ada=ADA))
    with node("worker", tmp_path / "lists", homes=False, home=home) as made:
        assert made.bash("ls /home").split() == []
        squashed = "setpriv --bounding-set=-chown,-fowner,-dac_override --inh-caps=-all "
        made.bash(f"rm /run/people/applied; {squashed} bash {directory.FOLDER}/apply login homes")
        assert made.run("stat", "-c", "%U %G %a", "/home/ada").strip() == "ada ada 700"
        assert made.run("cat", "/home/ada/.profile").startswith("export FROM_SKEL")


def test_where_nobody_may_make_homes_it_is_said_once_with_what_to_do(keys: Mapping[str, Path], tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    write(tmp_path / "lists", people(keys, ada=ADA))
    with node("worker", tmp_path / "lists", homes=False, home=home) as made:
        (home / "ada").mkdir()
        (home / "ada" / "kept").write_text("")
        made.bash(f"rm /run/people/applied; bash {directory.FOLDER}/apply login homes")
        said = made.bash(f"rm /run/people/trouble; bash {directory.FOLDER}/apply login homes")
        assert "/home/ada belongs to user 0, not 10001" in said
        assert made.bash(f"bash {directory.FOLDER}/apply login homes") == ""
        assert (home / "ada" / "kept").exists()
        made.bash("rm -r /home/ada")
        made.bash(f"bash {directory.FOLDER}/apply login homes")
        assert made.run("stat", "-c", "%U", "/home/ada").strip() == "ada"


def test_people_are_told_before_their_login_node_ends_and_it_waits_for_them(
    keys: Mapping[str, Path], tmp_path: Path
) -> None:
    write(tmp_path, people(keys, ada=ADA))
    with node("login", tmp_path, notice=1) as made:
        serve(made, keys)
        session = subprocess.Popen(
            made.command(*ssh("ada", "ada", "-tt", "echo here; sleep 1000")), stdout=subprocess.PIPE, text=True
        )
        assert session.stdout is not None
        assert session.stdout.readline().strip() == "here"
        made.end(grace=90)
        assert any("This login node ends in 1 min" in line for line in session.stdout)
        assert made.process is not None
        made.bash("kill -9 $(ps -eo pid=,uid= | awk '$2 == 10001 { print $1 }')")
        session.wait(20)
        until(lambda: made.process is None, 20, "the node waits for nobody")
