"""Whatever a server answers, a call ends: with an object, or with one of this client's errors in plain words."""

from __future__ import annotations

import json
import threading
from contextlib import suppress

import httpx
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from crusoe.client import Client, Credentials, CrusoeError, Operation, OperationFailed, OperationTimeout, Secret
from tests.unit.crusoe.client.support import ENDPOINT, KEY_TEXT, PROJECT, FakeClock

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=10), inner, max_size=3),
    max_leaves=8,
)
FIELDS = st.sampled_from(
    ["operation", "operation_id", "state", "result", "items", "next_token", "id", "name", "code", "message", "error_id"]
)
STATES = st.sampled_from(["IN_PROGRESS", "SUCCEEDED", "FAILED", "", "QUEUED"])
OBJECT = st.dictionaries(FIELDS, JSON | STATES | st.dictionaries(FIELDS, JSON | STATES, max_size=4), max_size=5)
BODY = (
    OBJECT.map(lambda value: json.dumps(value).encode())
    | JSON.map(lambda value: json.dumps(value).encode())
    | st.binary(max_size=60)
)
HEADERS = st.dictionaries(
    st.sampled_from(["Content-Type", "Retry-After", "Date", "Location"]),
    st.sampled_from(["application/json", "5", "-1", "x", "Thu, 01 Jan 2026 00:00:00 GMT", "99999999999"]),
    max_size=3,
)
STATUS = st.sampled_from([200, 201, 204, 301, 400, 401, 403, 404, 409, 429, 500, 501, 503, 599])


def response(status: int, headers: dict[str, str], body: bytes) -> httpx.Response:
    return httpx.Response(status, headers=headers, content=body)


ANSWER = st.builds(response, STATUS, HEADERS, BODY)


@settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow])
@given(answers=st.lists(ANSWER, min_size=1, max_size=6), call=st.integers(0, 6))
@example(
    answers=[httpx.Response(200, content=b'{"operation": {"state": "IN_PROGRESS", "operation_id": "../x"}}')], call=6
)
@example(answers=[httpx.Response(429, headers={"Retry-After": "99999999999"})], call=0)
def test_every_call_ends_in_an_object_or_a_typed_error(answers: list[httpx.Response], call: int) -> None:
    clock, sent = FakeClock(), 0

    def handler(request: httpx.Request) -> httpx.Response:
        nonlocal sent
        sent += 1
        if request.url.path == f"/v1/organizations/projects/{PROJECT}" and call != 4:
            return httpx.Response(200, json={"id": PROJECT})
        given_answer = answers[min(sent, len(answers)) - 1]
        return httpx.Response(given_answer.status_code, headers=given_answer.headers, content=given_answer.content)

    credentials = Credentials("KEY-ID", Secret(KEY_TEXT))
    wanted = "local" if call == 4 else PROJECT
    client = Client(ENDPOINT, credentials, wanted, http_transport=httpx.MockTransport(handler), clock=clock)
    try:
        match call:
            case 0:
                found: object = client.get("storage/disks/d")
            case 1:
                found = client.list("storage/disks")
            case 2:
                found = client.post("storage/disks", {"name": "d"})
            case 3:
                found = client.delete("storage/disks/d")
            case 4:
                found = client.project_id
            case 5:
                found = client.patch("storage/disks/d", {"size": "1TiB"})
            case _:
                found = client.wait(client.post("storage/disks", {"name": "d"}), "storage/disks", 60)
        assert isinstance(found, dict | list | str | Operation)
    except CrusoeError as error:
        told = str(error)
        assert told
        assert told.isprintable()
        assert KEY_TEXT not in told
        assert "Traceback" not in told
    assert sent < 200
    assert sum(clock.waits) < 400


@settings(max_examples=20)
@given(states=st.lists(STATES | st.text(max_size=5), min_size=1, max_size=20), timeout=st.floats(0, 50))
def test_every_wait_is_bounded(states: list[str], timeout: float) -> None:
    clock, asked = FakeClock(), 0

    def handler(request: httpx.Request) -> httpx.Response:
        nonlocal asked
        if "operations" not in request.url.path:
            return httpx.Response(200, json={"id": PROJECT})
        asked += 1
        return httpx.Response(200, json={"operation_id": "o", "state": states[min(asked, len(states)) - 1]})

    client = Client(
        ENDPOINT, Credentials("K", Secret(KEY_TEXT)), PROJECT, http_transport=httpx.MockTransport(handler), clock=clock
    )
    start = clock.monotonic()
    with suppress(OperationFailed, OperationTimeout):
        done = client.wait(
            {"operation": {"operation_id": "o", "state": "IN_PROGRESS"}}, "storage/disks", timeout, threading.Event()
        )
        assert done.state == "SUCCEEDED"
    assert clock.monotonic() - start <= timeout + 2.0
