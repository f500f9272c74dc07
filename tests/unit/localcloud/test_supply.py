"""Organizations, identities, locations, VM types, capacities, quotas, reservations."""

from __future__ import annotations

from tests.unit.localcloud.conftest import FACTS, H100, OTHER, PROJECT, Api

ORGANIZATION = "00000000-0000-4000-8000-000000000000"


async def test_project_by_id_name_and_nothing(api: Api) -> None:
    by_id = await api.get(f"/organizations/projects/{PROJECT}")
    assert (by_id["id"], by_id["name"], by_id["organization_id"]) == (PROJECT, "local", ORGANIZATION)
    assert (await api.get("/organizations/projects"))["items"] == [by_id]
    assert (await api.get("/organizations/projects", project_name="local"))["items"] == [by_id]
    assert (await api.get("/organizations/projects", project_name="other"))["items"] == []
    assert (await api.get("/organizations/projects", project_name="no such; one/ü+"))["items"] == []
    assert (await api.get("/organizations/projects", org_id="", project_name="local"))["items"] == [by_id]
    assert (await api.get("/organizations/projects", org_id="another"))["items"] == []
    await api.refused(404, "GET", "/organizations/projects/nope")


async def test_each_key_opens_its_own_project(api: Api) -> None:
    other = api.cloud.keys.of_project("other")
    answer = await api.call_as(other, "GET", "/organizations/projects")
    assert [item["id"] for item in answer.json()["items"]] == [OTHER]


async def test_project_counts_what_it_holds(api: Api) -> None:
    await api.network()
    resources = (await api.get(f"/organizations/projects/{PROJECT}"))["resources"]
    assert resources["vpc_networks"] == {"count": 2}


async def test_identity_and_entities(api: Api) -> None:
    assert (await api.get("/users/identities"))["identity"]["email"] == "engineer@local.example"
    assert [item["id"] for item in (await api.get("/organizations/entities"))["items"]] == [ORGANIZATION]


async def test_locations(api: Api) -> None:
    locations = (await api.get("/locations"))["items"]
    assert locations == ["eu-iceland1-a", "us-east1-a", "us-northcentral1-a", "us-southcentral1-a"]


async def test_vm_types(api: Api) -> None:
    types = {row["product_name"]: row for row in (await api.get("{p}/compute/vms/types"))["items"]}
    assert (types[H100]["num_gpu"], types[H100]["gpu_type"], types[H100]["cpu_cores"]) == (8, "H100", 176)
    assert (types["a40.1x"]["cpu_cores"], types["a40.1x"]["memory_gb"]) == (6, 60)
    assert types["mi300x-192gb-ib.8x"]["gpu_type"] == "MI300X"
    assert types["c1a.2x"]["num_gpu"] == 0
    assert set(types) == set(FACTS.vm_types)


async def test_capacities(api: Api) -> None:
    items = (await api.get("/capacities"))["items"]
    assert {
        "location": "us-east1-a",
        "type": H100,
        "quantity": 1024,
        "num_slices": 8,
        "quota_type": "h100-80gb-sxm-ib",
    } in items
    east = (await api.get("/capacities", location="us-east1-a"))["items"]
    assert east == [row for row in items if row["location"] == "us-east1-a"]
    assert {row["location"] for row in (await api.get("/capacities", product_name="gb200-186gb-nvl.4x"))["items"]} == {
        "eu-iceland1-a"
    }
    await api.refused(400, "GET", "/capacities", location="mars")
    await api.refused(400, "GET", "/capacities", product_name="abacus")
    quotas = {row["name"] for row in (await api.get("{p}/quotas"))["items"]}
    assert {row["quota_type"] for row in items} <= quotas


async def test_quotas(api: Api) -> None:
    assert await api.get("{p}/quotas") == await api.get(f"/organizations/{ORGANIZATION}/quotas")
    await api.refused(403, "GET", "/organizations/nope/quotas")
    await api.admin("PUT", "quotas", {"name": "c1a", "max": 8, "project_id": OTHER})
    mine = {row["name"]: row for row in (await api.get("{p}/quotas"))["items"]}
    assert mine["c1a"]["max"] > 8


async def test_reservations(api: Api) -> None:
    items = (await api.get(f"/organizations/{ORGANIZATION}/reservations"))["items"]
    assert {(row["product_line"], row["quantity"], row["used_quantity"]) for row in items} >= {(H100, 64, 0)}


def test_every_fact_fits_the_others() -> None:
    families = {vm_type.family for vm_type in FACTS.vm_types.values()}
    for location in FACTS.locations.values():
        assert set(location.capacity) <= families
    for network in FACTS.ib_networks.values():
        assert network.location in FACTS.locations
        for name in network.capacity:
            assert FACTS.vm_types[name].fabric == "infiniband"
            assert FACTS.vm_types[name].family in FACTS.locations[network.location].capacity
    assert families <= set(FACTS.quotas)
    for reservation in FACTS.reservations.values():
        assert reservation.product_line in FACTS.vm_types
        assert set(reservation.locations) <= set(FACTS.locations)
    for version in FACTS.cluster_versions.values():
        assert version.name in FACTS.node_pool_versions
    features = {feature for version in FACTS.cluster_versions.values() for feature in version.features}
    assert {add_on.feature for add_on in FACTS.add_ons.values() if add_on.feature} <= features
    assert set(FACTS.autoclusters_issues.values()) == {"OFF", "REPLACE_NODE"}
