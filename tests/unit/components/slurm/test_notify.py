"""Of the webhook that jobs' ends are told to: its URL is a secret, and without the setting there is nothing of it."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import get_args

from actor import notices, notify
from actor import settings as told
from actor.__main__ import WEBHOOK
from components.slurm import actor, actor_settings
from tests.unit.components.slurm.test_slinky import PREFIX, document, slurm, whole
from tests.unit.components.support import Deployment, Json, deploy_platform, faults

URL = "https://hooks.example.com/T0P-S3CRET"
NOTIFY = {"webhookSecret": "slurmWebhook"}


@cache
def with_webhook() -> Deployment:
    return deploy_platform(document(notify=NOTIFY), config={"crusoe-gpu-platform:slurmWebhook": URL})


def pod(deployment: Deployment) -> Json:
    return slurm("actor-deployment", deployment).inputs["spec"]["template"]["spec"]


def test_the_url_is_in_one_secret_and_nowhere_else() -> None:
    secret = slurm("actor-webhook", with_webhook())
    assert secret.inputs["stringData"] == {"url": URL}
    assert "stringData" in secret.secrets
    assert [each.name for each in with_webhook().resources if "S3CRET" in json.dumps(each.inputs)] == [secret.name]


def test_the_actor_reads_it_as_a_file() -> None:
    (volume,) = [each for each in pod(with_webhook())["volumes"] if each["name"] == "notify"]
    secret = slurm("actor-webhook", with_webhook()).inputs
    assert volume["secret"]["secretName"] == secret["metadata"]["name"]
    (container,) = pod(with_webhook())["containers"]
    (place,) = [each["mountPath"] for each in container["volumeMounts"] if each["name"] == "notify"]
    assert Path(place) / "url" == WEBHOOK
    assert f"{PREFIX}-actor-webhook" in with_webhook().depends_on(slurm("actor-deployment", with_webhook()))


def test_the_actor_is_told_which_states_and_of_which_cluster() -> None:
    (container,) = pod(with_webhook())["containers"]
    found = told.load({each["name"]: each["value"] for each in container["env"]}["ACTOR_SETTINGS"])
    assert found.notify == notices.STATES
    conf = slurm("controller", with_webhook()).inputs["spec"]
    assert found.cluster == conf["clusterName"]
    assert get_args(actor_settings.State) == notices.STATES


def test_it_may_keep_its_own_config_map_and_no_other() -> None:
    rules = slurm("actor-role-slurm", with_webhook()).inputs["rules"]
    assert {
        "apiGroups": [""],
        "resources": ["configmaps"],
        "resourceNames": [notify.CONFIG_MAP],
        "verbs": ["get", "update"],
    } in rules
    assert {"apiGroups": [""], "resources": ["configmaps", "events"], "verbs": ["create"]} in rules
    assert [*actor.RULES["Role", "slurm"], *actor.NOTIFY_RULES] == rules


def test_without_the_setting_there_is_nothing_of_it() -> None:
    assert not [each.name for each in whole().resources if "webhook" in each.name and "actor" in each.name]
    assert "notify" not in json.dumps(pod(whole()))
    assert slurm("actor-role-slurm").inputs["rules"] == actor.RULES["Role", "slurm"]


def test_without_the_actor_nobody_would_send() -> None:
    changed = document(notify=NOTIFY, failure={"actor": False})
    assert "the actor sends it" in faults(changed)["platform.slurm.notify"]
