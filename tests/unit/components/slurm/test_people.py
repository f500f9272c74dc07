"""People reach login nodes and workers without restarting any of them."""

from __future__ import annotations

from functools import cache

import pytest

from crusoe.rules import slinky
from tests.unit.components.slurm.test_slinky import PREFIX, document, slurm
from tests.unit.components.support import Deployment, Json, deploy_platform

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIExampleExample ada"
ADA: Json = {"uid": 10001, "keys": [KEY], "groups": ["vision"]}
GROUPS: Json = {"vision": {"gid": 50001}}


def people(**users: Json) -> Json:
    # With an account of its own, since without any there is one that has everybody.
    return document(people={"users": users, "groups": GROUPS}, accounting={"accounts": {"vision": {}}})


@cache
def one() -> Deployment:
    return deploy_platform(people(ada=ADA))


def inputs(deployment: Deployment) -> Json:
    return {each.name: each.inputs for each in deployment.resources}


@pytest.mark.parametrize(
    "users",
    [
        {},
        {"ada": {**ADA, "groups": []}},
        {"ada": {**ADA, "keys": [KEY, KEY + "-2"]}},
        {"ada": {**ADA, "sudo": True}},
        {"ada": ADA, "bob": {"uid": 10002, "keys": [KEY]}},
    ],
)
def test_another_user_changes_the_list_of_people_and_no_pod(users: Json) -> None:
    before, after = inputs(one()), inputs(deploy_platform(people(**users)))
    assert {name for name in before | after if before.get(name) != after.get(name)} == {f"{PREFIX}-people"}


def test_another_user_without_accounts_is_in_the_one_that_has_everybody() -> None:
    def deployed(*names: str) -> Deployment:
        users = {name: {"uid": 10001 + number, "keys": [KEY]} for number, name in enumerate(names)}
        return deploy_platform(document(people={"users": users}))

    before, after = inputs(deployed("ada")), inputs(deployed("ada", "bob"))
    changed = {name for name in before | after if before.get(name) != after.get(name)}
    assert changed == {f"{PREFIX}-{thing}" for thing in ("people", "accounts-scripts", "accounts")}


def test_login_nodes_and_workers_have_the_list_before_they_start() -> None:
    for name, daemon in (("login", "login"), ("nodeset-train", "slurmd")):
        spec = slurm(name, one()).inputs["spec"]
        assert {"name": "people", "configMap": {"name": "slurm-people"}} in spec["template"]["spec"]["volumes"]
        assert {"name": "people", "mountPath": "/etc/people", "readOnly": True} in spec[daemon]["volumeMounts"]
        assert f"{PREFIX}-people" in one().depends_on(slurm(name, one()))


def test_only_login_nodes_make_homes_on_the_shared_disk_and_every_node_its_own_without_one() -> None:
    def hooks(deployment: Deployment) -> list[bool]:
        places = (("login", "login"), ("nodeset-train", "slurmd"))
        return [
            " homes;" in slurm(name, deployment).inputs["spec"][daemon]["lifecycle"]["postStart"]["exec"]["command"][-1]
            for name, daemon in places
        ]

    assert hooks(one()) == [True, False]
    assert hooks(deploy_platform(document(home={}))) == [True, True]


def test_nobody_has_sudo_unless_the_settings_say_so() -> None:
    assert slurm("people", one()).inputs["data"]["sudoers"] == ""
    data = slurm("people", deploy_platform(people(ada={**ADA, "sudo": True}))).inputs["data"]
    assert data["sudoers"] == "%slurm-sudo ALL=(ALL) NOPASSWD: ALL\n"
    assert "slurm-sudo:x:49999:ada" in data["group"]


def test_a_login_node_has_the_time_that_people_are_promised() -> None:
    spec = slurm("login", deploy_platform(document(login={"noticeMinutes": 3}))).inputs["spec"]
    assert spec["login"]["lifecycle"]["preStop"]["exec"]["command"][-1] == "3"
    assert spec["template"]["spec"]["terminationGracePeriodSeconds"] == 210


def test_a_directory_elsewhere_is_asked_on_login_nodes_and_workers() -> None:
    conf = "[sssd]\ndomains = example.com\n"
    settings = document(people={"sssdConfSecret": "sssdConf"})
    deployment = deploy_platform(settings, config={"crusoe-gpu-platform:sssdConf": conf})
    secret = slurm("sssd", deployment)
    assert secret.inputs["stringData"] == {"sssd.conf": conf}
    assert "stringData" in secret.secrets
    worker = slurm("nodeset-train", deployment).inputs["spec"]
    assert worker["ssh"]["sssdConfRef"] == slurm("login", deployment).inputs["spec"]["sssdConfRef"]
    for text in (worker["ssh"]["extraSshdConfig"], slurm("login", deployment).inputs["spec"]["extraSshdConfig"]):
        assert "AuthorizedKeysCommand /usr/bin/sss_ssh_authorizedkeys" in text
    assert [*slinky.spec("NodeSet", "NodeSet", worker)] == []
