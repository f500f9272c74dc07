"""The signature, against values computed with openssl and against what really leaves the client."""

from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta, timezone
from urllib.parse import parse_qsl

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crusoe.client import Client, ConfigurationError, Credentials, Secret, ServerError, signing
from tests.unit.crusoe.client.support import (
    ENDPOINT,
    KEY_TEXT,
    PROJECT,
    START,
    Api,
    FakeClock,
    MakeClient,
    answer,
    refusal,
)

# echo -en '<path>\n<query>\n<METHOD>\n<timestamp>\n' | openssl dgst -sha256 -mac HMAC -macopt hexkey:… -binary | base64
POST_SIGNATURE = "TIEvLvCLaym426GlWup__iRKCb3bFTcaLVetCjWOj8w"
QUERY_SIGNATURE = "QtSNuJTULgTSr5a7EjwdK197E5cLkmGPH1ra2kPBpgI"
IB_PARTITIONS = "/v1/projects/11111111-1111-4111-8111-111111111111/networking/ib-partitions"


def credentials() -> Credentials:
    return Credentials("KEY-ID", Secret(KEY_TEXT))


def test_signature_of_a_post() -> None:
    headers = signing.headers(credentials(), "POST", IB_PARTITIONS, "", START)
    assert headers == {
        "X-Crusoe-Timestamp": "2026-11-29T17:38:45Z",
        "Authorization": f"Bearer 1.0:KEY-ID:{POST_SIGNATURE}",
    }


def test_signature_with_a_query_and_another_base_path() -> None:
    query = signing.canonical_query([("project_name", "no such; one/ü+")])
    headers = signing.headers(credentials(), "get", "/x/v9/organizations/projects", query, START)
    assert headers["Authorization"].endswith(f":{QUERY_SIGNATURE}")


def test_canonical_query() -> None:
    pairs = [("z", "1"), ("project_name", "no such; one/ü+"), ("a", "2"), ("a", "1"), ("Z", "~-_.*")]
    assert signing.canonical_query(pairs) == "Z=~-_.%2A&a=2&a=1&project_name=no+such%3B+one%2F%C3%BC%2B&z=1"
    assert signing.canonical_query([]) == ""


def test_timestamp_is_utc_with_whole_seconds() -> None:
    moment = datetime(2026, 1, 1, 1, 30, 0, 999999, tzinfo=timezone(timedelta(hours=2)))
    assert signing.timestamp(moment) == "2025-12-31T23:30:00Z"
    assert signing.timestamp(datetime(2026, 1, 1, tzinfo=UTC)) == "2026-01-01T00:00:00Z"


@pytest.mark.parametrize("written", [KEY_TEXT, f"{KEY_TEXT}=", f" {KEY_TEXT}\n"])
def test_padding_and_blanks_around_a_secret_do_no_harm(written: str) -> None:
    assert (
        signing.signature(written, signing.message("POST", IB_PARTITIONS, "", "2026-11-29T17:38:45Z")) == POST_SIGNATURE
    )


@pytest.mark.parametrize("written", ["", "====", "with blank inside", "plus+slash/", "ünïcode", "abcde", "a"])
def test_a_secret_that_is_no_base64url_is_refused_without_showing_it(written: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        signing.decode_secret(written)
    if len(written.strip("=")) > 3:
        assert written not in str(caught.value)
    assert "copy it again" in str(caught.value)


def test_the_path_is_signed_unescaped_and_sent_escaped(make_client: MakeClient) -> None:
    api = Api(answer())
    make_client(api).get("networking/vpc-networks/a b ü%2F")
    sent = api.requests[-1]
    path = f"/v1/projects/{PROJECT}/networking/vpc-networks/a b ü%2F"
    assert sent.url.raw_path == f"/v1/projects/{PROJECT}/networking/vpc-networks/a%20b%20%C3%BC%252F".encode()
    expected = signing.headers(credentials(), "GET", path, "", START)
    assert sent.headers["authorization"] == expected["Authorization"]
    assert sent.headers["x-crusoe-timestamp"] == expected["X-Crusoe-Timestamp"]


@settings(max_examples=50)
@given(
    query=st.dictionaries(
        st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]), min_size=1, max_size=12),
        st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]), max_size=20),
        max_size=4,
    )
)
def test_the_query_is_sent_exactly_as_signed_and_means_what_was_asked(query: dict[str, str]) -> None:
    canonical = signing.canonical_query(query.items())
    assert dict(parse_qsl(canonical, keep_blank_values=True, strict_parsing=bool(canonical))) == query
    assert ";" not in canonical
    assert " " not in canonical
    api = Api(answer())
    client = Client(ENDPOINT, credentials(), http_transport=httpx.MockTransport(api), clock=FakeClock())
    filters = {name: value for name, value in query.items() if name not in {"self", "path", "key"}}
    canonical = signing.canonical_query(filters.items())
    client.list("/organizations/projects", **filters)
    sent = api.requests[-1]
    assert sent.url.query == canonical.encode()
    expected = signing.headers(credentials(), "GET", "/v1/organizations/projects", canonical, START)
    assert sent.headers["authorization"] == expected["Authorization"]


def test_each_try_is_signed_anew(make_client: MakeClient, clock: FakeClock) -> None:
    moments: list[datetime] = []

    def busy(_request: httpx.Request) -> httpx.Response:
        moments.append(clock.now())
        return refusal(500, "boom")

    api = Api(busy)
    with pytest.raises(ServerError):
        make_client(api).get("storage/disks/d")
    assert [request.headers["x-crusoe-timestamp"] for request in api.requests] == [*map(signing.timestamp, moments)]
    for request, moment in zip(api.requests, moments, strict=True):
        expected = signing.headers(credentials(), "GET", request.url.path, "", moment)
        assert request.headers["authorization"] == expected["Authorization"]
    assert len(set(moments)) == len(moments) > 2


def test_what_is_sent_looks_as_crusoes_own_client_sends_it(make_client: MakeClient) -> None:
    api = Api(answer())
    client = make_client(api)
    client.post("kubernetes/nodepools", {"name": "ü", "count": 2.0, "taints": [{"value": 1.5}], "a": None})
    client.post("kubernetes/clusters/c/get-credentials", harmless=True)
    with_body, without = api.requests
    assert with_body.content.decode() == '{"a":null,"count":2,"name":"ü","taints":[{"value":1.5}]}\n'
    assert with_body.headers["content-type"] == with_body.headers["accept"] == "application/json"
    assert without.content == b""
    assert without.headers["content-length"] == "0"
    assert "content-type" not in without.headers


def test_parallel_calls_keep_their_own_signatures(make_client: MakeClient) -> None:
    api = Api(answer())
    client = make_client(api)
    threads = [threading.Thread(target=client.get, args=(f"storage/disks/d{n}",)) for n in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for request in api.requests:
        expected = signing.headers(credentials(), "GET", request.url.path, "", START)
        assert request.headers["authorization"] == expected["Authorization"]
    assert len(api.requests) == 16
