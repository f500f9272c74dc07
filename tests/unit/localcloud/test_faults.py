"""Faults: whom they meet, how often, and what they do."""

from __future__ import annotations

import time

import httpx
import pytest

from localcloud.faults import parse_match, path_matches
from localcloud.gate import ConnectionDroppedError
from tests.unit.localcloud.conftest import Api

NETWORKS = "{p}/networking/vpc-networks"
BODY = {"name": "n", "cidr": "10.0.0.0/16"}


@pytest.mark.parametrize(
    ("pattern", "path", "fits"),
    [
        (".../nodepools", "/v1/projects/p/kubernetes/nodepools", True),
        (".../nodepools", "/v1/projects/p/kubernetes/nodepools/x", False),
        (".../nodepools/*", "/v1/projects/p/kubernetes/nodepools/x", True),
        (".../nodepools/*", "/v1/projects/p/kubernetes/nodepools/x/rotate", False),
        (".../nodepools/...", "/v1/projects/p/kubernetes/nodepools/operations/x", True),
        ("...", "/v1/locations", True),
        ("/v1/locations", "/v1/locations", True),
        ("/v1/locations", "/v1/locationsX", False),
        (".../a.b", "/v1/aXb", False),
    ],
)
def test_patterns(pattern: str, path: str, fits: bool) -> None:
    assert path_matches(pattern, path) is fits


def test_match_is_method_and_path() -> None:
    assert parse_match("post .../x") == ("POST", ".../x")
    assert parse_match("* ...") == ("*", "...")
    for wrong in ("POST", ".../x", "POST a b", "4 .../x"):
        with pytest.raises(ValueError, match="is not METHOD PATH"):
            parse_match(wrong)


async def statuses(api: Api, count: int) -> list[int]:
    return [(await api.call("GET", "/locations")).status_code for _ in range(count)]


async def test_after_and_times(api: Api) -> None:
    await api.fault("GET .../locations", "http-503", after=1, times=2)
    assert await statuses(api, 5) == [200, 503, 503, 200, 200]
    [fault] = (await api.admin("GET", "faults"))["items"]
    assert (fault["fired"], fault["remaining"]) == (2, 0)


async def test_several_faults_take_their_turn(api: Api) -> None:
    """Out of capacity, then throttled for every retry."""
    await api.fault("GET .../locations", "capacity-500", times=1)
    await api.fault("GET .../locations", "http-429")
    assert await statuses(api, 4) == [500, 429, 429, 429]
    assert await api.admin("DELETE", "faults") == {"cleared": 2}
    assert await statuses(api, 1) == [200]


@pytest.mark.parametrize(
    ("kind", "status", "code", "words"),
    [
        ("http-400", 400, "bad_request", "not accepted"),
        ("http-401", 401, "bad_credential", "signature"),
        ("http-403", 403, "unauthorized", "may not do this"),
        ("http-404", 404, "not_found", "no such object"),
        ("http-409", 409, "conflict", "something else works"),
        ("quota-400", 400, "bad_request", "quota is exceeded"),
        ("http-429", 429, "rate_limited", "too many requests"),
        ("http-500", 500, "internal_error", "internal error"),
        ("http-503", 503, "unavailable", "unavailable"),
        ("capacity-500", 500, "internal_error", "capacity"),
    ],
)
async def test_instead_of_the_work(api: Api, kind: str, status: int, code: str, words: str) -> None:
    await api.fault("POST .../vpc-networks", kind, times=1)
    answer = await api.call("POST", NETWORKS, BODY)
    assert (answer.status_code, answer.json()["code"]) == (status, code)
    assert words in answer.json()["message"]
    assert ("error_id" in answer.json()) is (code == "internal_error")
    assert "retry-after" not in answer.headers
    assert len((await api.get(NETWORKS))["items"]) == 1


async def test_own_words_and_retry_after(api: Api) -> None:
    await api.fault("GET .../locations", "http-429", retry_after=7, message="slow down")
    answer = await api.call("GET", "/locations")
    assert (answer.headers["retry-after"], answer.json()["message"]) == ("7", "slow down")


async def test_500_after_the_work(api: Api) -> None:
    await api.fault("POST .../vpc-networks", "http-500-after", times=1)
    assert (await api.call("POST", NETWORKS, BODY)).status_code == 500
    assert [item["name"] for item in (await api.get(NETWORKS))["items"]] == ["default-vpc-network", "n"]
    assert (await api.call("POST", NETWORKS, BODY)).status_code == 409


@pytest.mark.parametrize(("kind", "made"), [("drop-before", 0), ("drop-after", 1)])
async def test_dropped_connection(api: Api, kind: str, made: int) -> None:
    """Over ASGI there is no connection to cut; the wire tests cut real ones."""
    await api.fault("POST .../vpc-networks", kind, times=1)
    with pytest.raises(ConnectionDroppedError):
        await api.call("POST", NETWORKS, BODY)
    assert len((await api.get(NETWORKS))["items"]) == 1 + made
    logged = (await api.admin("GET", "requests"))["items"][0]
    assert (logged["status"], logged["fault"]) == (None, kind)


async def test_slow(api: Api) -> None:
    await api.fault("GET .../locations", "slow", seconds=0.2)
    started = time.monotonic()
    assert await statuses(api, 1) == [200]
    assert time.monotonic() - started >= 0.2


async def test_unsigned_requests_meet_no_fault(api: Api) -> None:
    await api.fault("GET .../locations", "http-503", times=1)
    assert (await api.client.get("/v1/locations")).status_code == 401
    assert await statuses(api, 2) == [503, 200]


@pytest.mark.parametrize(
    "body",
    [
        {"match": "POST", "kind": "http-500"},
        {"match": "POST ...", "kind": "http-418"},
        {"match": "POST ...", "kind": "slow", "times": 0},
        {"match": "POST ...", "kind": "slow", "seconds": -1},
        {"match": "POST ...", "kind": "slow", "colour": "red"},
        {"kind": "slow"},
    ],
)
async def test_refusals(api: Api, body: dict[str, object]) -> None:
    headers = {"X-Local-Token": api.cloud.keys.admin_token}
    answer = await api.client.post("/_local/faults", json=body, headers=headers)
    assert answer.status_code == 400
    assert (await api.admin("GET", "faults"))["items"] == []


async def test_admin_surface_needs_the_token(api: Api) -> None:
    async def status(path: str, **headers: str) -> httpx.Response:
        return await api.client.get(f"/_local/{path}", headers=headers)

    for path in ("faults", "requests", "status", "settings", "events", "vms/x"):
        assert (await status(path)).status_code == 403
        assert (await status(path, **{"X-Local-Token": "guess"})).status_code == 403
    assert (await status("health")).json()["service"] == "localcloud"
    description = (await status("openapi.json")).json()
    assert "/v1/projects/{project_id}/kubernetes/nodepools" in description["paths"]


async def test_the_receiver_takes_what_a_webhook_sends_and_shows_it_to_the_owner_alone(api: Api) -> None:
    body: dict[str, object] = {"status": "firing", "alerts": []}
    answer = await api.client.post("/_local/receiver/team", json=body)
    assert answer.status_code == 200
    assert (await api.client.get("/_local/receiver")).status_code == 403
    assert await api.admin("GET", "receiver") == {"items": [{"name": "team", "body": body}]}
