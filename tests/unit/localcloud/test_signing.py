"""Who gets in, and how a refusal reads."""

from __future__ import annotations

import pytest

from localcloud.errors import ApiError
from localcloud.signing import canonical_query, message, sign
from tests.unit.localcloud.conftest import OTHER, PROJECT, Api, now_stamp, signature


@pytest.mark.parametrize(
    ("raw", "signed"),
    [
        (b"", ""),
        (b"project_name=no+such%3B+one%2F%C3%BC%2B", "project_name=no+such%3B+one%2F%C3%BC%2B"),
        (b"a=b%20c", "a=b+c"),
        (b"b=2&a=1&b=1", "a=1&b=2&b=1"),
        (b"flag", "flag="),
        (b"&&a=1&", "a=1"),
        (b"a=%7E~*", "a=~~%2A"),
        (b"a=%ff", "a=%FF"),
        (b"a=1=2", "a=1%3D2"),
    ],
)
def test_canonical_query(raw: bytes, signed: str) -> None:
    assert canonical_query(raw) == signed


@pytest.mark.parametrize("raw", [b"a=1;b=2", b"a=%zz", b"a=%1"])
def test_query_that_no_client_may_send(raw: bytes) -> None:
    with pytest.raises(ApiError) as caught:
        canonical_query(raw)
    assert caught.value.status == 400


def test_known_answer() -> None:
    """A signature worked out by hand with `openssl dgst -sha256 -hmac`."""
    text = message("/v1/projects/p/networking/ib-partitions", b"", "POST", "2026-11-29T17:38:45Z")
    assert text == b"/v1/projects/p/networking/ib-partitions\n\nPOST\n2026-11-29T17:38:45Z\n"
    assert sign(b"secret", text) == "JZgfV6rhxMNoKiobVkHnaBjW8au9p7khBisc34BO5zw"


async def send(
    api: Api, *, path: str = "/v1/locations", signed_path: str | None = None, **replace: str
) -> tuple[int, str]:
    stamp = replace.get("stamp", now_stamp())
    method = replace.get("method", "GET")
    sent = signature(api.key, signed_path or path, "", method, stamp)
    headers = {
        "Authorization": replace.get("authorization", f"Bearer 1.0:{api.key.id}:{sent}"),
        "X-Crusoe-Timestamp": stamp,
    }
    answer = await api.client.get(path, headers=headers)
    return answer.status_code, answer.json()["code"] if answer.status_code != 200 else ""


async def test_signed_request_passes_and_may_be_repeated(api: Api) -> None:
    stamp = now_stamp()
    assert await send(api, stamp=stamp) == (200, "")
    assert await send(api, stamp=stamp) == (200, "")


@pytest.mark.parametrize(
    "replace",
    [
        {"authorization": "Bearer 1.0:NOBODY:abc"},
        {"authorization": "Basic abc"},
        {"authorization": "Bearer 2.0:a:b"},
        {"method": "POST"},
        {"signed_path": "/locations"},
        {"stamp": "2026-11-29 17:38:45"},
        {"stamp": "yesterday"},
    ],
)
async def test_wrong_signature_is_refused(api: Api, replace: dict[str, str]) -> None:
    assert await send(api, **replace) == (401, "bad_credential")


async def test_unsigned_request_is_refused_in_the_api_s_words(api: Api) -> None:
    answer = await api.client.get("/v1/locations")
    assert answer.status_code == 401
    assert answer.headers["content-type"] == "application/json"
    assert answer.json() == {
        "code": "bad_credential",
        "message": "the request is not signed: Authorization and X-Crusoe-Timestamp are required",
    }


@pytest.mark.parametrize(("offset", "status"), [(-290, 200), (290, 200), (-310, 401), (310, 401)])
async def test_clock_window(api: Api, offset: float, status: int) -> None:
    assert (await send(api, stamp=now_stamp(offset)))[0] == status


async def test_moved_clock_refuses_the_present(api: Api) -> None:
    await api.admin("PATCH", "settings", {"clock_offset": 3600.0})
    answer = await api.call("GET", "/locations")
    assert answer.status_code == 401
    assert "clock" in answer.json()["message"]
    assert await send(api, stamp=now_stamp(3600)) == (200, "")


async def test_query_is_covered(api: Api) -> None:
    """A request whose query was changed on its way has another message."""
    stamp = now_stamp()
    sent = signature(api.key, "/v1/capacities", "location=us-east1-a", "GET", stamp)
    headers = {"Authorization": f"Bearer 1.0:{api.key.id}:{sent}", "X-Crusoe-Timestamp": stamp}
    assert (await api.client.get("/v1/capacities?location=us-east1-a", headers=headers)).status_code == 200
    assert (await api.client.get("/v1/capacities?location=eu-iceland1-a", headers=headers)).status_code == 401


async def test_semicolon_in_the_query(api: Api) -> None:
    answer = await api.client.get("/v1/capacities?a=1;b=2", headers={"Authorization": "x", "X-Crusoe-Timestamp": "x"})
    assert answer.status_code == 401  # its form is checked before its query is read
    sent = f"Bearer 1.0:{api.key.id}:abc"
    headers = {"Authorization": sent, "X-Crusoe-Timestamp": now_stamp()}
    answer = await api.client.get("/v1/capacities?a=1;b=2", headers=headers)
    assert answer.status_code == 400
    assert "%3B" in answer.json()["message"]


async def test_double_slash_is_signed_as_sent_and_not_found(api: Api) -> None:
    assert await send(api, path="/v1//organizations/projects") == (404, "not_found")


async def test_trailing_slash_is_not_found(api: Api) -> None:
    assert await send(api, path=f"/v1/projects/{PROJECT}/kubernetes/nodepools/") == (404, "not_found")


async def test_other_project_is_refused(api: Api) -> None:
    answer = await api.call("GET", f"/projects/{OTHER}/networking/vpc-networks")
    assert (answer.status_code, answer.json()["code"]) == (403, "unauthorized")
    answer = await api.call("GET", f"/organizations/projects/{OTHER}")
    assert answer.status_code == 403
    other = api.cloud.keys.of_project("other")
    assert (await api.call_as(other, "GET", f"/projects/{OTHER}/networking/vpc-networks")).status_code == 200
    assert (await api.call_as(other, "GET", "{p}/networking/vpc-networks")).status_code == 403


async def test_unknown_project(api: Api) -> None:
    await api.refused(404, "GET", "/projects/00000000-0000-4000-8000-00000000dead/networking/vpc-networks")


async def test_objects_of_another_project_are_not_found(api: Api) -> None:
    other = api.cloud.keys.of_project("other")
    mine = await api.network()
    path = f"/projects/{OTHER}/networking/vpc-networks/{mine}"
    assert (await api.call_as(other, "GET", path)).status_code == 404
