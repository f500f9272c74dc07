"""What the containers' images would do, played by the one folder with Slurm: pure functions.

A pod names images of Slinky, MariaDB and others that this machine never pulls. A container without a `command` runs its
image's entrypoint, which is recognised by the container's name; what each does here follows the images' documented
behaviour (Slinky's containers 26.05; MariaDB's `MARIADB_*` variables) as far as a pod can tell the difference.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

SLURM, MYSQL, NONROOT, NOBODY = 401, 999, 65532, 65534
USERS = (
    ("root", 0, "/root", "/bin/bash"),
    ("slurm", SLURM, "/var/lib/slurm", "/bin/bash"),
    ("sshd", 402, "/run/sshd", "/usr/sbin/nologin"),
    ("mysql", MYSQL, "/var/lib/mysql", "/bin/bash"),
    ("user", 1000, "/home/user", "/bin/bash"),
    ("nobody", NOBODY, "/nonexistent", "/usr/sbin/nologin"),
)
"""Users of every pod: name, id of user and group, home, shell. `user` is who submits jobs without any right."""

REST_SOCKET = "/run/local-cloud/slurmrestd.sock"
"""Where slurmrestd listens for the local cloud itself, beside what its arguments say."""

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass(frozen=True)
class Image:
    """What an image brings: its entrypoint, which gets the container's arguments, its user, its variables.

    `programs` are those that the folder with Slurm lacks: the name of a pinned tool by its place in the image.
    """

    entrypoint: Callable[[Sequence[str], Mapping[str, str]], Sequence[str]]
    user: int = 0
    env: Mapping[str, str] | None = None
    programs: Mapping[str, str] = field(default_factory=dict[str, str])


def _plain(program: str) -> Callable[[Sequence[str], Mapping[str, str]], Sequence[str]]:
    return lambda arguments, _env: [program, *arguments]


def _script(text: str) -> Callable[[Sequence[str], Mapping[str, str]], Sequence[str]]:
    return lambda arguments, _env: ["bash", "-euc", text, "bash", *arguments]


def slurmd(arguments: Sequence[str], env: Mapping[str, str]) -> Sequence[str]:
    """slurmd on its node: LOCAL_CPUS and LOCAL_MEMORY (MiB) are the size of the Kubernetes node.

    As the image does, POD_CPUS and POD_MEMORY are turned into what the node keeps for others (CoreSpecCount and
    MemSpecLimit), and POD_TOPOLOGY into Topology; what the NodeSet says itself wins. slurmd counts the CPUs of the
    machine with hwloc, which is shown those of the node (HWLOC_SYNTHETIC); memory it would read from the kernel, so it
    is told.
    """
    words = list(arguments)
    cpus, memory = int(env["LOCAL_CPUS"]), int(env["LOCAL_MEMORY"])
    sockets = 2 if cpus % 2 == 0 else 1
    command = ["env", f"HWLOC_SYNTHETIC=pack:{sockets} core:{cpus // sockets} pu:1", "slurmd"]
    if "--conf" not in words[:-1]:
        return [*command, *words]
    at = words.index("--conf") + 1
    kept_cpus = max(cpus - int(env.get("POD_CPUS") or cpus), 0)
    kept_memory = max(memory - int(env.get("POD_MEMORY") or memory), 0)
    items = {
        "RealMemory": str(memory),
        **({"CoreSpecCount": str(kept_cpus)} if kept_cpus else {}),
        **({"MemSpecLimit": str(kept_memory)} if kept_memory else {}),
        **({"Topology": env["POD_TOPOLOGY"]} if env.get("POD_TOPOLOGY") else {}),
    }
    said = {item.partition("=")[0].lower() for item in shlex.split(words[at])}
    added = [f"{name}={value}" for name, value in items.items() if name.lower() not in said]
    words[at] = " ".join([words[at], *added])
    return [*command, *words]


def slurmrestd(arguments: Sequence[str], _env: Mapping[str, str]) -> Sequence[str]:
    """slurmrestd with one more place to listen at.

    Tokens are the only way in there, as on its port: by default it would ask who is at the other end of a socket, and
    that is a process that its pod can't see.
    """
    ways = [] if "-a" in arguments else ["-a", "rest_auth/jwt"]
    return ["slurmrestd", *ways, *arguments, f"unix:{REST_SOCKET}"]


_MARIADB = """\
data=/var/lib/mysql
mkdir -p /run/mysqld "$data"
chown mysql: /run/mysqld "$data" 2>/dev/null || true
settings=$(ls /etc/mysql/conf.d/*.cnf 2>/dev/null | head -1)
own=(--no-defaults)
[ -z "$settings" ] || own=(--defaults-file="$settings")
own+=(--user=mysql --datadir="$data" --socket=/run/mysqld/mysqld.sock)
if [ ! -d "$data/mysql" ]; then
    mariadb-install-db "${own[@]}" --skip-test-db --auth-root-authentication-method=normal
    text=/run/mysqld/init.sql
    quoted() { printf "'%s'" "${1//\\'/\\'\\'}"; }
    {
        printf 'ALTER USER root@localhost IDENTIFIED BY %s;\\n' "$(quoted "${MARIADB_ROOT_PASSWORD-}")"
        [ -z "${MARIADB_DATABASE-}" ] || printf 'CREATE DATABASE IF NOT EXISTS `%s`;\\n' "$MARIADB_DATABASE"
        if [ -n "${MARIADB_USER-}" ]; then
            user="$(quoted "$MARIADB_USER")@'%'"
            printf 'CREATE USER IF NOT EXISTS %s IDENTIFIED BY %s;\\n' "$user" "$(quoted "${MARIADB_PASSWORD-}")"
            [ -z "${MARIADB_DATABASE-}" ] || printf 'GRANT ALL ON `%s`.* TO %s;\\n' "$MARIADB_DATABASE" "$user"
        fi
    } > "$text"
    chown mysql: "$text" 2>/dev/null || true
    own+=(--init-file="$text")
fi
exec mariadbd "${own[@]}" --bind-address=0.0.0.0 "$@"
"""

_LOGIN = """\
mkdir -p /run/sshd /run/slurm
sackd $SACKD_OPTIONS &
ssh-keygen -A
exec /usr/sbin/sshd -D -e "$@"
"""

_RECONFIGURE = """\
# As Slinky's sidecar: a look every 5 s, a reconfiguration when a file has changed.
before=$(cat /etc/slurm/* | sha256sum)
while sleep 5; do
    after=$(cat /etc/slurm/* | sha256sum)
    [ "$after" = "$before" ] || { scontrol reconfigure && before=$after; }
done
"""

_IMAGES: Mapping[str, Image] = {
    "slurmctld": Image(_plain("slurmctld"), user=SLURM),
    "slurmdbd": Image(_plain("slurmdbd"), user=SLURM),
    "slurmrestd": Image(slurmrestd, user=NOBODY),
    "slurmd": Image(slurmd),
    "mariadb": Image(_script(_MARIADB)),
    "login": Image(_script(_LOGIN)),
    "initconf": Image(_script("true")),
    "reconfigure": Image(_script(_RECONFIGURE), user=SLURM),
    "alertmanager": Image(
        _plain("/alertmanager-program"), user=NOBODY, programs={"/alertmanager-program": "alertmanager"}
    ),
    # Kueue's; the user is that of the image.
    "manager": Image(_plain("/manager"), user=NONROOT, programs={"/manager": "kueue"}),
}
_UNKNOWN = Image(lambda arguments, _env: arguments or ["sleep", "infinity"])


def image_of(container: str) -> Image:
    """The image of a container by the container's name; one that nobody knows runs its arguments, or sleeps."""
    return _IMAGES.get(container, _UNKNOWN)


def passwd(*, single_user: bool) -> str:
    """/etc/passwd of every pod; with a single user all names are that user's."""
    return "".join(
        f"{name}:x:{0 if single_user else number}:{0 if single_user else number}::{home}:{shell}\n"
        for name, number, home, shell in USERS
    )


def group(*, single_user: bool) -> str:
    """/etc/group of every pod."""
    return "".join(f"{name}:x:{0 if single_user else number}:\n" for name, number, _, _ in USERS)
