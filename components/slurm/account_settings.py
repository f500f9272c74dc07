"""Settings of the accounting's content: accounts, who is in them, and QOS, with what each may use."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Literal

from pydantic import Field

from components.settings import Form, Plain, Settings
from crusoe.rules.finding import Finding
from crusoe.rules.slurm_conf import minutes
from crusoe.rules.values import items, table, text, whole

ROOT = "root"
NORMAL = "normal"
"""The account above all others, and the QOS that Slurm makes by itself."""

TRES = ("cpu", "mem", "node", "billing", "gres/gpu")
"""What every cluster counts; GPUs also by type, `gres/gpu:h100`."""

FLAGS = (
    *("DenyOnLimit", "EnforceUsageThreshold", "NoDecay", "NoReserve", "OverPartQOS", "PartitionMaxNodes"),
    *("PartitionMinNodes", "PartitionTimeLimit", "Relative", "RequiresReservation", "UsageFactorSafe"),
)
"""Flags of a QOS that Slurm 26.05's sacctmgr knows."""

_NAME = re.compile(r"[a-z][a-z0-9_-]{0,30}")
Description = Annotated[str, Form(r"[^\"'|\x00-\x1f]+", "not one line without quotes and bars")]
Amounts = Mapping[str, int | Annotated[str, Form(r"\d+[MGT]", "neither a number nor memory such as 512G")]]


class LimitSettings(Settings):
    """What an account, or one of its users, may use. Without a limit the one above holds.

    Where a job's QOS has a limit of the same kind, that one counts instead.
    """

    fairshare: int = Field(
        default=1, ge=0, description="Share of the account above, against its neighbours'.", examples=[10]
    )
    grp_tres: Amounts = Field(
        default={}, description="Most that all running jobs may have together.", examples=[{"gres/gpu": 64}]
    )
    grp_tres_mins: Amounts = Field(
        default={},
        description="Most minutes of a resource, which fade with `PriorityDecayHalfLife`. A job that could not end "
        "within them does not start.",
        examples=[{"gres/gpu": 600_000}],
    )
    max_tres_per_job: Amounts = Field(default={}, description="Most that one job may have.", examples=[{"node": 4}])
    grp_jobs: int | None = Field(default=None, ge=0, description="Most running jobs together.", examples=[100])
    max_jobs: int | None = Field(default=None, ge=0, description="Most running jobs of a user.", examples=[20])
    max_submit_jobs: int | None = Field(
        default=None, ge=0, description="Most jobs of a user, running or waiting.", examples=[200]
    )
    max_wall: str | None = Field(default=None, description="Longest job, as Slurm writes it.", examples=["2-0"])


class MemberSettings(LimitSettings):
    """A user in an account."""

    default: bool = Field(
        default=False,
        description="Takes the user's jobs that name no account; otherwise the first account with the user does.",
        examples=[True],
    )


class AccountSettings(LimitSettings):
    """An account: a team or project that jobs are counted for."""

    description: Description | None = Field(default=None, description="What it is.", examples=["Vision team"])
    parent: str = Field(default=ROOT, description="The account above.", examples=["research"])
    users: Mapping[str, MemberSettings] = Field(
        default={}, description="Who is in it, by name.", examples=[{"ada": {}, "bob": {"maxJobs": 2}}]
    )
    qos: tuple[str, ...] = Field(
        default=(),
        description="QOS that its jobs may ask for, by default those of the account above.",
        examples=[["normal", "urgent"]],
    )
    default_qos: str | None = Field(default=None, description="QOS of its jobs that ask for none.", examples=["normal"])


class QosSettings(Settings):
    """A quality of service: how urgent jobs are, whom they displace, and what they may use."""

    description: Description | None = Field(default=None, description="What it is for.", examples=["Deadlines"])
    priority: int = Field(default=0, ge=0, description="Against other QOS.", examples=[100])
    preempt: tuple[str, ...] = Field(
        default=(), description="QOS whose jobs give way to its own.", examples=[["scavenger"]]
    )
    preempt_mode: Literal["cluster", "requeue", "cancel"] = Field(
        default="cluster",
        description="What happens to its jobs when they give way; `cluster` is slurm.conf's, which requeues.",
        examples=["cancel"],
    )
    grace_time: int = Field(
        default=0,
        ge=0,
        description="Seconds that its jobs have from the warning until they give way, `timing.killWait` at most.",
        examples=[60],
    )
    flags: tuple[str, ...] = Field(default=(), description="Flags, as sacctmgr has them.", examples=[["DenyOnLimit"]])
    usage_factor: float = Field(
        default=1.0, ge=0, description="What its use counts in fair share; 0 is free.", examples=[0.5]
    )
    grp_tres: Amounts = Field(
        default={}, description="Most that all its running jobs may have together.", examples=[{"gres/gpu": 16}]
    )
    max_tres_per_user: Amounts = Field(
        default={}, description="Most that one user's running jobs may have.", examples=[{"gres/gpu": 8}]
    )
    max_tres_per_job: Amounts = Field(default={}, description="Most that one job may have.", examples=[{"node": 1}])
    min_tres_per_job: Amounts = Field(
        default={}, description="Least that a job has to ask for.", examples=[{"gres/gpu": 1}]
    )
    grp_jobs: int | None = Field(default=None, ge=0, description="Most running jobs together.", examples=[50])
    max_jobs_per_user: int | None = Field(default=None, ge=0, description="Most running jobs of a user.", examples=[4])
    max_submit_jobs_per_user: int | None = Field(
        default=None, ge=0, description="Most jobs of a user, running or waiting.", examples=[20]
    )
    max_wall: str | None = Field(default=None, description="Longest job, as Slurm writes it.", examples=["4:00:00"])


def findings(
    accounting: Plain, path: str, *, people: Iterable[str] | None, gpu_types: Iterable[str], kill_wait: int | None
) -> Iterator[Finding]:
    """Check names, memberships and limits against each other.

    `people` are the users of the settings, None where a directory elsewhere has them; `gpu_types` those of Slurm's
    pools, as gres names.
    """
    accounts, qos = table(accounting.get("accounts")), table(accounting.get("qos"))
    if accounting.get("enabled") is False:
        for key in ("accounts", "qos"):
            if accounting.get(key):
                yield Finding(f"{path}.{key}", "nothing is counted without accounting", "Take it out, or enabled: true")
        return
    known = {*TRES, *(f"gres/gpu:{each}" for each in gpu_types)}
    for key, each in qos.items():
        place, one = f"{path}.qos.{key}", table(each)
        yield from _name(place, key, ())
        yield from _qos_names(f"{place}.preempt", one.get("preempt"), qos)
        yield from _limits(place, one, known)
        for index, flag in enumerate(items(one.get("flags"))):
            if flag not in FLAGS:
                yield Finding(f"{place}.flags[{index}]", f"there is no flag {flag!r}", f"Known: {', '.join(FLAGS)}")
        grace = whole(one.get("graceTime"))
        if grace and kill_wait and grace > kill_wait:
            problem = f"{grace} s of grace end after KillWait's {kill_wait} s, which the job is killed by"
            yield Finding(f"{place}.graceTime", problem, f"Write {kill_wait} or less")
    defaults = Counter[str]()
    for key, each in accounts.items():
        place, one = f"{path}.accounts.{key}", table(each)
        yield from _name(place, key, (ROOT,))
        yield from _limits(place, one, known)
        yield from _qos_names(f"{place}.qos", one.get("qos"), qos)
        yield from _parent(place, key, accounts)
        default = text(one.get("defaultQos"))
        if default and default not in (items(one.get("qos")) or (NORMAL,)):
            problem = f"the account may not use {default!r}"
            yield Finding(f"{place}.defaultQos", problem, f"Add it to {place}.qos, or write one of those")
        for user, member in table(one.get("users")).items():
            where = f"{place}.users.{user}"
            yield from _limits(where, table(member), known)
            if people is not None and user not in people:
                yield Finding(where, f"there is no user {user!r}", "Add the user to slurm.people.users first")
            defaults[user] += table(member).get("default") is True
            if defaults[user] > 1:
                yield Finding(f"{where}.default", f"{user!r} has a default account already", "Take one of both out")
                defaults[user] = 1


def _name(path: str, key: str, taken: Iterable[str]) -> Iterator[Finding]:
    if key in taken:
        yield Finding(path, f"{key!r} is Slurm's own", "Choose another name")
    elif not _NAME.fullmatch(key):
        problem = "a name has at most 31 lower-case letters, digits, hyphens and underscores, a letter first"
        yield Finding(path, problem, "Write one such as 'research'")


def _qos_names(path: str, value: object, qos: Plain) -> Iterator[Finding]:
    for index, each in enumerate(items(value)):
        if each not in (NORMAL, *qos):
            known = ", ".join(dict.fromkeys((NORMAL, *qos)))
            yield Finding(f"{path}[{index}]", f"there is no QOS {each!r}", f"Write one of: {known}")


def _parent(path: str, key: str, accounts: Plain) -> Iterator[Finding]:
    above = text(table(accounts[key]).get("parent")) or ROOT
    if above != ROOT and above not in accounts:
        yield Finding(
            f"{path}.parent", f"there is no account {above!r}", f"Write one of: {', '.join((ROOT, *accounts))}"
        )
    seen = [key]
    while above in accounts and above not in seen:
        seen.append(above)
        above = text(table(accounts[above]).get("parent")) or ROOT
    if above == key:
        yield Finding(f"{path}.parent", f"{' is below '.join([*seen, key])}", f"Write {ROOT!r} for the one on top")


def _limits(path: str, one: Plain, known: Iterable[str]) -> Iterator[Finding]:
    for field in ("grpTres", "grpTresMins", "maxTresPerJob", "maxTresPerUser", "minTresPerJob"):
        for name, amount in table(one.get(field)).items():
            place = f"{path}.{field}.{name}"
            if name not in known:
                yield Finding(place, "nothing of that name is counted", f"Write one of: {', '.join(sorted(known))}")
            elif isinstance(amount, str) and name != "mem":
                yield Finding(place, "only memory has a unit", f"Write {amount.rstrip('MGT')}")
    wall = text(one.get("maxWall"))
    if wall and minutes(wall) is None:
        yield Finding(f"{path}.maxWall", f"{wall!r} is no length of time", "Write one such as '2-0' or '4:00:00'")
