"""A pod in, what is to run out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from localcloud.slurm import plan
from localcloud.slurm.plan import expanded, specification
from localcloud.slurm.volumes import MissingError
from tests.unit.localcloud_slurm.support import Json, around, container, pod


def test_pods_that_are_processes_are_left_alone_by_what_plays_the_others() -> None:
    text = (Path(plan.__file__).parents[1] / "kubernetes" / "stages.yaml").read_text(encoding="utf-8")
    stages: list[Json] = [each for each in yaml.safe_load_all(text) if each["spec"]["resourceRef"]["kind"] == "Pod"]
    left = [
        set(rule["values"])
        for stage in stages
        for rule in stage["spec"]["selector"]["matchExpressions"]
        if plan.NAME_LABEL in rule["key"]
    ]
    assert left
    assert all(names == set(plan.DAEMONS) for names in left)


def only(each: Json, surroundings: Any = None, **spec: Any) -> Json:
    return specification(pod(each, **spec), surroundings or around())["containers"][0]


def test_the_pods_own_fields() -> None:
    said = specification(pod(container(), hostname="gpu-7", terminationGracePeriodSeconds=90), around())
    assert (said["hostname"], said["address"], said["grace"]) == ("gpu-7", "10.1.0.9/16", 90)
    assert len(said["link"]) <= 15, "the kernel's limit for a name of an interface"


def test_a_pod_finds_the_api_server() -> None:
    said = specification(pod(container()), around())
    assert said["routes"] == ["10.96.0.1"]
    env = said["containers"][0]["env"]
    assert (env["KUBERNETES_SERVICE_HOST"], env["KUBERNETES_SERVICE_PORT"]) == ("10.96.0.1", "443")


def test_a_command_takes_the_place_of_the_entrypoint() -> None:
    assert only(container(command=["sh", "-c"], args=["true"]))["argv"] == ["sh", "-c", "true"]
    assert only(container("slurmctld", args=["-D"]))["argv"] == ["slurmctld", "-D"]


def test_kueues_manager_is_the_pinned_tool_in_the_place_of_its_image() -> None:
    said = only(
        container("manager", command=["/manager"], args=["--config=/controller_manager_config.yaml"]),
        around(tool=Path("/tools").joinpath),
    )
    assert said["argv"] == ["/manager", "--config=/controller_manager_config.yaml"]
    assert said["uid"] == 65532
    assert {"source": "/tools/kueue", "target": "/manager", "read_only": True} in said["mounts"]


def test_users_come_from_the_container_then_the_pod_then_the_image() -> None:
    assert only(container("slurmctld"))["uid"] == 401
    assert only(container("slurmctld"), securityContext={"runAsUser": 7, "fsGroup": 9})["groups"] == [7, 9]
    said = only(container("slurmctld", securityContext={"runAsUser": 5}), securityContext={"runAsUser": 7})
    assert (said["uid"], said["gid"]) == (5, 5)


def test_without_root_everything_runs_as_this_user() -> None:
    said = only(container(), around(single_user=True), securityContext={"runAsUser": 7, "fsGroup": 9})
    assert (said["uid"], said["gid"], said["groups"]) == (0, 0, [])


def test_variables_refer_to_fields_secrets_and_each_other() -> None:
    env = [
        {"name": "A", "value": "x"},
        {"name": "B", "value": "$(A)-$(C)-$$(A)"},
        {"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
        {
            "name": "T",
            "valueFrom": {"fieldRef": {"fieldPath": "metadata.annotations['topology.slinky.slurm.net/spec']"}},
        },
        {"name": "K", "valueFrom": {"secretKeyRef": {"name": "key", "key": "slurm.key"}}},
        {"name": "NO", "valueFrom": {"secretKeyRef": {"name": "none", "key": "k", "optional": True}}},
    ]
    said = only(container(env=env, envFrom=[{"prefix": "P_", "configMapRef": {"name": "conf"}}]))["env"]
    assert said["B"] == "x-$(C)-$(A)"
    assert (said["IP"], said["T"], said["K"]) == ("10.1.0.9", "topo-switch:s1", "secret")
    assert said["P_slurm.conf"] == "ClusterName=x\n"
    assert "NO" not in said


def test_a_variable_without_its_secret_keeps_the_pod_waiting() -> None:
    missing = {"name": "K", "valueFrom": {"secretKeyRef": {"name": "none", "key": "k"}}}
    with pytest.raises(MissingError, match="none"):
        only(container(env=[missing]))


def test_arguments_are_expanded() -> None:
    assert expanded("$(A)/$(B)", {"A": "1"}) == "1/$(B)"


def test_a_privileged_container_sees_all_gpus_another_its_own() -> None:
    limits = {"limits": {"nvidia.com/gpu": "2"}}
    assert len(only(container(securityContext={"privileged": True}, resources=limits))["gpus"]) == 8
    said = only(container(resources=limits))
    assert len(said["gpus"]) == 2
    assert set(said["devices"]) == {"nvidia0", "nvidia1", "nvidiactl"}
    assert only(container())["devices"] == {}


def test_a_folder_is_mounted_before_what_lies_in_it() -> None:
    mounts = [{"name": "b", "mountPath": "/run/slurm/deep"}, {"name": "a", "mountPath": "/run"}]
    said = only(container(volumeMounts=mounts), around(volumes={"a": Path("/a"), "b": Path("/b")}))
    assert [mount["target"] for mount in said["mounts"]] == ["/run", "/run/slurm/deep"]


def test_a_mount_without_volume_is_refused() -> None:
    with pytest.raises(MissingError, match="mounts x"):
        only(container(volumeMounts=[{"name": "x", "mountPath": "/x"}]))


def test_init_containers_end_and_sidecars_stay() -> None:
    first = [container("initconf"), container("logfile", restartPolicy="Always", command=["tail"])]
    said = specification(pod(container(), initContainers=first), around())["init"]
    assert [each["once"] for each in said] == [True, False]


def test_the_hook_and_the_grace_are_the_pods() -> None:
    hook = {"preStop": {"exec": {"command": ["sh", "-c", "scontrol update"]}}}
    assert only(container(lifecycle=hook))["pre_stop"] == ["sh", "-c", "scontrol update"]


def test_a_container_without_readiness_probe_is_ready_when_its_port_answers() -> None:
    assert only(container(ports=[{"containerPort": 6818}]))["probes"]["readiness"]["tcp"] == 6818
    assert only(container())["probes"] == {}


def test_a_probe_takes_as_long_to_fail_as_declared_however_often_it_is_asked() -> None:
    probe = {"httpGet": {"path": "/livez", "port": "web"}, "periodSeconds": 10, "failureThreshold": 6}
    said = only(container(livenessProbe=probe, ports=[{"name": "web", "containerPort": 80}]))["probes"]["liveness"]
    assert said["http"] == {"path": "/livez", "port": 80}
    assert said["period"] * said["failures"] == 60
    assert said["calm"] == 10


def test_only_slurmrestd_gets_the_folder_of_the_socket() -> None:
    rest = around(rest=Path("/rest"))
    assert [mount["source"] for mount in only(container("slurmrestd"), rest)["mounts"]] == ["/rest"]
    assert only(container(), rest)["mounts"] == []
