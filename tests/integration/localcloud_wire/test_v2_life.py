"""A CMK v2 cluster on a real control plane: add-ons later, pools that shrink, repair consent."""

from __future__ import annotations

import pytest

from tests.integration.localcloud_wire.server import Server
from tests.integration.localcloud_wire.terraform import Json, ProviderError, Terraform

pytestmark = pytest.mark.integration

CLUSTERS = "{p}/kubernetes/clusters"
POOLS = "{p}/kubernetes/nodepools"


def test_life(server: Server, terraform: Terraform) -> None:
    send, wait = terraform.call, terraform.wait
    asked: Json = {"location": "us-east1-a", "name": "two", "version": "1.35.5"}
    cluster = wait("kubernetes/clusters", send("POST", CLUSTERS, asked))["id"]
    path = f"{CLUSTERS}/{cluster}"

    send("POST", f"{path}/addons", {"addons": [{"addon_type": "nvidia_gpu_operator"}]})
    asked = {
        "cluster_id": cluster,
        "consent_mode": "off",
        "count": 3,
        "name": "gpu",
        "product_name": "l40s-48gb.10x",
        "update_settings": {"allow_scale_down": True},
    }
    pool = wait("kubernetes/nodepools", send("POST", POOLS, asked))["node_pool"]
    assert (pool["consent_mode"], pool["current"], pool["health"]["issues"]) == ("off", 3, [])

    wait("kubernetes/nodepools", send("PATCH", f"{POOLS}/{pool['id']}", {"count": 1}))
    read = send("GET", f"{POOLS}/{pool['id']}")
    assert (read["count"], read["instance_ids"]) == (1, pool["instance_ids"][:1])

    with pytest.raises(ProviderError, match=r"400 .*only available on CMK v1"):
        send("GET", f"{path}/autoclusters/config")
    with pytest.raises(ProviderError, match=r"400 .*only available on CMK v1"):
        send("POST", f"{POOLS}/{pool['id']}/rotate", {"count": 1, "percentage": 0, "strategy": "COUNT"})

    wait("kubernetes/nodepools", send("DELETE", f"{POOLS}/{pool['id']}"))
    wait("kubernetes/clusters", send("DELETE", path))
    assert send("GET", CLUSTERS)["items"] == []
    assert server.status()["clusters"] == []
