"""Slurm in the platform's cluster: order, options, secrets, and objects that Slinky's operator can work with."""

from __future__ import annotations

import json
from functools import cache

import pulumi
import pytest

from components.slurm import login
from crusoe.rules import slinky
from tests.unit.components.support import NODE_PORT, Deployment, Json, Recorded, deploy_platform, settings_document

PREFIX = "platform-slurm-slinky"
KINDS = ("Controller", "Accounting", "RestApi", "LoginSet", "NodeSet", "Token")


def document(**changes: object) -> Json:
    """A platform with Slurm; `changes` are changes of Slurm's settings."""
    slurm: Json = {"login": {"cidrs": ["203.0.113.0/24"]}, "home": {"disk": "home"}, **changes}
    return settings_document(storage={"disks": {"home": {"size": "2TiB"}}}, slurm=slurm)


@cache
def whole() -> Deployment:
    return deploy_platform(document())


def slurm(name: str, deployment: Deployment | None = None) -> Recorded:
    return (deployment or whole()).one(f"{PREFIX}-{name}")


def inside() -> list[Recorded]:
    return [each for each in whole().resources if each.type.startswith("kubernetes:") and each.name.startswith(PREFIX)]


def specs() -> list[tuple[str, Json]]:
    return [(each.type.rpartition(":")[2], each.inputs["spec"]) for each in inside() if "slinky.slurm.net" in each.type]


def test_every_object_is_one_that_the_operator_can_work_with() -> None:
    assert {kind for kind, _ in specs()} == set(KINDS)
    assert [finding for kind, spec in specs() for finding in slinky.spec(kind, kind, spec)] == []


@pytest.mark.parametrize(
    ("first", "then"),
    [
        # CRDs and cert-manager, the operator, its answering webhook, objects.
        ("releases-cert-manager-ready", "releases-slurm-operator"),
        ("releases-slurm-operator-crds", "releases-slurm-operator"),
        ("releases-slurm-operator-ready", "ready-webhook"),
        ("ready-webhook", "database"),
        ("ready-webhook", "controller"),
        ("ready-webhook", "login"),
        ("ready-webhook", "token-metrics"),
        # The operator's admission reads what a Controller names.
        ("config-files", "controller"),
        ("keys-slurm-secret", "controller"),
        ("keys-jwt-secret", "controller"),
        ("volumes-slurm-state-claim", "controller"),
        # slurmctld dies without its slurmdbd, and that without its database.
        ("releases-mariadb-operator-ready", "database"),
        ("volumes-mariadb", "database"),
        ("ready-database", "accounting"),
        ("ready-slurmdbd", "controller"),
        # Nothing drains without the REST API, so it stands before the workers and goes after them.
        ("restapi", "nodeset-train"),
        ("controller", "nodeset-train"),
        ("nodeset-train", "workers-train"),
        ("ready-control", "workers-train"),
    ],
)
def test_order(first: str, then: str) -> None:
    assert f"{PREFIX}-{first}" in whole().depends_on(slurm(then))


def test_releases_wait_for_the_nodes_that_their_pods_run_on() -> None:
    for each in whole().of("Release"):
        assert {"platform-pools-system", "platform-pools-train"} <= whole().depends_on(each)


def test_everything_in_the_cluster_goes_with_it_but_the_load_balancer() -> None:
    cluster = whole().one("platform-cluster-cmk").urn
    stays = {each.name for each in inside() if each.deleted_with != cluster}
    assert stays == {f"{PREFIX}-login-service"}
    waits = [*whole().of("SlurmReady"), *whole().of("SlurmWorkers")]
    assert {each.deleted_with for each in waits} == {cluster}


def test_everything_in_the_cluster_is_made_anew_in_another_one() -> None:
    assert {each.replacement_trigger for each in inside()} == {"platform-cluster-cmk-id"}
    assert all(each.delete_before_replace for each in inside())


def test_keys_are_drawn_once_and_never_in_clear() -> None:
    secrets = whole().of("Secret")
    assert {each.inputs["metadata"]["name"] for each in secrets} == {
        "slurm-auth-slurm",
        "slurm-auth-jwt",
        "slurm-database",
        "slurm-sssd",
    }
    for each in secrets:
        if each.inputs["metadata"]["name"] != "slurm-sssd":
            assert {"data", "stringData"} & each.secrets, each.name
    drawn = {each.name: each.inputs for each in whole().of("GeneratedSecret")}
    assert drawn[f"{PREFIX}-keys-slurm"] == {"length": 1024, "encoding": "base64", "keepers": {"keyVersion": "1"}}
    assert "keepers" not in drawn[f"{PREFIX}-keys-database"]
    assert "drawn-" not in json.dumps(whole().exports)


def test_another_key_version_draws_slurms_keys_and_nothing_else_anew() -> None:
    drawn = {
        each.name: each.inputs.get("keepers") for each in deploy_platform(document(keyVersion=2)).of("GeneratedSecret")
    }
    assert drawn == {
        f"{PREFIX}-keys-slurm": {"keyVersion": "2"},
        f"{PREFIX}-keys-jwt": {"keyVersion": "2"},
        f"{PREFIX}-keys-database": None,
        f"{PREFIX}-keys-database-root": None,
    }


def test_labels_and_annotations_of_slinkys_objects_are_stable() -> None:
    # They reach the pods, so one that changes with each run would restart the daemons with each run.
    found = [each.inputs["metadata"] for each in inside() if "slinky.slurm.net" in each.type]
    assert found
    for each in found:
        assert set(each) == {"name", "namespace", "annotations"}
        assert each["annotations"] == {"pulumi.com/patchForce": "true"}


def test_a_node_set_has_the_whole_of_each_node_but_a_margin() -> None:
    spec = slurm("nodeset-train").inputs["spec"]
    limits = spec["slurmd"]["resources"]["limits"]
    assert (limits["nvidia.com/gpu"], limits["cpu"]) == (8, 172)
    assert limits["nvidia.com/hostdev"] == 8  # without its adapters a job of two nodes would go over TCP
    mib = 960 * 10**9 // 2**20
    assert mib * 0.93 < int(limits["memory"].removesuffix("Mi")) < mib * 0.95
    items = dict(item.split("=") for item in spec["extraConf"].split())
    assert items["Gres"] == "gpu:h100:8"
    # The image gives jobs what the limits leave of the node; a RealMemory would take the margin off twice.
    assert "RealMemory" not in items
    assert spec["replicas"] == 2
    assert spec["template"]["spec"]["nodeSelector"]["crusoe.ai/nodepool.name"] == "test-train"


def test_the_reserve_stays_free() -> None:
    changed = document()
    changed["nodePools"]["train"] |= {"count": 4, "reserve": 1}
    assert slurm("nodeset-train", deploy_platform(changed)).inputs["spec"]["replicas"] == 3


def test_the_operators_own_toleration_survives_those_of_the_pool() -> None:
    changed = document()
    changed["nodePools"]["train"]["nodeTaints"] = [{"key": "example.com/a", "value": "b", "effect": "NoSchedule"}]
    tolerations = slurm("nodeset-train", deploy_platform(changed)).inputs["spec"]["template"]["spec"]["tolerations"]
    assert {each["key"] for each in tolerations} == {
        "nodeset.slinky.slurm.net/worker",
        "nvidia.com/gpu",
        "example.com/a",
    }


def test_a_worker_that_ends_drains_requeues_and_has_the_time_for_it() -> None:
    spec = slurm("nodeset-train").inputs["spec"]
    (_, _, script) = spec["slurmd"]["lifecycle"]["preStop"]["exec"]["command"]
    assert "state=drain" in script
    assert "state=down" not in script
    assert "scontrol requeue" in script
    assert "ask 30 scontrol update" in script  # the drain budget
    assert "ask 120 squeue" in script  # and KillWait 90
    assert spec["template"]["spec"]["terminationGracePeriodSeconds"] == 150


def test_an_autoscaled_pool_follows_its_nodes_and_has_no_number() -> None:
    changed = document(pools={"train": {"scalingMode": "DaemonSet"}})
    changed["nodePools"]["train"] = {"type": "h100-80gb-sxm-ib.8x", "autoscaling": {"min": 1, "max": 4}}
    deployment = deploy_platform(changed)
    spec = slurm("nodeset-train", deployment).inputs["spec"]
    assert "replicas" not in spec
    assert spec["pruneSlurmNodeRecords"] == "NodeNotFound"
    assert "replicas" not in slurm("workers-train", deployment).inputs


@pytest.mark.parametrize("kind", ["operator", "webhook"])
def test_the_operator_survives_a_node_and_can_not_stop_the_cluster(kind: str) -> None:
    values = slurm("releases-slurm-operator").inputs["values"][kind]
    assert (values["replicas"], values["pdb"]["enabled"], values["leaderElection"]) == (2, True, True)
    assert values["namespaces"] == "slurm"
    terms = values["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    assert {each["key"]: each["operator"] for term in terms for each in term["matchExpressions"]} == {
        "crusoe.ai/accelerator": "DoesNotExist",
        "nvidia.com/gpu.present": "DoesNotExist",
    }


def test_a_dead_webhook_never_stops_pods() -> None:
    webhook = slurm("releases-slurm-operator").inputs["values"]["webhook"]
    assert webhook["mutating"]["failurePolicy"] == "Ignore"
    assert webhook["validating"]["failurePolicy"] == "Fail"


def test_slinkys_charts_and_images_are_of_one_version() -> None:
    releases = {each.inputs["name"]: each.inputs for each in whole().of("Release")}
    operator = releases["slurm-operator"]
    assert operator["version"] == releases["slurm-operator-crds"]["version"]
    for kind in ("operator", "webhook"):
        assert operator["values"][kind]["image"]["tag"] == operator["version"]


def test_daemons_are_pinned_to_one_release_of_slurm() -> None:
    tags = {
        spec[daemon]["image"].rpartition(":")[2]
        for _, spec in specs()
        for daemon in ("slurmctld", "slurmdbd", "slurmrestd", "slurmd", "login")
        if daemon in spec
    }
    assert tags == {"26.05.1-ubuntu26.04"}


def test_a_digest_pins_an_image_and_a_mirror_serves_all() -> None:
    digest = "sha256:" + "a" * 64
    images = {"registry": "registry.example.com/slinky", "digests": {"slurmd": digest}}
    deployment = deploy_platform(document(images=images))
    assert (
        slurm("nodeset-train", deployment).inputs["spec"]["slurmd"]["image"]
        == f"registry.example.com/slinky/slurmd@{digest}"
    )
    values = slurm("releases-slurm-operator", deployment).inputs["values"]
    assert values["operator"]["image"]["repository"] == "registry.example.com/slinky/slurm-operator"


@pytest.mark.parametrize(
    ("source", "chart", "repository"),
    [
        (None, "oci://ghcr.io/slinkyproject/charts/slurm-operator", None),
        ("oci://registry.example.com/charts/", "oci://registry.example.com/charts/slurm-operator", None),
        ("https://charts.example.com", "slurm-operator", "https://charts.example.com"),
        ("localcloud/charts", "./localcloud/charts/slurm-operator", None),
    ],
)
def test_charts_come_from_the_public_registry_a_mirror_or_a_folder(
    source: str | None, chart: str, repository: str | None
) -> None:
    charts = {"source": source} if source else {}
    inputs = slurm("releases-slurm-operator", deploy_platform(document(charts=charts))).inputs
    assert inputs["chart"] == chart
    assert inputs.get("repositoryOpts", {}).get("repo") == repository


def test_the_programs_of_a_release_are_waited_for_by_what_can_say_why_they_are_not_there() -> None:
    """Helm itself doesn't wait, so it can't be interrupted while it does."""
    releases = {each.inputs["name"]: each.inputs for each in whole().of("Release")}
    for name, inputs in releases.items():
        assert (inputs["skipAwait"], inputs.get("atomic"), inputs["cleanupOnFail"]) == (True, None, True)
        if not name.endswith("-crds"):
            ready = slurm(f"releases-{name}-ready").inputs
            assert ready["waitFor"] == [{"kind": "Release", "namespace": inputs["namespace"], "name": name}]
            assert ready["waitSeconds"] == 300
    assert {"cert-manager", "slurm-operator", "slurm-operator-crds"} < releases.keys()


def test_a_release_with_other_values_is_waited_for_again() -> None:
    def trigger(**images: object) -> str:
        changed = deploy_platform(document(images=images))
        return slurm("releases-slurm-operator-ready", changed).inputs["triggers"]["release"]

    assert trigger() == trigger() != trigger(registry="registry.example.com/slinky")


def test_disks_of_slurm_are_the_platforms_own_protected_and_kept() -> None:
    disks = {each.inputs["name"]: each for each in whole().of("StorageDisk")}
    assert {"test-slurm-state", "test-slurm-database"} < disks.keys()
    assert all(each.protect for each in disks.values())
    volumes = {each.inputs["metadata"]["name"]: each.inputs["spec"] for each in whole().of("PersistentVolume")}
    assert {name: each["persistentVolumeReclaimPolicy"] for name, each in volumes.items()} == {
        "slurm-slurm-state": "Retain",
        "slurm-mariadb": "Retain",
        "slurm-slurm-home": "Retain",
    }
    assert volumes["slurm-slurm-state"]["csi"]["volumeHandle"] == f"{PREFIX}-disk-state-id"
    assert volumes["slurm-slurm-home"]["csi"]["driver"] == "fs.csi.crusoe.ai"


def test_home_is_one_disk_on_login_nodes_and_workers() -> None:
    for name, daemon in (("login", "login"), ("nodeset-train", "slurmd")):
        spec = slurm(name).inputs["spec"]
        assert {"name": "slurm-home", "mountPath": "/home"} in spec[daemon]["volumeMounts"]


def test_login_is_open_to_the_named_networks_only() -> None:
    service = slurm("login-service").inputs
    assert service["spec"]["loadBalancerSourceRanges"] == ["203.0.113.0/24"]
    rule = slurm("login-rule").inputs
    # The firewall sees the port on the nodes, which the API server draws.
    assert "nodePort" not in service["spec"]["ports"][0]
    assert (rule["sources"], rule["destinationPorts"]) == (["203.0.113.0/24"], [str(NODE_PORT)])
    assert whole().exports["loginHost"] == "192.0.2.8"


@pytest.mark.parametrize("spec", [{}, {"ports": [{"port": 22}]}, {"ports": []}])
def test_a_service_without_a_port_on_the_nodes_gets_no_rule_for_all_of_them(spec: Json) -> None:
    with pytest.raises(pulumi.RunError, match="Service slurm/slurm-login has no port on the nodes"):
        login.node_ports(spec)


def test_without_networks_nothing_leads_in() -> None:
    deployment = deploy_platform(document(login={}))
    assert deployment.of("Service") == []
    assert f"{PREFIX}-login-rule" not in {each.name for each in deployment.resources}
    assert deployment.exports["loginHost"] == ""


def test_nobody_logs_in_as_root_or_with_a_password_unless_asked() -> None:
    spec = slurm("login").inputs["spec"]
    assert "PermitRootLogin no" in spec["extraSshdConfig"]
    assert "PasswordAuthentication no" in spec["extraSshdConfig"]
    with_key = deploy_platform(document(login={"rootKeys": ["ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIExample ops"]}))
    assert "PermitRootLogin no" not in slurm("login", with_key).inputs["spec"]["extraSshdConfig"]


def test_without_accounting_there_is_no_database() -> None:
    deployment = deploy_platform(document(accounting={"enabled": False}))
    names = {each.name for each in deployment.resources}
    assert not {name for name in names if "database" in name or "accounting" in name or "mariadb" in name}
    assert "accountingRef" not in slurm("controller", deployment).inputs["spec"]


def test_a_database_elsewhere_is_used_with_the_stacks_secret() -> None:
    database = {"host": "db.example.com", "passwordSecret": "databasePassword"}
    settings = document(accounting={"database": database})
    deployment = deploy_platform(settings, config={"crusoe-gpu-platform:databasePassword": "hunter2"})
    assert deployment.of("MariaDB") == []
    assert slurm("accounting", deployment).inputs["spec"]["storageConfig"]["host"] == "db.example.com"
    secret = slurm("keys-database-secret", deployment)
    assert secret.inputs["stringData"] == {"password": "hunter2"}
    assert "stringData" in secret.secrets


def test_other_files_of_slurmctld_are_another_config_map() -> None:
    # The pod restarts with another name only: the operator does not look into them.
    def name(deployment: Deployment) -> str:
        found = slurm("config-files", deployment).inputs["metadata"]["name"]
        assert slurm("controller", deployment).inputs["spec"]["configFileRefs"] == [{"name": found}]
        return found

    assert name(whole()) == name(deploy_platform(document()))
    assert name(whole()) != name(deploy_platform(document(conf={"requireTimeLimit": False})))


def test_another_option_of_slurm_conf_changes_the_controller_alone() -> None:
    before = {each.name: each.inputs for each in whole().resources}
    after = {each.name: each.inputs for each in deploy_platform(document(timing={"slurmdTimeout": 90})).resources}
    assert {name for name in before | after if before.get(name) != after.get(name)} == {f"{PREFIX}-controller"}


def test_another_pool_is_an_addition_and_changes_nothing_else() -> None:
    changed = document()
    changed["nodePools"]["more"] = {"type": "h100-80gb-sxm-ib.8x", "count": 1}
    before = {each.name: each.inputs for each in whole().resources}
    after = {each.name: each.inputs for each in deploy_platform(changed).resources}
    assert {name for name in before if before[name] != after.get(name)} == set()
    assert {f"{PREFIX}-nodeset-more", f"{PREFIX}-workers-more", "platform-pools-more"} == after.keys() - before.keys()


@pytest.mark.parametrize("mode", ["StatefulSet", "DaemonSet"])
def test_the_nodeset_of_a_retired_pool_has_no_workers_and_no_protection(mode: str) -> None:
    changed = document(pools={"old": {"scalingMode": mode}})
    changed["protect"] = True
    changed["nodePools"]["old"] = {"type": "h100-80gb-sxm-ib.8x", "count": 1}
    assert slurm("nodeset-old", deploy_platform(changed)).protect
    changed["nodePools"]["old"]["retire"] = True
    deployment = deploy_platform(changed)
    node_set = slurm("nodeset-old", deployment)
    assert not node_set.protect
    spec = node_set.inputs["spec"]
    assert (spec["replicas"], spec["scalingMode"], spec["partition"]) == (0, "StatefulSet", {"enabled": False})
    assert f"{PREFIX}-workers-old" not in {each.name for each in deployment.resources}


def test_node_sets_and_keys_are_protected_with_the_platform() -> None:
    for protect in (True, False):
        deployment = deploy_platform({**document(), "protect": protect})
        assert {each.protect for each in (*deployment.of("NodeSet"), *deployment.of("GeneratedSecret"))} == {protect}


def test_slurm_bridge_is_off_unless_asked_for() -> None:
    assert f"{PREFIX}-releases-slurm-bridge" not in {each.name for each in whole().resources}
    deployment = deploy_platform(document(bridge={"namespaces": ["batch"]}))
    bridge = slurm("releases-slurm-bridge", deployment)
    assert bridge.inputs["namespace"] == "slurm"
    assert bridge.inputs["values"]["admission"]["managedNamespaces"] == ["batch"]
    token = slurm("token-bridge", deployment).inputs["spec"]
    assert token["secretRef"] == {
        "name": bridge.inputs["values"]["sharedConfig"]["slurmJwtSecret"],
        "key": "auth-token",
    }
    assert {f"{PREFIX}-restapi", f"{PREFIX}-token-bridge"} <= deployment.depends_on(bridge)
