"""Slurm goes from 24.11 to 26.05, daemon by daemon in the runbook's order, and keeps its queue, history and limits.

A daemon of the older release runs in the same box with that release's `/usr`, as an older image would bring it. What
the two have in common is what pods keep: the configuration, the state files and the database.
"""

from __future__ import annotations

import shlex
from collections.abc import Generator
from dataclasses import dataclass, field

import pytest

from tests.box import Box
from tests.harness import until
from tests.slurmdbd import AS_SLURM, CLUSTER, DAEMONS, HOST, begin, only_database
from tools.errors import ToolMissingError
from tools.slurm_root.packages import LINE, UPGRADE
from tools.slurm_root.root import folder as slurm_root

pytestmark = pytest.mark.integration

PLACE = "/opt/older"
_MOUNT = f'{PLACE}/usr/bin/mount --bind --options ro {PLACE}/usr /usr && exec "$@"'
OLDER = f"unshare --mount --propagation unchanged bash -c '{_MOUNT}' bash"
"""What runs a command with the programs of the older release."""

CONF = "AccountingStorageEnforce=associations,limits\nPriorityType=priority/basic\n"
USER = "setpriv --reuid=1000 --regid=1000 --clear-groups"
GATE = "/tmp/gate"
UNTIL_GATE = f"until test -e {GATE}; do sleep 0.1; done; "
FIRST, WHOLE_NODE = "--priority=900", "--cpus-per-task=16"


@dataclass
class Site:
    """A cluster in a box; `older` are its daemons of the older release."""

    box: Box
    older: set[str] = field(default_factory=lambda: set(DAEMONS))

    def run(self, command: str) -> str:
        """The output of a command where slurmctld is, as the runbook has it."""
        return self.box.bash(f"{self._inside('slurmctld')} {command}").strip()

    def submit(self, *options: str, script: str = "") -> str:
        """Submit a job as a user, which writes down the release that it runs on."""
        command = ["sbatch", "--parsable", "--chdir=/tmp", "--output=/tmp/%j", *options]
        return self.run(f"{USER} {shlex.join([*command, f'--wrap={script}scontrol --version'])}")

    def ended(self, *numbers: str) -> bool:
        """Whether jobs are in the history as ended well."""
        return set(numbers) <= set(self.run("sacct -nXPa -S now-1hour -E now -s CD -o JobID").split())

    def output(self, number: str) -> str:
        """What a job has written."""
        return self.box.run("cat", f"/tmp/{number}")

    def start(self, daemon: str) -> None:
        """Start a daemon, and wait until it answers."""
        begin(self.box, daemon, self._inside(daemon))

    def stop(self, daemon: str) -> None:
        """End a daemon as the end of its pod does."""
        self.box.run("pkill", "--oldest", "--exact", daemon)
        until(lambda: not self.box.run("pgrep", "--exact", daemon, ok=False), 20, f"the end of {daemon}")

    def renew(self, daemon: str) -> None:
        """Start the newer release of a daemon that has been stopped."""
        self.older.discard(daemon)
        if daemon == "slurmd":
            # A worker's next pod has a new /run. In the same one slurmd 26.05 ends: 24.11 gives the folder to slurm.
            self.box.run("rm", "-r", "/run/slurm")
        self.start(daemon)

    def kept(self, running: str, ended: str) -> dict[str, str]:
        """What has to be the same after each step."""
        shown = self.run(f"scontrol --oneliner show job {running}").split()
        return {
            "queue": self.run("squeue -h -t PD,R --sort=-p,i -o '%i %T %Q %E'"),
            "running": " ".join(word for word in shown if word.startswith(("JobState=", "Restarts=", "StartTime="))),
            "history": self.run(f"sacct -nXP -j {ended} -o JobID,Account,User,State,Start,End"),
            "limits": self.run("sacctmgr -nP show assoc format=cluster,account,user,maxjobs,grptres"),
        }

    def _inside(self, daemon: str) -> str:
        return OLDER if daemon in self.older else ""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Generator[Site]:
    """Accounting, slurmctld and one worker of the older release, with one user, who may order the queue."""
    try:
        older = slurm_root(UPGRADE)
    except ToolMissingError as error:
        pytest.skip(str(error))
    with only_database(tmp_path_factory.mktemp("site"), CONF, {PLACE: older}) as box:
        site = Site(box)
        for daemon in DAEMONS:
            site.start(daemon)
        site.run("sacctmgr -i add account lab set grptres=cpu=64")
        site.run("sacctmgr -i add user user account=lab maxjobs=7 adminlevel=operator")
        yield site


def test_queue_history_and_limits_stay_and_the_running_job_goes_on(site: Site) -> None:
    ended = site.submit(FIRST)
    until(lambda: site.ended(ended), 20, "the first job is history")
    running = site.submit(FIRST, "--cpus-per-task=8", script=UNTIL_GATE)
    until(lambda: "JobState=RUNNING" in site.run(f"scontrol show job {running}"), 20, "a job runs")
    later, sooner = (site.submit(WHOLE_NODE, f"--priority={each}") for each in (100, 200))
    dependent = site.submit(WHOLE_NODE, "--priority=50", f"--dependency=afterok:{running}")
    held = site.submit("--hold")
    before = site.kept(running, ended)
    assert before["queue"].splitlines() == [
        f"{running} RUNNING 900 (null)",
        f"{sooner} PENDING 200 (null)",
        f"{later} PENDING 100 (null)",
        f"{dependent} PENDING 50 afterok:{running}(unfulfilled)",
        f"{held} PENDING 0 (null)",
    ]
    assert before["history"].startswith(f"{ended}|lab|user|COMPLETED|")
    assert {f"{CLUSTER}|lab|||cpu=64", f"{CLUSTER}|lab|user|7|"} <= set(before["limits"].splitlines())

    site.stop("slurmdbd")
    meanwhile = site.submit(FIRST)
    until(lambda: "JobState=COMPLETED" in site.run(f"scontrol show job {meanwhile}"), 20, "a job without slurmdbd")
    site.renew("slurmdbd")
    assert site.kept(running, ended) == before
    until(lambda: site.ended(meanwhile), 30, "a job that ended without slurmdbd is history")

    site.stop("slurmctld")
    site.renew("slurmctld")
    assert site.kept(running, ended) == before
    on_older = site.submit(FIRST)
    until(lambda: site.ended(on_older), 30, "a job on the worker of the older release")

    site.run(f"scontrol update nodename={HOST} state=drain reason=upgrade")
    site.box.run("touch", GATE)
    # Not before the node is free: a slurmd that ends while its node is draining leaves it so for a minute or longer.
    until(lambda: site.run("sinfo -hN -o %T") == "drained", 20, "the job that ran all the time ends")
    until(lambda: site.ended(running), 20, "it is history")
    assert "Restarts=0" in site.run(f"scontrol show job {running}")
    assert [site.output(number) for number in (ended, running, meanwhile, on_older)] == [site.output(ended)] * 4
    assert UPGRADE.line in site.output(ended)
    site.stop("slurmd")
    site.renew("slurmd")
    until(lambda: site.run("sinfo -hN -o %v").startswith(LINE), 20, "the worker has the newer release")
    assert site.run("squeue -h --sort=-p,i -o %i").split() == [sooner, later, dependent, held]

    site.run(f"scontrol update nodename={HOST} state=resume")
    until(lambda: site.ended(sooner, later, dependent), 30, "the waiting jobs end")
    assert site.box.bash(f"cd /tmp && ls -tr {sooner} {later} {dependent}").split() == [sooner, later, dependent]
    site.run(f"scontrol release {held}")
    until(lambda: site.ended(held), 20, "the held job ends")
    assert all(LINE in site.output(number) for number in (sooner, later, dependent, held))


def test_the_older_slurmctld_refuses_the_state_and_leaves_it_as_it_is(site: Site) -> None:
    upgraded(site)
    waiting = site.submit("--hold")
    site.stop("slurmctld")
    files = "cd /var/spool/slurmctld && sha256sum *_state *_usage"
    before = site.box.bash(files)
    said = site.box.bash(f"{OLDER} timeout 20 {AS_SLURM} slurmctld -D", ok=False)
    assert "fatal: Can not recover assoc_usage state, incompatible version" in said
    assert site.box.bash(files) == before
    site.start("slurmctld")
    assert f"{waiting} PENDING" in site.run("squeue -h -o '%i %T'")


def test_the_older_slurmdbd_does_not_refuse_the_database_and_drops_what_is_new_in_it(site: Site) -> None:
    upgraded(site)
    number = site.submit(FIRST)
    until(lambda: site.ended(number), 30, "a job is history")
    assert identity(site, number) != "0"
    site.stop("slurmdbd")
    begin(site.box, "slurmdbd", OLDER)
    site.stop("slurmdbd")
    site.start("slurmdbd")
    assert site.ended(number)
    assert identity(site, number) == "0"


def upgraded(site: Site) -> None:
    """Have all daemons of the newer release; by themselves these tests have not upgraded any."""
    for daemon in DAEMONS:
        if daemon in site.older:
            site.stop(daemon)
            site.renew(daemon)


def identity(site: Site, number: str) -> str:
    """The job's SLUID in the database, a column that 24.11 does not have."""
    query = f"SELECT sluid FROM slurm_acct_db.{CLUSTER}_job_table WHERE id_job = {number}"
    return site.box.run("mariadb", "--no-defaults", "--socket=/run/mysqld/mysqld.sock", "-N", "-e", query).strip()
