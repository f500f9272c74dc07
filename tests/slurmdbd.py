"""A whole Slurm with accounting for tests: MariaDB, slurmdbd, slurmctld and one slurmd, real ones, in one box."""

from __future__ import annotations

import os
import shlex
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path

from localcloud.slurm.images import SLURM
from tests.box import Box, box, until

CLUSTER = "site"
HOST = "site-0"
PASSWORD = "only-in-this-box"
_START_SECONDS = 60.0

_SLURM_CONF = f"""\
ClusterName={CLUSTER}
SlurmctldHost={HOST}
SlurmUser=slurm
AuthType=auth/slurm
CredType=auth/slurm
AuthInfo=use_client_ids,cred_expire=10
SlurmctldParameters=enable_configless
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost={HOST}
StateSaveLocation=/var/spool/slurmctld
SlurmdSpoolDir=/var/spool/slurmd
SlurmctldLogFile=/var/log/slurm/slurmctld.log
SlurmdLogFile=/var/log/slurm/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
GresTypes=gpu
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
SlurmdParameters=config_overrides
SchedulerParameters=batch_sched_delay=0,sched_min_interval=0
MinJobAge=300
NodeName={HOST} CPUs=16 RealMemory=16000 Gres=gpu:h100:8 State=UNKNOWN
PartitionName=all Nodes={HOST} Default=YES DefMemPerCPU=100
"""
_SLURMDBD_CONF = f"""\
AuthType=auth/slurm
DbdHost={HOST}
SlurmUser=slurm
StorageType=accounting_storage/mysql
StorageHost=127.0.0.1
StorageUser=slurm
StoragePass={PASSWORD}
LogFile=/var/log/slurm/slurmdbd.log
PidFile=/run/slurmdbd/slurmdbd.pid
"""
_DATABASE = f"""\
set -e
mkdir -p /run/mysqld /var/lib/mysql
chown mysql: /run/mysqld /var/lib/mysql
own=(--no-defaults --user=mysql --datadir=/var/lib/mysql --socket=/run/mysqld/mysqld.sock)
mariadb-install-db "${{own[@]}}" --skip-test-db --auth-root-authentication-method=normal > /dev/null
cat > /var/lib/mysql/first.sql << 'END'
CREATE DATABASE slurm_acct_db;
CREATE USER slurm@localhost IDENTIFIED BY '{PASSWORD}';
GRANT ALL ON slurm_acct_db.* TO slurm@localhost;
END
mariadbd "${{own[@]}}" --init-file=/var/lib/mysql/first.sql --innodb-lock-wait-timeout=900 > /var/log/mariadb.log 2>&1 &
"""
_FOLDERS = """\
for folder in /var/spool/slurmctld /var/log/slurm /run/slurmctld /run/slurmdbd; do
  mkdir -p $folder && chown slurm: $folder
done
mkdir -p /var/spool/slurmd /run/slurmd
touch /dev/nvidia{0..7}
chown -R slurm: /etc/slurm && chmod 600 /etc/slurm/*.key /etc/slurm/slurmdbd.conf
"""
AS_SLURM = f"setpriv --reuid={SLURM} --regid={SLURM} --clear-groups"


# How each daemon is started, and a command that succeeds once it answers; in the order in which they are started.
DAEMONS = {
    "slurmdbd": (f"{AS_SLURM} slurmdbd -D", f"echo > /dev/tcp/{HOST}/6819"),
    "slurmctld": (f"{AS_SLURM} slurmctld -D", "scontrol ping | grep -q UP && sacctmgr -nP show cluster | grep -q ."),
    "slurmd": ("slurmd -D", f"scontrol show slurmd && sinfo -hN -n {HOST} -o %t | grep -qxE 'idle|drain'"),
}


@contextmanager
def slurm_with_accounting(folder: Path, conf: str = "", mounts: Mapping[str, Path] | None = None) -> Generator[Box]:
    """Start all of it. `conf` are more lines of slurm.conf; `mounts` are folders by where they are inside."""
    with only_database(folder, conf, mounts) as made:
        for name in DAEMONS:
            begin(made, name)
        yield made


@contextmanager
def only_database(folder: Path, conf: str = "", mounts: Mapping[str, Path] | None = None) -> Generator[Box]:
    """The same before any daemon of Slurm has begun."""
    etc = folder / "slurm"
    etc.mkdir(parents=True)
    files = {
        "slurm.conf": _SLURM_CONF + conf,
        "slurmdbd.conf": _SLURMDBD_CONF,
        "cgroup.conf": "CgroupPlugin=disabled\n",
        "gres.conf": "Name=gpu Type=h100 File=/dev/nvidia[0-7]\n",
    }
    for name, text in files.items():
        (etc / name).write_text(text)
    (etc / "slurm.key").write_bytes(os.urandom(1024))
    with box(HOST, {"/etc/slurm": etc, **(mounts or {})}) as made:
        made.bash(_FOLDERS)
        made.bash(_DATABASE)
        yield made


def begin(made: Box, name: str, inside: str = "") -> None:
    """Start a daemon, again and again until it stays, and wait until it answers.

    `inside` is put before the commands, and runs them where the programs are others.
    """
    daemon, answers = DAEMONS[name]
    loop = f"(for _ in $(seq 60); do {inside} {daemon} && break; sleep 0.5; done)"
    made.bash(f"{loop} > /var/log/{name}.out 2>&1 < /dev/null &")
    asked = f"{inside} bash -c {shlex.quote(answers)} > /dev/null 2>&1 && echo yes"
    try:
        until(lambda: "yes" in made.bash(asked, ok=False), _START_SECONDS, name)
    except AssertionError:
        said = made.bash(
            f"for log in /var/log/{name}.out /var/log/slurm/{name}.log; do tail -n 20 $log; done", ok=False
        )
        raise AssertionError(f"{name} does not answer: {said}") from None
