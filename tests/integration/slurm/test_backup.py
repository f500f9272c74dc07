"""Slurm's queue and history come back from a backup, by the runbook's own lines, after both were lost."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.harness import Cloud, Project, changes, until
from tests.integration.slurm.conftest import KEY, Site
from tests.runbooks import Shell, blocks

pytestmark = pytest.mark.integration

DATABASE = ("mariadb-0", "mariadb")


@pytest.fixture(scope="module")
def site(cloud: Cloud, folder: Path) -> Site:
    """The dev stack with one worker, and with accounting."""
    project = Project(folder / "backup", cloud, "backup")
    project.init()
    slurm = {"people": {"users": {"ada": {"uid": 10001, "keys": [KEY]}}}, "accounting": {"enabled": True}}
    project.use_settings("dev", {"nodePools": {"train": {"count": 1}}, "slurm": slurm}, slurm=True)
    project.up()
    return Site(project)


def ended(site: Site) -> set[str]:
    """Jobs that the accounting says have ended well; none while it does not answer."""
    return set(
        site.slurm("sacct", "-nXPa", "-S", "now-1hour", "-E", "now", "-s", "CD", "-o", "JobID", check=False).out.split()
    )


def test_queue_and_history_are_as_they_were_at_the_backup(site: Site) -> None:
    backup, stop, database, state, start, pod = blocks("backup-slurm-state.md")
    shell = Shell(site.project, {"KUBECONFIG": str(site.project.folder / "kubeconfig")})
    (site.project.folder / "restore.yaml").write_text(pod.text)
    before = site.submit("true", "--gpus=1", "--time=5")
    until(lambda: ended(site) == {before}, 60, "the first job is history")
    waiting = site.submit("true", "--gpus=1", "--time=5", "--hold")
    # A slurmctld that has begun less than five minutes ago has not written all of its files; one that ends does.
    site.slurm("scontrol", "reconfigure")
    until(lambda: site.job(waiting).get("JobState") == "PENDING", 60, "slurmctld answers again")
    shell.follow(backup)

    after = site.submit("true", "--gpus=1", "--time=5")
    until(lambda: ended(site) == {before, after}, 60, "another job is history")
    site.slurm("scancel", waiting)
    lost = f"DELETE FROM slurm_acct_db.{site.project.stack}_job_table"
    site.shell(f'mariadb -uroot -p"$MARIADB_ROOT_PASSWORD" -e "{lost}"', pod=DATABASE)
    assert ended(site) == set()

    shell.follow(stop, database, state, start)
    until(lambda: site.job(waiting).get("JobState") == "PENDING", 120, "the job waits again")
    until(lambda: ended(site) == {before}, 60, "the history is that of the backup")
    site.wait_for_idle({"train-0"})
    site.slurm("scontrol", "release", waiting)
    until(lambda: ended(site) == {before, waiting}, 60, "the job that was lost has run")
    assert changes(site.project.preview()) == {}
