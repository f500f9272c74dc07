"""When a request is sent again, how long that may take, and that a 429 pauses everybody."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import timedelta
from email.utils import format_datetime

import httpx
import pytest

from crusoe.client import (
    CapacityError,
    Client,
    CrusoeError,
    NeverSent,
    RateLimited,
    ServerError,
    TransportError,
)
from crusoe.client.gate import LONGEST_ASKED, SPACING, Gate
from tests.unit.crusoe.client.support import START, Api, FakeClock, MakeClient, answer, refusal

Call = Callable[[Client], object]
CALLS: dict[str, Call] = {
    "GET": lambda client: client.get("storage/disks/x"),
    "PATCH": lambda client: client.patch("storage/disks/x", {"size": "2TiB"}),
    "DELETE": lambda client: client.delete("storage/disks/x"),
    "POST": lambda client: client.post("storage/disks", {"name": "x"}),
    "harmless POST": lambda client: client.post("kubernetes/clusters/c/get-credentials", harmless=True),
}
REPEATABLE = [name for name in CALLS if name != "POST"]

DROPPED = httpx.RemoteProtocolError("Server disconnected without sending a response.")
REFUSED = httpx.ConnectError("[Errno 111] Connection refused")
LATE = httpx.ReadTimeout("timed out")


@pytest.mark.parametrize("name", REPEATABLE)
@pytest.mark.parametrize(
    "fault", [DROPPED, REFUSED, LATE, httpx.ConnectTimeout("t"), httpx.ReadError("reset"), 429, 500, 502, 503, 504]
)
def test_what_can_be_done_twice_is_tried_again(make_client: MakeClient, name: str, fault: Exception | int) -> None:
    api = Api(refusal(fault, "busy") if isinstance(fault, int) else fault, answer(200, {"id": "x"}))
    assert CALLS[name](make_client(api)) == {"id": "x"}
    assert len(api.requests) == 2


@pytest.mark.parametrize("fault", [REFUSED, httpx.ConnectTimeout("t"), httpx.PoolTimeout("t"), 429])
def test_a_post_is_tried_again_when_nothing_can_have_been_made(make_client: MakeClient, fault: Exception | int) -> None:
    api = Api(refusal(fault, "busy") if isinstance(fault, int) else fault, answer(200, {"id": "x"}))
    assert CALLS["POST"](make_client(api)) == {"id": "x"}
    assert len(api.requests) == 2


def test_a_post_waits_as_a_503_asks(make_client: MakeClient, clock: FakeClock) -> None:
    api = Api(refusal(503, "in maintenance", retry_after="7"), answer(200, {"id": "x"}))
    CALLS["POST"](make_client(api))
    assert len(api.requests) == 2
    assert sum(clock.waits) >= 7


@pytest.mark.parametrize(
    "fault", [DROPPED, LATE, httpx.ReadError("reset"), httpx.WriteError("pipe"), 500, 502, 503, 504]
)
def test_a_post_whose_answer_was_lost_is_sent_once_and_says_so(make_client: MakeClient, fault: Exception | int) -> None:
    api = Api(refusal(fault, "boom") if isinstance(fault, int) else fault, answer(200, {"id": "second"}))
    with pytest.raises((TransportError, ServerError)) as caught:
        CALLS["POST"](make_client(api))
    assert caught.value.answer_lost is True
    assert len(api.requests) == 1


@pytest.mark.parametrize("name", list(CALLS))
@pytest.mark.parametrize("status", [400, 401, 403, 404, 409, 501])
def test_a_clear_no_is_not_asked_again(make_client: MakeClient, name: str, status: int) -> None:
    api = Api(refusal(status, "no"))
    with pytest.raises(CrusoeError):
        CALLS[name](make_client(api))
    assert len(api.requests) == 1


@pytest.mark.parametrize("name", list(CALLS))
@pytest.mark.parametrize("fault", [DROPPED, REFUSED, 429, 500, 503])
def test_tries_and_time_are_bounded(
    make_client: MakeClient, clock: FakeClock, name: str, fault: Exception | int
) -> None:
    api = Api(refusal(fault, "busy") if isinstance(fault, int) else fault)
    with pytest.raises(CrusoeError):
        CALLS[name](make_client(api))
    assert len(api.requests) <= 5
    assert sum(clock.waits) <= 60


@pytest.mark.parametrize(
    ("name", "tries"), [("GET", 5), ("PATCH", 4), ("DELETE", 4), ("harmless POST", 5), ("POST", 3)]
)
def test_the_number_of_tries(make_client: MakeClient, name: str, tries: int) -> None:
    api = Api(refusal(429, "busy", retry_after="0"))
    with pytest.raises(RateLimited):
        CALLS[name](make_client(api))
    assert len(api.requests) == tries


def test_waits_grow(make_client: MakeClient, clock: FakeClock) -> None:
    with pytest.raises(ServerError):
        CALLS["GET"](make_client(Api(refusal(500, "boom"))))
    assert clock.waits == sorted(clock.waits)
    assert clock.waits[-1] > 3 * clock.waits[0]


def test_an_unreachable_endpoint_is_told_within_fifteen_seconds(make_client: MakeClient, clock: FakeClock) -> None:
    api = Api(httpx.ConnectTimeout("timed out"), clock=clock, seconds=3)
    before = clock.monotonic()
    with pytest.raises(NeverSent, match="can't be reached"):
        CALLS["GET"](make_client(api))
    assert clock.monotonic() - before < 15
    assert len(api.requests) == 3


def test_a_certificate_that_cannot_be_verified_is_told_at_once(make_client: MakeClient) -> None:
    api = Api(httpx.ConnectError("[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed"))
    with pytest.raises(NeverSent, match="SSL_CERT_FILE"):
        CALLS["GET"](make_client(api))
    assert len(api.requests) == 1


@pytest.mark.parametrize("value", ["20", format_datetime(START + timedelta(seconds=20), usegmt=True)])
def test_retry_after_is_honoured(make_client: MakeClient, clock: FakeClock, value: str) -> None:
    CALLS["GET"](make_client(Api(refusal(429, "slow down", retry_after=value), answer())))
    assert 20 <= sum(clock.waits) < 25


@pytest.mark.parametrize("value", ["-5", "soon", "", "1e9", "Thu, 01 Jan 1970 00:00:00 GMT"])
def test_a_useless_retry_after_is_passed_over(make_client: MakeClient, clock: FakeClock, value: str) -> None:
    CALLS["GET"](make_client(Api(refusal(429, "slow down", retry_after=value), answer())))
    assert 0 < sum(clock.waits) < 10


def test_a_wait_that_is_too_long_is_told_instead_of_waited(make_client: MakeClient, clock: FakeClock) -> None:
    api = Api(refusal(429, "slow down", retry_after="3600"))
    client = make_client(api)
    told = ""
    for _ in range(2):
        with pytest.raises(RateLimited) as caught:
            CALLS["POST"](client)
        assert caught.value.status == 429
        told = str(caught.value)
    assert len(api.requests) == 1, "the second call must not even be sent"
    assert "asks to wait" in told
    assert clock.waits == []
    clock.seconds += LONGEST_ASKED + 1
    api.steps[:] = [answer(200, {"id": "x"})]
    assert CALLS["POST"](client) == {"id": "x"}


def test_one_429_pauses_all_calls(make_client: MakeClient, clock: FakeClock) -> None:
    api = Api(refusal(429, "slow down", retry_after="10"), answer(200, {"id": "x"}))
    client = make_client(api)
    sent_at: list[float] = []
    api.steps[-1] = lambda _request: (sent_at.append(clock.monotonic()), answer(200, {"id": "x"}))[1]
    first = threading.Event()

    def other_call() -> None:
        # Runs in the middle of the first call's wait: the gate is closed.
        if not first.is_set():
            first.set()
            clock.seconds -= clock.waits[-1]
            CALLS["POST"](client)

    clock.on_sleep = other_call
    start = clock.monotonic()
    CALLS["GET"](client)
    assert len(sent_at) == 2
    assert min(sent_at) >= start + 10


def test_capacity_then_429_costs_few_requests(make_client: MakeClient, clock: FakeClock) -> None:
    api = Api(refusal(500, "Out of host capacity."), refusal(429, "Too many requests"))
    client = make_client(api)
    with pytest.raises(CapacityError):
        CALLS["POST"](client)
    assert len(api.requests) == 1
    with pytest.raises(RateLimited):
        CALLS["POST"](client)
    assert len(api.requests) <= 4
    assert sum(clock.waits) < 15


class TestGate:
    def test_pauses_double_and_start_again_after_a_success(self, clock: FakeClock) -> None:
        gate = Gate(clock)
        pauses: list[float] = []
        for _ in range(6):
            gate.close(None)
            pauses.append(gate.remaining())
            clock.seconds += gate.remaining()
        assert pauses == [1, 2, 4, 8, 8, 8]
        gate.passed()
        gate.close(None)
        assert gate.remaining() == 1

    def test_refusals_of_requests_under_way_count_as_one(self, clock: FakeClock) -> None:
        gate = Gate(clock)
        for _ in range(50):
            gate.close(None)
        assert gate.remaining() == 1

    def test_a_longer_pause_is_never_shortened(self, clock: FakeClock) -> None:
        gate = Gate(clock)
        gate.close(30)
        gate.close(0)
        assert gate.remaining() == 30

    def test_those_who_waited_go_one_after_the_other(self, clock: FakeClock) -> None:
        gate = Gate(clock)
        assert [gate.turn() for _ in range(3)] == [0, 0, 0]
        gate.close(5)
        assert [gate.turn() for _ in range(3)] == pytest.approx([5, 5 + SPACING, 5 + 2 * SPACING])
        clock.seconds += 6
        assert gate.turn() == 0
