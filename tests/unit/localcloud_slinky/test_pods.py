"""What the pods look like to whoever runs them."""

from __future__ import annotations

from typing import Any

import pytest

from localcloud.slinky import pods
from localcloud.slinky.children import accounting_children, controller_children, login_set_children, rest_api_children
from localcloud.slinky.conf import Surroundings
from localcloud.slinky.merge import merged, merged_container
from localcloud.slinky.values import Object, items
from localcloud.slinky.worker import node_conf, quantity, slurmd
from tests.unit.localcloud_slinky.support import JWT_KEY, SLURM_KEY, controller, node_set, resource


def volume(pod: Object, name: str) -> Object:
    return next(each for each in pod["volumes"] if each["name"] == name)


def container(pod: Object, name: str) -> Object:
    return next(each for each in [*pod["containers"], *items(pod, "initContainers")] if each["name"] == name)


def files_of(pod: Object) -> list[str]:
    """The sources of /etc/slurm, in short."""
    found: list[str] = []
    for source in volume(pod, "slurm-etc")["projected"]["sources"]:
        kind, reference = next(iter(source.items()))
        paths = [each["path"] for each in items(reference, "items")]
        found.append(f"{kind}:{reference['name']}:{','.join(paths)}")
    return found


MERGES: list[tuple[Object, Object, Object]] = [
    ({"a": 1, "b": {"c": 2}}, {"b": {"d": 3}}, {"a": 1, "b": {"c": 2, "d": 3}}),
    ({"a": 1}, {"a": None}, {"a": 1}),
    ({"tolerations": [{"key": "ours"}]}, {"tolerations": [{"key": "users"}]}, {"tolerations": [{"key": "users"}]}),
    ({"tolerations": [{"key": "ours"}]}, {"tolerations": []}, {"tolerations": [{"key": "ours"}]}),
    (
        {"volumes": [{"name": "a", "emptyDir": {}}]},
        {"volumes": [{"name": "b"}, {"name": "a", "emptyDir": {"medium": "Memory"}}]},
        {"volumes": [{"name": "a", "emptyDir": {"medium": "Memory"}}, {"name": "b"}]},
    ),
    (
        {"env": [{"name": "A", "value": "1"}]},
        {"env": [{"name": "A", "value": "2"}]},
        {"env": [{"name": "A", "value": "2"}]},
    ),
]


@pytest.mark.parametrize(("base", "patch", "result"), MERGES)
def test_merging(base: Object, patch: Object, result: Object) -> None:
    assert merged(base, patch) == result


def test_a_containers_arguments_are_added_and_its_name_stays() -> None:
    own = {"name": "slurmd", "args": ["-D"]}
    assert merged_container(own, {"name": "x", "image": "i", "args": ["-vv"]}) == {
        "name": "slurmd",
        "image": "i",
        "args": ["-D", "-vv"],
    }
    assert "args" not in merged_container({"name": "login"}, {"image": "i"})


def test_slurmctld() -> None:
    spec: dict[str, Any] = {
        "slurmctld": {"image": "ctld"},
        "logfile": {"image": "log"},
        "configFileRefs": [{"name": "files-1"}],
        "prologScriptRefs": [{"name": "scripts-1"}],
        "template": {"metadata": {"labels": {"team": "a"}}, "spec": {"nodeSelector": {"x": "y"}}},
    }
    template = pods.slurmctld(controller(**spec), {"hash": "1"})
    pod = template["spec"]
    assert container(pod, "slurmctld")["args"] == ["-D"]
    assert container(pod, "slurmctld")["image"] == "ctld"
    assert container(pod, "logfile")["restartPolicy"] == "Always"
    assert [each["name"] for each in pod["initContainers"]] == ["logfile"]
    assert files_of(pod) == [
        "configMap:slurm-config:",
        "configMap:files-1:",
        "configMap:scripts-1:",
        "secret:slurm-auth-slurm:slurm.key",
        "secret:slurm-auth-jwt:jwt.key",
    ]
    assert pod["nodeSelector"] == {"x": "y"}
    assert template["metadata"]["labels"] == {
        "team": "a",
        "app.kubernetes.io/name": "slurmctld",
        "app.kubernetes.io/instance": "slurm",
    }
    assert template["metadata"]["annotations"]["hash"] == "1"


def test_images_have_no_default() -> None:
    pod = pods.slurmctld(controller(), {})["spec"]
    assert "image" not in container(pod, "slurmctld")
    assert "image" not in container(pod, "logfile")


@pytest.mark.parametrize(
    ("persistence", "claims", "state"),
    [
        (None, [{"metadata": {"name": "statesave"}, "spec": {}}], None),
        (
            {"accessModes": ["ReadWriteOnce"], "storageClassName": "ssd"},
            [
                {
                    "metadata": {"name": "statesave"},
                    "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": "ssd"},
                }
            ],
            None,
        ),
        ({"enabled": False}, None, {"name": "statesave", "emptyDir": {}}),
        (
            {"existingClaim": "mine"},
            None,
            {"name": "statesave", "persistentVolumeClaim": {"claimName": "mine"}},
        ),
    ],
)
def test_the_state_of_slurmctld(persistence: Object | None, claims: object, state: Object | None) -> None:
    item = controller(**({} if persistence is None else {"persistence": persistence}))
    found = controller_children(item, Surroundings(), users_cgroup_conf=False, keys_hash="k")
    stateful = next(each for each in found if each["kind"] == "StatefulSet")
    assert stateful["spec"].get("volumeClaimTemplates") == claims
    volumes = stateful["spec"]["template"]["spec"]["volumes"]
    assert [each for each in volumes if each["name"] == "statesave"] == ([state] if state else [])


def config_hash(item: Object) -> str | None:
    found = controller_children(item, Surroundings(), users_cgroup_conf=False, keys_hash="k")
    template = next(each for each in found if each["kind"] == "StatefulSet")["spec"]["template"]
    return template["metadata"]["annotations"].get("slinky.slurm.net/config-hash")


def test_a_new_slurm_conf_restarts_slurmctld_unless_it_is_reconfigured_in_place() -> None:
    assert config_hash(controller(extraConf="A=1")) != config_hash(controller(extraConf="A=2"))
    assert config_hash(controller(inplaceReconfigure=True)) is None
    pod = pods.slurmctld(controller(inplaceReconfigure=True), {})["spec"]
    assert [each["name"] for each in pod["initContainers"]] == ["logfile", "reconfigure"]


def test_what_a_controller_owns() -> None:
    found = controller_children(controller(), Surroundings(), users_cgroup_conf=False, keys_hash="k")
    assert [(each["kind"], each["metadata"]["name"]) for each in found] == [
        ("ConfigMap", "slurm-config"),
        ("Service", "slurm-controller"),
        ("StatefulSet", "slurm-controller"),
        ("Service", "slurm-workers-slurm"),
        ("PodDisruptionBudget", "slurm-workers-pdb-slurm"),
    ]
    assert set(found[0]["data"]) == {"slurm.conf", "cgroup.conf"}
    without = controller_children(controller(), Surroundings(), users_cgroup_conf=True, keys_hash="k")
    assert set(without[0]["data"]) == {"slurm.conf"}
    external = controller(external=True, externalConfig={"host": "h", "port": 1})
    rest = controller_children(external, Surroundings(), users_cgroup_conf=False, keys_hash="k")
    assert [each["metadata"]["name"] for each in rest] == ["slurm-workers-slurm", "slurm-workers-pdb-slurm"]


def test_a_service_takes_the_users_type_and_port_and_leaves_external_addresses_out() -> None:
    wanted = {"port": 7000, "nodePort": 30000, "spec": {"type": "NodePort", "externalIPs": ["198.51.100.1"]}}
    service = controller_children(controller(service=wanted), Surroundings(), users_cgroup_conf=False, keys_hash="k")[1]
    assert service["spec"]["type"] == "NodePort"
    assert "externalIPs" not in service["spec"]
    assert service["spec"]["ports"] == [
        {"name": "slurmctld", "port": 7000, "targetPort": 6817, "protocol": "TCP", "nodePort": 30000}
    ]


def test_slurmdbd_and_slurmrestd() -> None:
    accounting = resource("Accounting", "slurm", {"slurmKeyRef": SLURM_KEY, "jwtKeyRef": JWT_KEY})
    secret, service, stateful = accounting_children(accounting, "secret-password", "k")
    assert "StoragePass=secret-password" in secret["stringData"]["slurmdbd.conf"]
    assert service["spec"]["ports"][0]["port"] == 6819
    assert files_of(stateful["spec"]["template"]["spec"])[0] == "secret:slurm-accounting:"
    other = accounting_children(accounting, "another", "k")[2]
    assert other["spec"]["template"]["metadata"] != stateful["spec"]["template"]["metadata"]
    rest_api = resource("RestApi", "slurm", {"replicas": 2})
    service, deployment = rest_api_children(rest_api, controller())
    assert (service["metadata"]["name"], service["spec"]["ports"][0]["port"]) == ("slurm-restapi", 6820)
    pod = deployment["spec"]["template"]["spec"]
    assert (deployment["spec"]["replicas"], pod["securityContext"]["runAsUser"]) == (2, 65534)
    assert container(pod, "slurmrestd")["args"] == ["0.0.0.0:6820"]


def test_login() -> None:
    spec = {
        "sssdConfRef": {"name": "sssd", "key": "conf"},
        "rootSshAuthorizedKeys": "ssh-ed25519 AAAA",
        "extraSshdConfig": "PermitRootLogin no\n",
    }
    login_set = resource("LoginSet", "login", spec)
    files, service, deployment = login_set_children(login_set, controller(), "s")
    assert files["data"]["authorized_keys"] == "ssh-ed25519 AAAA\n"
    assert files["data"]["sshd_config"].endswith("PermitRootLogin no\n")
    assert service["spec"]["ports"][0]["port"] == 22
    pod = deployment["spec"]["template"]["spec"]
    environment = {each["name"]: each["value"] for each in container(pod, "login")["env"]}
    assert environment == {"SACKD_OPTIONS": "--conf-server slurm-controller.slurm:6817"}
    assert volume(pod, "sssd-conf")["secret"]["items"] == [{"key": "conf", "path": "sssd.conf"}]
    assert [each["name"] for each in pod["initContainers"]] == ["initconf"]


def test_a_worker() -> None:
    item = node_set(
        slurmd={
            "image": "slurmd",
            "resources": {"limits": {"nvidia.com/gpu": 8, "cpu": "96", "memory": "1500Gi"}},
            "args": ["-vv"],
        },
        extraConf="Gres=gpu:h100:8 Features=ib,fast Weight=10",
        template={"spec": {"hostname": "gpu-", "terminationGracePeriodSeconds": 120}},
    )
    item["metadata"]["annotations"] = {"note": "a"}
    made = slurmd(item, controller(), "train-3", "gpu-3")
    pod = made["spec"]
    own = container(pod, "slurmd")
    assert own["args"] == [
        "-D",
        "-Z",
        "--conf-server",
        "slurm-controller.slurm:6817",
        "--conf",
        "Features=gpu,ib,fast Gres=gpu:h100:8 Weight=10",
        "-vv",
    ]
    assert {each["name"]: each.get("value") for each in own["env"]} == {
        "POD_CPUS": "96",
        "POD_MEMORY": str(1500 * 1024),
        "POD_TOPOLOGY": None,
    }
    assert own["securityContext"]["privileged"] is True
    assert "state=down" in own["lifecycle"]["preStop"]["exec"]["command"][-1]
    assert (pod["hostname"], pod["subdomain"]) == ("gpu-3", "slurm-workers-slurm")
    assert pod["terminationGracePeriodSeconds"] == 120
    assert files_of(pod) == ["secret:slurm-auth-slurm:slurm.key"]
    assert "podAntiAffinity" in pod["affinity"]
    assert made["metadata"]["labels"]["slinky.slurm.net/cluster"] == "slurm"
    assert made["metadata"]["annotations"]["note"] == "a"


def test_several_workers_may_share_a_node_only_where_that_is_asked_for() -> None:
    pod = slurmd(node_set(oversubscribeNode=True), controller(), "train-0", "train-0")["spec"]
    assert "affinity" not in pod


def test_a_worker_with_claims_and_sshd() -> None:
    item = node_set(
        volumeClaimTemplates=[{"metadata": {"name": "scratch"}, "spec": {}}],
        ssh={"enabled": True, "sssdConfRef": {"name": "sssd", "key": "conf"}},
    )
    pod = slurmd(item, controller(), "train-0", "train-0")["spec"]
    assert volume(pod, "scratch")["persistentVolumeClaim"] == {"claimName": "scratch-train-0"}
    assert volume(pod, "ssh-host-keys")["secret"]["secretName"] == "train-ssh-host-keys"


def test_an_item_without_a_value_is_an_error() -> None:
    with pytest.raises(ValueError, match="'Gres' without '='"):
        node_conf(node_set(extraConf="Weight=1 Gres"))


@pytest.mark.parametrize(
    ("text", "number"), [("500m", 0.5), (4, 4), ("2Gi", 2**31), ("1k", 1000), ("1e3", 1000), ("1.5Ki", 1536)]
)
def test_quantities(text: object, number: float) -> None:
    assert float(quantity(text)) == number


def test_no_quantity() -> None:
    with pytest.raises(ValueError, match="lots"):
        quantity("lots")
