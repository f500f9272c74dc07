"""Waiting for operations."""

from __future__ import annotations

import threading

import httpx
import pytest

from crusoe.client import (
    Cancelled,
    MalformedAnswer,
    NotFound,
    Operation,
    OperationExpired,
    OperationFailed,
    OperationTimeout,
    TransportError,
    Unauthorized,
)
from crusoe.client.operations import LONGEST_PAUSE, LONGEST_SILENCE
from tests.unit.crusoe.client.support import PROJECT, Api, FakeClock, MakeClient, answer, polls, refusal, running

FAMILY = "kubernetes/nodepools"


def test_an_operation_that_came_back_finished_is_not_polled(make_client: MakeClient) -> None:
    api = Api(answer())
    done = make_client(api).wait(
        {"operation": {"operation_id": "o", "state": "SUCCEEDED", "result": {"id": "x"}}}, FAMILY, 10
    )
    assert done == Operation("o", "SUCCEEDED", {"id": "x"})
    assert done.object == {"id": "x"}
    assert api.requests == []


def test_the_first_poll_is_made_at_once_and_later_ones_at_most_two_seconds_apart(
    make_client: MakeClient, clock: FakeClock
) -> None:
    api = Api(*polls(*["IN_PROGRESS"] * 9, "SUCCEEDED", result={"id": "x"}))
    seen: list[tuple[str, float]] = []
    done = make_client(api).wait(running(), FAMILY, 600, progress=lambda op, seconds: seen.append((op.state, seconds)))
    assert done.object == {"id": "x"}
    assert api.requests[0].url.path == f"/v1/projects/{PROJECT}/kubernetes/nodepools/operations/op-1"
    assert clock.waits[0] == 0
    assert clock.waits == sorted(clock.waits)
    assert max(clock.waits) == LONGEST_PAUSE == 2.0
    assert [state for state, _ in seen] == ["IN_PROGRESS"] * 10
    assert [seconds for _, seconds in seen] == sorted(seconds for _, seconds in seen)


@pytest.mark.parametrize(
    ("result", "said", "reason"),
    [
        ({"code": "internal", "message": "rpc error: code = X desc = no route"}, "no route", "other"),
        ({"code": "c-7"}, "code c-7", "other"),
        ({"message": "Out of host capacity."}, "Out of host capacity", "capacity"),
        ({"message": "quota h100 exceeded: used 8, limit 8"}, "quota h100 exceeded", "quota"),
        ({"code": "INSUFFICIENT_CAPACITY", "message": "x"}, "x", "capacity"),
        ("plain text", "plain text", "other"),
        (None, "the API gave no reason", "other"),
        ({}, "the API gave no reason", "other"),
        ([1, 2], "the API gave no reason", "other"),
        (7, "the API gave no reason", "other"),
    ],
)
def test_a_failure_is_told_whatever_its_result_is(
    make_client: MakeClient, result: object, said: str, reason: str
) -> None:
    with pytest.raises(OperationFailed, match="op-1") as caught:
        make_client(Api(*polls("FAILED", result=result))).wait(running(), FAMILY, 60)
    assert said in str(caught.value)
    assert caught.value.reason == reason
    assert caught.value.operation_id == "op-1"


def test_an_unknown_state_is_waited_out(make_client: MakeClient) -> None:
    api = Api(*polls("QUEUED", "whatever", "succeeded"))
    assert make_client(api).wait(running(), FAMILY, 60).state == "SUCCEEDED"


def test_the_time_limit_names_the_operation(make_client: MakeClient, clock: FakeClock) -> None:
    with pytest.raises(OperationTimeout, match=r"op-1 is still IN_PROGRESS after 30 s") as caught:
        make_client(Api(*polls("IN_PROGRESS"))).wait(running(), FAMILY, 30)
    assert (caught.value.operation_id, caught.value.state) == ("op-1", "IN_PROGRESS")
    assert sum(clock.waits) <= 30


def test_a_cancel_ends_the_wait_with_id_and_state(
    make_client: MakeClient, clock: FakeClock, cancel: threading.Event
) -> None:
    api = Api(*polls("IN_PROGRESS"))

    def press_ctrl_c() -> None:
        if len(clock.waits) == 3:
            cancel.set()

    clock.on_sleep = press_ctrl_c
    with pytest.raises(Cancelled, match="op-1 was IN_PROGRESS") as caught:
        make_client(api).wait(running(), FAMILY, 600)
    assert (caught.value.operation_id, caught.value.state, caught.value.answer_lost) == ("op-1", "IN_PROGRESS", True)
    assert len(api.requests) == 2


def test_a_wait_can_have_a_cancel_of_its_own(make_client: MakeClient) -> None:
    stop = threading.Event()
    stop.set()
    with pytest.raises(Cancelled):
        make_client(Api(*polls("IN_PROGRESS"))).wait(running(), FAMILY, 600, stop)


def test_a_poll_that_does_not_know_the_operation_yet_is_asked_again(make_client: MakeClient) -> None:
    api = Api(refusal(404, "no"), refusal(403, "no"), *polls("SUCCEEDED"))
    assert make_client(api).wait(running(), FAMILY, 60).state == "SUCCEEDED"


@pytest.mark.parametrize("status", [403, 404])
def test_an_expired_operation_is_read_from_the_object(make_client: MakeClient, status: int, clock: FakeClock) -> None:
    api = Api(*polls("IN_PROGRESS"), refusal(status, "operation not found"))
    client = make_client(api)
    assert client.wait(running(), FAMILY, 60, reread=lambda: {"id": "x"}) == Operation("op-1", "SUCCEEDED", {"id": "x"})
    with pytest.raises(OperationExpired, match="op-1") as caught:
        client.wait(running(), FAMILY, 60)
    assert caught.value.operation_id == "op-1"
    assert len(api.requests) == 7
    assert sum(clock.waits) < 15


def test_what_the_reread_raises_is_raised(make_client: MakeClient) -> None:
    def gone() -> None:
        raise NotFound(404, "not_found", "gone")

    with pytest.raises(NotFound):
        make_client(Api(refusal(404, "operation not found"))).wait(running(), FAMILY, 60, reread=gone)


@pytest.mark.parametrize(
    "mutating", [{}, {"operation": None}, {"operation": 5}, {"operation": {"state": 5}}, {"id": "x"}]
)
def test_an_answer_without_an_operation(make_client: MakeClient, mutating: dict[str, object]) -> None:
    client = make_client(Api(answer()))
    with pytest.raises(MalformedAnswer, match="no operation") as caught:
        client.wait(mutating, FAMILY, 60)
    assert caught.value.answer_lost is True
    assert client.wait(mutating, FAMILY, 60, reread=lambda: None).result is None


def test_an_operation_under_way_without_an_id(make_client: MakeClient) -> None:
    with pytest.raises(MalformedAnswer, match="without an id") as caught:
        make_client(Api(answer())).wait({"operation": {"state": "IN_PROGRESS", "operation_id": 7}}, FAMILY, 60)
    assert caught.value.answer_lost is True


def test_an_outage_of_the_api_does_not_end_the_wait(make_client: MakeClient) -> None:
    api = Api(
        *polls("IN_PROGRESS"),
        *[refusal(503, "down")] * 3,
        *[httpx.ConnectError("Connection refused")] * 3,
        refusal(429, "slow down"),
        httpx.Response(200, text="not JSON"),
        *polls("SUCCEEDED"),
    )
    assert make_client(api).wait(running(), FAMILY, 600).state == "SUCCEEDED"


def test_a_silence_without_end_is_given_up(make_client: MakeClient, clock: FakeClock) -> None:
    with pytest.raises(TransportError, match="Nothing was heard of operation op-1") as caught:
        make_client(Api(httpx.ConnectError("Connection refused"))).wait(running(), FAMILY, 7200)
    assert caught.value.answer_lost is True
    assert sum(clock.waits) < LONGEST_SILENCE + 60


def test_a_key_that_was_taken_away_ends_the_wait(make_client: MakeClient) -> None:
    with pytest.raises(Unauthorized):
        make_client(Api(refusal(401, "revoked"))).wait(running(), FAMILY, 60)
