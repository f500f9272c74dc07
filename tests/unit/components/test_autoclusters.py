"""AutoClusters: off unless the settings say otherwise, on either CMK generation, and never by default."""

from __future__ import annotations

import pytest

from tests.unit.components.support import Deployment, Json, deploy_platform, faults, settings_document

OLD, V1, V2 = "1.33.4-cmk.13", "1.33.4-cmk.43", "1.35.5"
REPAIR = {"GPU_FELL_OFF_THE_BUS": "REPLACE_NODE"}


def document(cluster_version: str = V1, /, **auto_clusters: object) -> Json:
    return settings_document(cluster={"version": cluster_version}, autoClusters=auto_clusters)


def deployed(cluster_version: str = V1, /, **auto_clusters: object) -> Deployment:
    return deploy_platform(document(cluster_version, **auto_clusters))


def test_the_configuration_stands_and_is_empty_by_default() -> None:
    deployment = deploy_platform(settings_document())
    config = deployment.one("platform-autoclusters-config")
    assert config.inputs == {"clusterId": "platform-cluster-cmk-id", "remediationActions": {}}
    assert config.deleted_with == deployment.one("platform-cluster-cmk").urn


def test_only_named_repairs_are_on() -> None:
    config = deployed(actions={**REPAIR, "XID_74": "OFF"}).one("platform-autoclusters-config")
    assert config.inputs["remediationActions"] == REPAIR


@pytest.mark.parametrize("fallback", [True, False])
def test_the_fallback_is_sent_when_it_is_managed(fallback: bool) -> None:
    config = deployed(actions=REPAIR, fallbackToProjectReservations=fallback).one("platform-autoclusters-config")
    assert config.inputs["fallbackToProjectReservations"] is fallback


def test_v2_has_no_configuration_of_the_cluster() -> None:
    deployment = deployed(V2)
    assert deployment.of("AutoClustersConfig") == []
    assert deployment.exports["autoClusters"] == {
        "setOn": "pools",
        "actions": {},
        "consentModes": {"system": "off", "train": "off"},
    }


def test_paused_nothing_is_repaired_and_the_settings_stay_as_they_are() -> None:
    config = deployed(actions=REPAIR, paused=True).one("platform-autoclusters-config")
    assert config.inputs["remediationActions"] == {}
    pools = {
        "system": {"type": "c1a.8x", "count": 2},
        "train": {"type": "l40s-48gb.10x", "count": 2, "consentMode": "auto"},
    }
    given = {**document(V2), "nodePools": pools, "network": {}}
    paused = {**given, "autoClusters": {"paused": True}}
    modes = [deploy_platform(each).exports["autoClusters"]["consentModes"]["train"] for each in (given, paused)]
    assert modes == ["auto", "off"]


def test_a_version_without_autoclusters_has_none() -> None:
    deployment = deployed(OLD)
    assert deployment.of("AutoClustersConfig") == []
    assert deployment.exports["autoClusters"] == {"setOn": "nothing", "actions": {}, "consentModes": {}}


def test_the_state_has_every_issue_of_the_clusters_own_catalogue() -> None:
    assert deployed(actions=REPAIR).exports["autoClusters"] == {
        "setOn": "cluster",
        "actions": {"XID_79": "OFF", **REPAIR},
        "consentModes": {},
    }


@pytest.mark.parametrize(
    ("version", "settings", "path", "problem"),
    [
        (V1, {"actions": {"XID_74": "RESTART"}}, "autoClusters.actions.XID_74", "not one of"),
        (V1, {"actions": {"gpu off bus": "OFF"}}, "autoClusters.actions.gpu off bus", "does not look like an issue"),
        (V1, {"actions": {"XID_74": False}}, "autoClusters.actions.XID_74", "Quote it"),
        (V1, {"fallbackToProjectReservations": True}, "autoClusters.fallbackToProjectReservations", "no issue"),
        (OLD, {"actions": REPAIR}, "cluster.version", "AutoClusters needs at least 1.33.4-cmk.20"),
        (OLD, {"fallbackToProjectReservations": False}, "cluster.version", "needs at least 1.33.4-cmk.20"),
        (V2, {"actions": REPAIR}, "autoClusters.actions", "a setting of CMK v1"),
        (
            V2,
            {"fallbackToProjectReservations": True},
            "autoClusters.fallbackToProjectReservations",
            "a setting of CMK v1",
        ),
    ],
)
def test_refused(version: str, settings: dict[str, object], path: str, problem: str) -> None:
    found = faults(document(version, **settings))
    assert problem in found[f"platform.{path}"], found


def test_repairs_need_a_pool_that_can_be_repaired() -> None:
    pools = {"system": {"type": "c1a.8x", "count": 2}, "slices": {"type": "a100-80gb.1x", "count": 2}}
    found = faults(settings_document(nodePools=pools, autoClusters={"actions": REPAIR}))
    assert "no pool of platform.nodePools" in found["platform.autoClusters.actions"]


def test_repairs_with_pools_that_are_never_repaired_are_said_to_leave_them_out() -> None:
    pools = settings_document()["nodePools"] | {"slices": {"type": "a100-80gb.1x", "count": 2}}
    (line,) = deploy_platform(settings_document(nodePools=pools, autoClusters={"actions": REPAIR})).log
    assert line.startswith("WARNING")
    assert "platform.nodePools.slices.type" in line
    assert deploy_platform(settings_document(nodePools=pools)).log == []


@pytest.mark.parametrize("issue", ["XID_13", "XID_31", "XID_43", "XID_45", "XID_94"])
def test_a_repair_for_what_a_job_does_to_every_node_is_advised_against(issue: str) -> None:
    actions = {"actions": {issue: "REPLACE_NODE", "XID_79": "REPLACE_NODE"}}
    (line,) = [each for each in deploy_platform(settings_document(autoClusters=actions)).log if "XID" in each]
    assert line.startswith("WARNING")
    assert f"platform.autoClusters.actions.{issue}" in line
    assert "comes back with it on every node" in line
