"""Accounts, QOS and limits of the settings in a real slurmdbd, and what real jobs make of them."""

from __future__ import annotations

import re
from collections.abc import Generator, Mapping
from typing import Any

import pytest

from components.settings import Settings, parse
from components.slurm import accounts, directory
from components.slurm.account_settings import AccountSettings, QosSettings
from components.slurm.people import PeopleSettings
from tests.box import Box, until
from tests.slurmdbd import CLUSTER, HOST, slurm_with_accounting

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIExampleExample somebody"
USERS = {"ada": 10001, "bob": 10002, "eve": 10003, "joe": 10004}
CONF = """\
AccountingStorageEnforce=associations,limits,qos,safe
AccountingStorageTRES=gres/gpu,gres/gpu:h100
PriorityType=priority/multifactor
PriorityWeightQOS=1000
PreemptType=preempt/qos
PreemptMode=REQUEUE
JobRequeue=1
"""
ACCOUNTS: dict[str, Any] = {
    # Below an account that comes after it.
    "vision": {"parent": "research", "grpTres": {"gres/gpu": 4}, "users": {"ada": {"maxSubmitJobs": 3}}},
    "research": {
        "description": "Research and more",
        "fairshare": 10,
        "qos": ["normal", "urgent", "scavenger"],
        "defaultQos": "scavenger",
        "grpTresMins": {"gres/gpu": 1000, "mem": "2T"},
        "users": {"ada": {"default": True}, "bob": {"maxWall": "1:00:00"}},
    },
    "other": {"maxTresPerJob": {"gres/gpu:h100": 2, "cpu": 4}, "maxJobs": 1, "users": {"eve": {"fairshare": 3}}},
}
QOS: dict[str, Any] = {
    "urgent": {
        "description": "Deadlines",
        "priority": 100,
        "preempt": ["scavenger"],
        "flags": ["DenyOnLimit"],
        "maxTresPerUser": {"gres/gpu": 2},
        "minTresPerJob": {"gres/gpu": 1},
        "maxWall": "4:00:00",
    },
    "scavenger": {"graceTime": 1, "usageFactor": 0.5, "preemptMode": "requeue", "maxSubmitJobsPerUser": 50},
}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Generator[Box]:
    """Slurm with its people."""
    folder = tmp_path_factory.mktemp("site")
    settings = {"users": {name: {"uid": uid, "keys": [KEY]} for name, uid in USERS.items()}}
    people = folder / "people"
    people.mkdir()
    for name, text in directory.files(parse(PeopleSettings, settings, "people"), most_processes=300).items():
        (people / name).write_text(text)
    with slurm_with_accounting(folder, CONF, {directory.FOLDER: people}) as made:
        made.bash(f"bash {directory.FOLDER}/apply login homes")
        yield made


class Wanted(Settings):
    """Settings as the platform's."""

    accounts: Mapping[str, AccountSettings] = {}
    qos: Mapping[str, QosSettings] = {}


def scripts(wanted: Mapping[str, Any], *, delete: bool = False) -> dict[str, str]:
    given = parse(Wanted, wanted, "accounting")
    return accounts.files(
        cluster=CLUSTER,
        conf_server=f"{HOST}:6817",
        accounts=given.accounts,
        qos=given.qos,
        gpu_types=["h100"],
        delete_unlisted=delete,
    )


def apply(site: Box, wanted: Mapping[str, Any], *, delete: bool = False, ok: bool = True) -> str:
    """Let the platform's script look once, as a pod that has just begun; what it says."""
    site.write("/run/apply", scripts(wanted, delete=delete)["apply"].encode())
    return site.bash("rm -rf /run/accounts; bash /run/apply", ok=ok)


def look_again(site: Box) -> str:
    """Let it look once more, in the same pod."""
    return site.bash("bash /run/apply")


@pytest.fixture
def whole(site: Box) -> Box:
    """The site with the accounts above, and no jobs."""
    apply(site, {"accounts": ACCOUNTS, "qos": QOS}, delete=True)
    site.bash("squeue -h -o %A | xargs -r scancel", ok=False)
    try:
        until(lambda: not site.bash("squeue -h"), 30, "jobs do not end")
    except AssertionError:
        raise AssertionError(site.bash("squeue; sinfo -lN; tail -n 30 /var/log/slurm/slurmd.log")) from None
    return site


def limits(site: Box, account: str, user: str = "") -> dict[str, str]:
    names = "Account,User,ParentName,Fairshare,GrpTRES,GrpTRESMins,MaxTRES,MaxJobs,MaxSubmit,MaxWall,QOS,DefaultQOS"
    lines = site.run("sacctmgr", "-nP", "show", "assoc", f"account={account}", f"format={names}").splitlines()
    (found,) = [line.split("|") for line in lines if line.split("|")[1] == user]
    return dict(zip(names.split(","), found, strict=True))


def sbatch(site: Box, user: str, *options: str) -> str:
    """Submit a job as somebody; its number, or what Slurm says against it."""
    uid = USERS[user]
    as_user = ["setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups"]
    time = [] if any(option.startswith("--time") for option in options) else ["--time=10"]
    wanted = [*options, *time, "--parsable", "--chdir=/tmp", "--output=/dev/null", "--wrap=sleep 300"]
    return site.run(*as_user, "env", f"HOME=/home/{user}", "sbatch", *wanted, ok=False).strip()


def state(site: Box, job: str) -> str:
    return site.run("squeue", "-h", "-j", job, "-o", "%T %r").strip()


def runs(site: Box, job: str) -> None:
    assert job.isdigit(), job
    until(lambda: state(site, job).startswith("RUNNING"), 30, f"job {job} does not run: {state(site, job)}")


def waits_for(site: Box, job: str, reason: str) -> None:
    assert job.isdigit(), job
    until(lambda: reason in state(site, job), 30, f"job {job} does not wait for {reason}: {state(site, job)}")


def test_what_the_settings_say_is_in_the_database(whole: Box) -> None:
    research, vision = limits(whole, "research"), limits(whole, "vision")
    assert (research["ParentName"], research["Fairshare"], research["DefaultQOS"]) == ("root", "10", "scavenger")
    assert set(research["QOS"].split(",")) == {"normal", "urgent", "scavenger"}
    assert set(research["GrpTRESMins"].split(",")) == {"gres/gpu=1000", "mem=2T"}
    assert (vision["ParentName"], vision["GrpTRES"]) == ("research", "gres/gpu=4")
    assert limits(whole, "vision", "ada")["MaxSubmit"] == "3"
    assert limits(whole, "research", "bob")["MaxWall"] == "01:00:00"
    assert set(limits(whole, "other")["MaxTRES"].split(",")) == {"cpu=4", "gres/gpu:h100=2"}
    defaults = whole.bash("sacctmgr -nP show user format=User,DefaultAccount").split()
    assert {"ada|research", "bob|research", "eve|other"} < set(defaults)


def test_a_second_look_changes_nothing_and_a_third_does_not_even_ask(whole: Box) -> None:
    said = apply(whole, {"accounts": ACCOUNTS, "qos": QOS})
    assert "changed" not in said
    assert "not in the settings" not in said
    before = whole.bash("sacctmgr -nP list transactions | wc -l")
    assert look_again(whole) == ""
    assert whole.bash("sacctmgr -nP list transactions | wc -l") == before


def test_a_limit_that_leaves_the_settings_leaves_slurm_and_an_account_moves(whole: Box) -> None:
    moved: dict[str, Any] = {**ACCOUNTS, "vision": {"parent": "other", "users": {"ada": {}}}}
    said = apply(whole, {"accounts": moved, "qos": {**QOS, "urgent": {"priority": 5}}})
    assert "changed: limits vision" in said
    assert "changed: qos urgent" in said
    assert (limits(whole, "vision")["ParentName"], limits(whole, "vision")["GrpTRES"]) == ("other", "")
    assert limits(whole, "vision", "ada")["MaxSubmit"] == ""
    shown = whole.bash("sacctmgr -nP show qos urgent format=Priority,Preempt,Flags,MaxTRESPU,MinTRES,MaxWall")
    assert shown.strip() == "5|||||"


def test_what_a_person_changed_is_put_back_and_what_a_person_added_is_reported(whole: Box) -> None:
    whole.bash("sacctmgr -i modify account where name=vision set GrpTRES=gres/gpu=100")
    whole.bash("sacctmgr -i add account byhand parent=root; sacctmgr -i add user joe account=byhand")
    whole.bash("sacctmgr -i add user bob account=other; sacctmgr -i add qos byhand")
    said = apply(whole, {"accounts": ACCOUNTS, "qos": QOS})
    assert "changed: limits vision" in said
    assert limits(whole, "vision")["GrpTRES"] == "gres/gpu=4"
    reported = re.findall(r"not in the settings: (.*)", said)
    assert sorted(reported) == ["account byhand", "member byhand joe", "member other bob", "qos byhand", "user joe"]
    assert "byhand" in whole.bash("sacctmgr -nP show account format=Account")
    apply(whole, {"accounts": ACCOUNTS, "qos": QOS}, delete=True)
    left = whole.bash("sacctmgr -nP show account format=Account; sacctmgr -nP show qos format=Name")
    assert "byhand" not in left
    assert "joe" not in whole.bash("sacctmgr -nP show user format=User")
    assert "not in the settings" not in apply(whole, {"accounts": ACCOUNTS, "qos": QOS})


def test_the_pod_looks_by_itself_says_when_it_has_succeeded_and_ends_when_told(site: Box) -> None:
    site.bash(f"rm -rf {accounts.STATE} {accounts.FOLDER}; mkdir -p {accounts.STATE} {accounts.FOLDER} /run/slurm")
    for name, text in scripts({"accounts": ACCOUNTS, "qos": QOS}).items():
        site.write(f"{accounts.FOLDER}/{name}", text.encode())
    # slurmctld answers clients as well; here only sackd may, as in a pod.
    site.bash(
        "mv /run/slurmctld/sack.socket /run/slurmctld/kept; mv /run/slurmd/sack.socket /run/slurmd/kept", ok=False
    )
    try:
        site.bash(f"bash {accounts.FOLDER}/run > /run/out 2>&1 < /dev/null & echo $! > /run/pid")
        until(lambda: site.bash(f"ls {accounts.STATE}").split().count("applied"), 30, "it does not succeed")
        assert "accounts are those of the settings" in site.run("cat", "/run/out")
        site.bash("kill $(cat /run/pid)")
        until(lambda: not site.bash("ps -eo args= | grep '[s]ackd -D'", ok=False), 10, "it does not end")
    finally:
        site.bash(
            "mv /run/slurmctld/kept /run/slurmctld/sack.socket; mv /run/slurmd/kept /run/slurmd/sack.socket", ok=False
        )


def test_what_slurm_refuses_is_a_failure_that_says_what(whole: Box) -> None:
    # Known to the settings' own checks, too; here they are passed over.
    said = apply(whole, {"accounts": {"lost": {"qos": ["ghost"]}}, "qos": QOS}, ok=False)
    assert "failed: sacctmgr modify account where name=lost" in said
    assert whole.bash("bash /run/apply > /dev/null; echo $?").strip() == "1"


@pytest.mark.parametrize(
    ("user", "options", "words"),
    [
        ("joe", [], "Invalid account"),
        ("bob", ["--account=other"], "Invalid account"),
        ("eve", ["--qos=urgent"], "Invalid qos"),
        ("ada", ["--qos=urgent", "--account=research"], "QOSMinGRES"),
        ("ada", ["--qos=urgent", "--account=research", "--gres=gpu:3"], "QOSMaxGRESPerUser"),
        (
            "ada",
            ["--qos=urgent", "--account=research", "--gres=gpu:1", "--time=5:00:00"],
            "QOSMaxWallDurationPerJobLimit",
        ),
    ],
)
def test_a_job_past_a_limit_is_refused(whole: Box, user: str, options: list[str], words: str) -> None:
    assert words in sbatch(whole, user, *options)


@pytest.mark.parametrize(
    ("user", "options", "reason"),
    [
        ("bob", ["--time=2:00:00"], "AssocMaxWallDurationPerJobLimit"),
        ("eve", ["--gres=gpu:h100:3"], "AssocMaxGRESPerJob"),
        ("eve", ["--ntasks=5"], "AssocMaxCpuPerJobLimit"),
        ("ada", ["--account=vision", "--gres=gpu:5"], "AssocGrpGRES"),
    ],
)
def test_a_job_past_its_accounts_limit_waits_and_says_for_what(
    whole: Box, user: str, options: list[str], reason: str
) -> None:
    waits_for(whole, sbatch(whole, user, *options), reason)


def test_a_group_shares_its_gpus_and_a_user_has_so_many_jobs(whole: Box) -> None:
    runs(whole, sbatch(whole, "ada", "--account=vision", "--gres=gpu:3"))
    waits_for(whole, sbatch(whole, "ada", "--account=vision", "--gres=gpu:3"), "AssocGrpGRES")
    assert sbatch(whole, "ada", "--account=vision", "--qos=normal").isdigit()
    assert "AssocMaxSubmitJobLimit" in sbatch(whole, "ada", "--account=vision", "--qos=normal")
    # A QOS that has a limit of the same kind decides instead.
    assert sbatch(whole, "ada", "--account=vision", "--qos=scavenger").isdigit()
    runs(whole, sbatch(whole, "eve"))
    waits_for(whole, sbatch(whole, "eve"), "AssocMaxJobsLimit")


def test_an_account_without_minutes_left_starts_nothing_that_could_not_end(whole: Box) -> None:
    waits_for(whole, sbatch(whole, "ada", "--gres=gpu:4", "--time=300"), "AssocGrpGRESMinutes")
    runs(whole, sbatch(whole, "ada", "--gres=gpu:4", "--time=60"))


def test_urgent_jobs_displace_others_which_start_again_and_accounting_shows_both_starts(whole: Box) -> None:
    first = sbatch(whole, "bob", "--gres=gpu:8", "--time=20")
    runs(whole, first)
    urgent = sbatch(whole, "ada", "--account=research", "--qos=urgent", "--gres=gpu:2")
    runs(whole, urgent)
    whole.run("scancel", urgent)
    until(lambda: state(whole, first).startswith("RUNNING"), 60, f"{first} does not start again: {state(whole, first)}")

    def starts() -> list[str]:
        return whole.run("sacct", "-D", "-X", "-n", "-P", "-j", first, "-o", "State").split()

    until(lambda: len(starts()) == 2, 20, "the accounting does not show both starts")
    assert starts() == ["PREEMPTED", "RUNNING"]
