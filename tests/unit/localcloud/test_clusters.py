"""CMK clusters: answers, defaults, what each generation takes, what keeps one from starting."""

from __future__ import annotations

from typing import Any

import pytest

from localcloud.control_plane import ControlPlaneError
from tests.unit.localcloud.conftest import V1, V2, Api, failed, succeeded

CLUSTERS = "{p}/kubernetes/clusters"
RULES = "{p}/networking/vpc-firewall-rules"
INSIDE = [{"cidr": "10.0.0.0/20"}]
ANYWHERE = [{"cidr": "0.0.0.0/0"}]


def body(**more: Any) -> dict[str, Any]:
    return {"name": "clu", "location": "us-east1-a", "version": V1, **more}


def egress(**more: Any) -> dict[str, Any]:
    return {
        "name": "egress",
        "action": "allow",
        "direction": "egress",
        "protocols": ["tcp", "udp"],
        "sources": INSIDE,
        "destinations": ANYWHERE,
        "destination_ports": ["1-65535"],
        **more,
    }


def inside(**more: Any) -> dict[str, Any]:
    return egress(name="inside", direction="ingress", destinations=INSIDE, **more)


async def test_answers_with_every_default_filled_in(api: Api) -> None:
    made = succeeded(await api.post(CLUSTERS, body()))
    assert made["state"] == "STATE_RUNNING"
    assert made["version"] == V1
    assert made["add_ons"] == []
    assert made["node_pools"] == []
    assert made["node_cidr_mask_size"] == 24
    assert made["cluster_cidr"] != made["service_cluster_ip_range"]
    default = next(
        s for s in (await api.get("{p}/networking/vpc-subnets"))["items"] if s["name"] == "default-us-east1-a"
    )
    assert made["subnet_id"] == default["id"]
    for absent in ("private", "auth_config", "apiserver_extra_args", "routing_mode", "generation"):
        assert absent not in made
    assert await api.get(f"{CLUSTERS}/{made['id']}") == made
    assert (await api.get(CLUSTERS))["items"] == [made]


async def test_echoes_what_was_asked_for(api: Api) -> None:
    asked = body(
        add_ons=["nvidia_gpu_operator", "crusoe_csi", "cluster_autoscaler"],
        cluster_cidr="10.1.0.0/16",
        service_cluster_ip_range="10.2.0.0/16",
        node_cidr_mask_size=25,
        private=True,
        apiserver_extra_args={"v": "4"},
        kubelogin_args={"oidc-extra-scope": "email"},
        auth_config={"oidc": {"issuer_url": "https://id.example", "client_id": "c", "username_claim": "sub"}},
    )
    made = succeeded(await api.post(CLUSTERS, asked))
    assert {key: made[key] for key in asked if key != "auth_config"} == {
        key: value for key, value in asked.items() if key != "auth_config"
    }
    assert "auth_config" not in made
    spec = api.plane.clusters[made["id"]]
    assert spec.oidc is not None
    assert (spec.oidc.issuer_url, spec.private, spec.add_ons) == ("https://id.example", True, tuple(asked["add_ons"]))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"version": "1.33.4"}, "not offered"),
        ({"version": "latest"}, "neither like 1.33.4-cmk.43"),
        ({"location": "mars1-a"}, "location"),
        ({"add_ons": ["slurm"]}, "known are crusoe_csi"),
        ({"add_ons": ["crusoe_csi", "crusoe_csi"]}, "twice"),
        ({"add_ons": ["amd_gpu_operator"]}, "not available on version"),
        ({"subnet_id": "nope"}, "no VPC subnet"),
        ({"cluster_cidr": "10.0.0.1/16"}, "cluster_cidr"),
        ({"cluster_cidr": "10.1.0.0/16", "service_cluster_ip_range": "10.1.128.0/20"}, "overlaps service"),
        ({"cluster_cidr": "172.27.0.0/16"}, "overlaps subnet"),
        ({"cluster_cidr": "10.1.0.0/24"}, "no room for nodes"),
        ({"node_cidr_mask_size": 24.0}, "node_cidr_mask_size"),
        ({"node_cidr_mask_size": "24"}, "node_cidr_mask_size"),
        ({"private": "true"}, "private"),
        ({"auth_config": {"oidc": {"issuer_url": "https://id.example"}}}, "auth_config.oidc.client_id: required"),
        ({"auth_config": {"oidc": {"issuer_url": "http://id", "client_id": "c"}}}, "issuer_url"),
        ({"apiserver_extra_args": {"v": 4}}, "apiserver_extra_args.v"),
        ({"routing_mode": "native"}, "routing_mode is only available on CMK v2"),
        ({"consent_mode": "off"}, "consent_mode: unknown field"),
        ({"version": V2, "add_ons": ["crusoe_csi"]}, "POST .../clusters/{id}/addons"),
        ({"version": V2, "routing_mode": "sideways"}, "routing_mode"),
    ],
)
async def test_refusals(api: Api, change: dict[str, Any], words: str) -> None:
    assert words in await api.refused(400, "POST", CLUSTERS, body(**change))
    assert (await api.get(CLUSTERS))["items"] == []


async def test_subnet_must_lie_in_the_location(api: Api) -> None:
    subnet = await api.subnet(await api.network(), location="eu-iceland1-a")
    assert "not in us-east1-a" in await api.refused(400, "POST", CLUSTERS, body(subnet_id=subnet))


async def test_v2(api: Api) -> None:
    made = succeeded(await api.post(CLUSTERS, body(version=V2, routing_mode="native")))
    assert (made["version"], made["routing_mode"], made["add_ons"]) == (V2, "native", [])
    other = succeeded(await api.post(CLUSTERS, body(name="b", version=V2)))
    assert other["routing_mode"] == "overlay"


async def test_generation_switch_bounds_what_is_offered(api: Api) -> None:
    await api.admin("PATCH", "settings", {"generation": "v1"})
    assert "not offered" in await api.refused(400, "POST", CLUSTERS, body(version=V2))
    await api.admin("PATCH", "settings", {"generation": "v2"})
    assert "not offered" in await api.refused(400, "POST", CLUSTERS, body())
    succeeded(await api.post(CLUSTERS, body(version=V2)))


@pytest.mark.parametrize(
    ("rules", "missing"),
    [
        ([], "no egress rule"),
        ([inside()], "no egress rule"),
        ([egress(action="deny"), inside()], "no egress rule"),
        ([egress(destinations=INSIDE), inside()], "no egress rule"),
        ([egress(protocols=["udp"]), inside()], "no egress rule"),
        ([egress(destination_ports=["80"]), inside()], "no egress rule"),
        ([egress(sources=[{"cidr": "10.0.64.0/20"}]), inside()], "no egress rule"),
        ([egress()], None),
        ([egress(), inside()], None),
        ([egress(sources=[{"cidr": "10.0.0.0/16"}]), inside(sources=[{"cidr": "10.0.0.0/8"}])], None),
        ([egress(sources=["network"]), inside(sources=["subnet"])], None),
    ],
)
async def test_firewall_decides_whether_a_cluster_starts(api: Api, rules: list[Any], missing: str | None) -> None:
    network = await api.network()
    subnet = await api.subnet(network)
    ids = {"network": network, "subnet": subnet}
    for rule in rules:
        sources = [{"resource_id": ids[s]} if isinstance(s, str) else s for s in rule["sources"]]
        succeeded(await api.post(RULES, {**rule, "sources": sources, "vpc_network_id": network}))
    answer = await api.post(CLUSTERS, body(subnet_id=subnet))
    if missing is None:
        succeeded(answer)
    else:
        assert missing in failed(answer)
        assert (await api.get(CLUSTERS))["items"] == []
        assert api.plane.clusters == {}


async def test_rule_that_is_not_active_yet_lets_nothing_through(api: Api) -> None:
    network = await api.network()
    subnet = await api.subnet(network)
    await api.fault("POST .../vpc-firewall-rules", "stall-operation")
    for rule in (egress(), inside()):
        await api.post(RULES, {**rule, "vpc_network_id": network})
    assert "no egress rule" in failed(await api.post(CLUSTERS, body(subnet_id=subnet)))


async def test_no_cluster_in_a_subnet_that_is_going(api: Api) -> None:
    subnet = await api.subnet(await api.network())
    await api.admin("PATCH", "settings", {"operation_seconds": 60.0})
    await api.delete("{p}/networking/vpc-subnets/" + subnet)
    await api.refused(409, "POST", CLUSTERS, body(subnet_id=subnet))


async def test_no_pool_in_a_cluster_that_is_changing(api: Api) -> None:
    cluster = await api.cluster()
    await api.admin("PATCH", "settings", {"operation_seconds": 60.0})
    await api.patch(f"{CLUSTERS}/{cluster}", {"scheduler_extra_args": {"v": "2"}})
    pool = {"name": "p", "cluster_id": cluster, "count": 1, "product_name": "c1a.8x"}
    await api.refused(409, "POST", "{p}/kubernetes/nodepools", pool)


async def test_update(api: Api) -> None:
    cluster = await api.cluster(apiserver_extra_args={"v": "4"})
    path = f"{CLUSTERS}/{cluster}"
    for nothing in ({}, {"kubelogin_args": None}, {"scheduler_extra_args": None}):
        assert "changes nothing" in await api.refused(400, "PATCH", path, nothing)
    changed = succeeded(await api.patch(path, {"scheduler_extra_args": {"v": "2"}, "kubelogin_args": None}))
    assert (changed["apiserver_extra_args"], changed["scheduler_extra_args"]) == ({"v": "4"}, {"v": "2"})
    assert succeeded(await api.patch(path, {"apiserver_extra_args": {}}))["apiserver_extra_args"] == {}
    for fixed in ("version", "add_ons", "name", "private"):
        assert f"{fixed}: unknown field" in await api.refused(400, "PATCH", path, {fixed: "x"})


async def test_delete(api: Api) -> None:
    cluster = await api.cluster()
    pool = await api.pool(cluster, name="workers")
    assert "workers" in await api.refused(400, "DELETE", f"{CLUSTERS}/{cluster}")
    assert (await api.get(f"{CLUSTERS}/{cluster}"))["node_pools"] == [pool["id"]]
    succeeded(await api.delete("{p}/kubernetes/nodepools/" + pool["id"]))
    assert succeeded(await api.delete(f"{CLUSTERS}/{cluster}")) is None
    await api.refused(404, "GET", f"{CLUSTERS}/{cluster}")
    assert api.plane.clusters == {}


async def test_subnet_of_a_cluster_stays(api: Api) -> None:
    network = await api.network()
    subnet = await api.subnet(network)
    for rule in (egress(), inside()):
        succeeded(await api.post(RULES, {**rule, "vpc_network_id": network}))
    await api.cluster(subnet_id=subnet)
    assert "in use by Kubernetes cluster clu" in await api.refused(
        400, "DELETE", "{p}/networking/vpc-subnets/" + subnet
    )


async def test_name_is_unique(api: Api) -> None:
    await api.cluster()
    await api.refused(409, "POST", CLUSTERS, body())


async def test_list_filters(api: Api) -> None:
    one = await api.cluster(name="one")
    two = await api.cluster(name="two", version=V2)

    async def ids(**query: str) -> list[str]:
        return [item["id"] for item in (await api.get(CLUSTERS, **query))["items"]]

    assert await ids() == [one, two]
    assert await ids(cluster_id=two) == [two]
    assert await ids(cluster_name="one") == [one]
    assert await ids(versions=V2) == [two]
    assert await ids(states="STATE_DELETING") == []
    assert await ids(locations="us-east1-a") == [one, two]
    assert await ids(cluster_search_names="tw") == [two]


async def test_credentials(api: Api) -> None:
    cluster = await api.cluster()
    path = f"{CLUSTERS}/{cluster}/get-credentials"
    first, second = await api.post(path), await api.post(path, auth_type="admin_cert")
    assert set(first) == {
        "cluster_name",
        "cluster_address",
        "cluster_ca_certificate",
        "user_name",
        "user_client_certificate",
        "user_client_key",
        "kube_config",
    }
    assert first["user_name"] != second["user_name"]
    assert "no OIDC settings" in await api.refused(400, "POST", path, auth_type="oidc")
    await api.refused(400, "POST", path, auth_type="magic")
    await api.refused(404, "POST", f"{CLUSTERS}/nope/get-credentials")


async def test_no_credentials_before_the_cluster_runs(api: Api) -> None:
    await api.admin("PATCH", "settings", {"operation_seconds": 60.0})
    await api.post(CLUSTERS, body())
    [cluster] = (await api.get(CLUSTERS))["items"]
    assert cluster["state"] == "STATE_PROVISIONING"
    assert "not running" in await api.refused(400, "POST", f"{CLUSTERS}/{cluster['id']}/get-credentials")
    assert "not running" in await api.refused(
        400,
        "POST",
        "{p}/kubernetes/nodepools",
        {"name": "p", "cluster_id": cluster["id"], "count": 1, "product_name": "c1a.8x"},
    )


async def test_support_settings(api: Api) -> None:
    path = f"{CLUSTERS}/{await api.cluster()}/support/settings"
    assert await api.get(path) == {"access_enabled": False, "enabled_roles": [], "active_requests": []}
    changed = await api.patch(path, {"access_enabled": True, "enabled_roles": ["readonly"]})
    assert changed == {"access_enabled": True, "enabled_roles": ["readonly"], "active_requests": []}
    assert await api.patch(path, {"access_enabled": False}) == {**changed, "access_enabled": False}
    await api.refused(400, "PATCH", path, {"enabled_roles": ["root"]})


async def test_failed_delete_leaves_it_running(api: Api) -> None:
    cluster = await api.cluster()
    await api.fault("DELETE .../clusters/*", "fail-operation", times=1)
    failed(await api.delete(f"{CLUSTERS}/{cluster}"))
    assert (await api.get(f"{CLUSTERS}/{cluster}"))["state"] == "STATE_RUNNING"
    succeeded(await api.delete(f"{CLUSTERS}/{cluster}"))


async def test_control_plane_that_does_not_come_up(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    plane = api.plane
    removed: list[str] = []

    def broken(_cluster: object) -> None:
        raise ControlPlaneError("etcd did not start")

    monkeypatch.setattr(plane, "create", broken)
    monkeypatch.setattr(plane, "delete", removed.append)
    answer = await api.post(CLUSTERS, body())
    assert failed(answer) == "etcd did not start"
    assert (await api.get(CLUSTERS))["items"] == []
    assert len(removed) == 1


async def test_versions(api: Api) -> None:
    lists = await api.get("{p}/kubernetes/versions")
    clusters = {v["cluster_version_name"]: v for v in lists["kubernetes_cluster_versions"]}
    pools = [v["node_pool_version_name"] for v in lists["kubernetes_node_pool_versions"]]
    assert clusters[V1]["version_details"] == {
        "MajorMinorVersion": "1.33",
        "PatchVersion": "4",
        "BuildVersion": "cmk.43",
    }
    assert "autoclusters" in clusters[V1]["supported_features"]
    assert "autoclusters" not in clusters["1.33.4-cmk.13"]["supported_features"]
    assert V2 in clusters
    assert V2 in pools
    assert "1.31.7-cmk.24" not in clusters
    shown = await api.get("{p}/kubernetes/versions", show_deprecated="true")
    assert "1.31.7-cmk.24" in [v["cluster_version_name"] for v in shown["kubernetes_cluster_versions"]]
    amd = await api.get("{p}/kubernetes/versions", product_name="mi300x-192gb-ib.8x")
    assert V1 not in [v["cluster_version_name"] for v in amd["kubernetes_cluster_versions"]]
    await api.refused(400, "GET", "{p}/kubernetes/versions", product_name="abacus")
    await api.admin("PATCH", "settings", {"generation": "v2"})
    only = await api.get("{p}/kubernetes/versions")
    assert all("-cmk" not in v["cluster_version_name"] for v in only["kubernetes_cluster_versions"])
