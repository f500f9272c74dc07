"""Accounts and QOS of the settings: what is refused, and what is deployed."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.components.slurm.test_slinky import PREFIX, document, slurm
from tests.unit.components.support import Deployment, Json, deploy_platform, faults

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIExampleExample ada"
PEOPLE: Json = {"users": {"ada": {"uid": 10001, "keys": [KEY]}}}


def told(**accounting: Any) -> dict[str, str]:
    found = faults(document(people=PEOPLE, accounting=accounting))
    return {path.removeprefix("platform.slurm.accounting."): words for path, words in found.items()}


def test_right_settings() -> None:
    qos = {"urgent": {"preempt": ["normal"], "graceTime": 90, "flags": ["DenyOnLimit"], "usageFactor": 0.5}}
    vision = {"parent": "research", "qos": ["urgent"], "defaultQos": "urgent", "users": {"ada": {"default": True}}}
    limits: Json = {"grpTres": {"gres/gpu": 8, "gres/gpu:h100": 8, "mem": "2T"}, "maxWall": "2-0", "users": {"ada": {}}}
    assert told(accounts={"vision": vision, "research": limits}, qos=qos) == {}


@pytest.mark.parametrize(
    ("settings", "path", "words"),
    [
        ({"accounts": {"root": {}}}, "accounts.root", "Slurm's own"),
        ({"accounts": {"Vision": {}}}, "accounts.Vision", "31 lower-case"),
        ({"accounts": {"a": {"parent": "b"}}}, "accounts.a.parent", "there is no account 'b'"),
        ({"accounts": {"a": {"parent": "b"}, "b": {"parent": "a"}}}, "accounts.a.parent", "a is below b is below a"),
        ({"accounts": {"a": {"users": {"eve": {}}}}}, "accounts.a.users.eve", "there is no user 'eve'"),
        (
            {"accounts": {name: {"users": {"ada": {"default": True}}} for name in ("a", "b")}},
            "accounts.b.users.ada.default",
            "has a default account already",
        ),
        ({"accounts": {"a": {"qos": ["ghost"]}}}, "accounts.a.qos[0]", "there is no QOS 'ghost'"),
        ({"accounts": {"a": {"defaultQos": "x"}}, "qos": {"x": {}}}, "accounts.a.defaultQos", "may not use 'x'"),
        ({"accounts": {"a": {"grpTres": {"gpu": 8}}}}, "accounts.a.grpTres.gpu", "nothing of that name is counted"),
        ({"accounts": {"a": {"grpTres": {"gres/gpu:a100": 8}}}}, "accounts.a.grpTres.gres/gpu:a100", "gres/gpu:h100"),
        ({"accounts": {"a": {"grpTres": {"cpu": "8G"}}}}, "accounts.a.grpTres.cpu", "only memory has a unit"),
        ({"accounts": {"a": {"maxWall": "2 days"}}}, "accounts.a.maxWall", "no length of time"),
        ({"accounts": {"a": {"description": 'a "b"'}}}, "accounts.a.description", "without quotes"),
        ({"qos": {"x": {"preempt": ["y"]}}}, "qos.x.preempt[0]", "there is no QOS 'y'"),
        ({"qos": {"x": {"flags": ["Denyonlimit"]}}}, "qos.x.flags[0]", "DenyOnLimit"),
        ({"qos": {"x": {"graceTime": 91}}}, "qos.x.graceTime", "KillWait's 90 s"),
        ({"enabled": False, "accounts": {"a": {}}}, "accounts", "nothing is counted without accounting"),
    ],
)
def test_wrong_settings_are_refused_by_path(settings: Json, path: str, words: str) -> None:
    assert words in told(**settings).get(path, ""), told(**settings)


def script(deployment: Deployment) -> str:
    return slurm("accounts-scripts", deployment).inputs["data"]["apply"]


def test_every_limit_of_an_account_is_set_so_that_one_that_left_the_settings_leaves_slurm() -> None:
    deployment = deploy_platform(document(people=PEOPLE, accounting={"accounts": {"vision": {"grpTres": {"cpu": 8}}}}))
    (line,) = [each for each in script(deployment).splitlines() if each.startswith("account_limits vision")]
    assert "GrpTRES=cpu=8,mem=-1,node=-1,billing=-1,gres/gpu=-1,gres/gpu:h100=-1" in line
    assert {"MaxJobs=-1", "MaxWall=-1", "QosLevel=", "DefaultQOS=-1"} < set(line.split())


def test_an_account_comes_before_those_below_it_and_its_users_after_all() -> None:
    accounts: Json = {"vision": {"parent": "research", "users": {"ada": {}}}, "research": {}}
    deployment = deploy_platform(document(people=PEOPLE, accounting={"accounts": accounts}))
    calls = [line.split()[:2] for line in script(deployment).splitlines()]
    order = [["account", "research"], ["account", "vision"], ["member", "vision"], ["default_account", "ada"]]
    assert [call for call in calls if call in order] == order


def test_nothing_is_deleted_unless_the_settings_say_so() -> None:
    assert "[ 0 = 1 ] || continue" in script(deploy_platform(document()))
    assert "[ 1 = 1 ] || continue" in script(deploy_platform(document(accounting={"deleteUnlisted": True})))


def test_other_limits_are_another_pod_which_is_ready_once_they_hold() -> None:
    def spec(accounts: Json) -> Json:
        return slurm("accounts", deploy_platform(document(accounting={"accounts": accounts}))).inputs["spec"]

    one, other = spec({"a": {}}), spec({"a": {"maxJobs": 1}})
    assert one["template"]["metadata"]["annotations"] != other["template"]["metadata"]["annotations"]
    (container,) = one["template"]["spec"]["containers"]
    assert container["readinessProbe"]["exec"]["command"] == ["test", "-e", "/run/accounts/applied"]
    assert one["strategy"] == {"type": "Recreate"}


def test_without_accounting_nobody_keeps_accounts() -> None:
    names = {each.name for each in deploy_platform(document(accounting={"enabled": False})).resources}
    assert not {name for name in names if name.startswith(f"{PREFIX}-accounts")}
