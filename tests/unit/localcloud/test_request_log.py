"""The request log: everything a test may want to judge by, and no secret."""

from __future__ import annotations

import json

from localcloud import requests
from localcloud.requests import RequestLog, redact
from localcloud.store import Store
from tests.unit.localcloud.conftest import PROJECT, Api


async def test_every_request_is_logged(api: Api) -> None:
    await api.post("{p}/networking/vpc-networks", {"name": "n", "cidr": "10.0.0.0/16"})
    await api.call("GET", "/capacities", location="mars")
    await api.client.get("/v1/locations", headers={"User-Agent": "CrusoeTerraform/v1.1.1"})
    made, refused, unsigned = (await api.admin("GET", "requests"))["items"]
    assert (made["method"], made["path"]) == ("POST", f"/v1/projects/{PROJECT}/networking/vpc-networks")
    assert (made["body"], made["status"]) == ({"name": "n", "cidr": "10.0.0.0/16"}, 200)
    assert made["key_id"] == api.key.id
    assert (refused["query"], refused["status"], refused["body"]) == ("location=mars", 400, None)
    assert (unsigned["status"], unsigned["key_id"], unsigned["user_agent"]) == (401, None, "CrusoeTerraform/v1.1.1")
    assert made["at"] <= refused["at"] <= unsigned["at"]
    assert (await api.admin("GET", f"requests?since={made['id']}"))["items"] == [refused, unsigned]
    assert (await api.admin("GET", "requests?last=true&limit=1"))["items"] == [unsigned]
    await api.admin("DELETE", "requests")
    assert (await api.admin("GET", "requests"))["items"] == []


async def test_no_secret_is_kept(api: Api) -> None:
    cluster = await api.cluster()
    await api.post(f"{{p}}/kubernetes/clusters/{cluster}/get-credentials")
    await api.call("POST", "{p}/storage/disks", {"name": "d", "password": "canary"})
    kept = json.dumps((await api.admin("GET", "requests"))["items"])
    for secret in (api.key.secret, api.cloud.keys.admin_token, "Bearer", "canary", "kube_config"):
        assert secret not in kept


def test_redaction_goes_deep() -> None:
    document = {"a": [{"client_key": "x", "keep": 1}], "secret_key": {"b": "x"}, "ssh_public_key": "k", "token": ""}
    assert redact(document) == {
        "a": [{"client_key": "[secret]", "keep": 1}],
        "secret_key": "[secret]",
        "ssh_public_key": "k",
        "token": "",
    }


def test_the_log_does_not_grow_for_ever() -> None:
    log = RequestLog(Store(":memory:"))
    for _ in range(requests.KEPT + 1000):
        log.add(
            at=0.0,
            method="GET",
            path="/",
            query="",
            body=b"",
            status=200,
            key_id=None,
            user_agent=None,
            fault=None,
            milliseconds=0.0,
        )
    assert len(log.last(2 * requests.KEPT)) == requests.KEPT


async def test_body_that_is_no_json_is_not_kept(api: Api) -> None:
    await api.client.post("/v1/locations", content=b"secret \xff")
    [item] = (await api.admin("GET", "requests"))["items"]
    assert item["body"] == "[8 bytes that are not JSON]"


async def test_huge_body_is_refused(api: Api) -> None:
    answer = await api.client.post("/v1/locations", content=b" " * (1024 * 1024 + 1))
    assert answer.status_code == 413
