"""From answers to objects and errors."""

from __future__ import annotations

import json
from datetime import timedelta
from email.utils import format_datetime

import httpx
import pytest

from crusoe.client import (
    ApiError,
    BadRequest,
    CapacityError,
    Conflict,
    CrusoeError,
    Forbidden,
    MalformedAnswer,
    NotFound,
    QuotaError,
    RateLimited,
    ServerError,
    Unauthorized,
)
from crusoe.client.answers import clean, quota_numbers, reason_of
from tests.unit.crusoe.client.support import START, Api, MakeClient, answer, refusal


def fail(make_client: MakeClient, response: httpx.Response, method: str = "post") -> CrusoeError:
    client = make_client(Api(response))
    with pytest.raises(CrusoeError) as caught:
        client.post("kubernetes/nodepools", {}) if method == "post" else client.get("kubernetes/nodepools/p1")
    return caught.value


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, BadRequest),
        (401, Unauthorized),
        (403, Forbidden),
        (404, NotFound),
        (409, Conflict),
        (418, ApiError),
        (422, BadRequest),
        (429, RateLimited),
        (500, ServerError),
        (501, ServerError),
        (504, ServerError),
    ],
)
def test_each_status_has_its_error(make_client: MakeClient, status: int, kind: type[ApiError]) -> None:
    error = fail(make_client, answer(status, {"code": "some_code", "message": "It said so.", "error_id": "e-1"}))
    assert type(error) is kind
    assert isinstance(error, ApiError)
    assert (error.status, error.code, error.message, error.error_id) == (status, "some_code", "It said so.", "e-1")
    assert str(error).startswith(f"POST kubernetes/nodepools: It said so (HTTP {status} some_code, error id e-1).")


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("rpc error: code = Internal desc = disk is attached", "disk is attached"),
        ("a desc = b desc = c", "a desc = b desc = c"),
        ("two\nlines\tand \x1b[31mcolour\ud800", "two lines and [31mcolour"),
        ("x" * 5000, "x" * 599 + "…"),
        (None, ""),
        (5, ""),
        ({"a": 1}, ""),
    ],
)
def test_messages_become_one_plain_line(said: object, shown: str) -> None:
    assert clean(said) == shown


@pytest.mark.parametrize("status", [400, 409, 422, 429, 500, 503])
@pytest.mark.parametrize(
    "message",
    [
        "Out of host capacity.",
        "rpc error: code = ResourceExhausted desc = insufficient capacity for h100-80gb-sxm-ib.8x",
        "h100-80gb-sxm-ib is out of stock in us-east1-a",
        "There is not enough capacity to start 2 VMs",
        "no capacity left",
        "the capacity is exhausted",
    ],
)
def test_capacity_is_told_by_the_message_whatever_the_status(
    make_client: MakeClient, status: int, message: str
) -> None:
    api = Api(refusal(status, message, retry_after="1"))
    with pytest.raises(CapacityError, match="HTTP"):
        make_client(api).post("kubernetes/nodepools", {})
    assert len(api.requests) == 1, "asking again does not make hosts"


@pytest.mark.parametrize(
    ("message", "numbers"),
    [
        ("quota h100-80gb-sxm-ib exceeded: used 8, limit 16", ("h100-80gb-sxm-ib", 8, 16)),
        ("Quota 'h100-80gb-sxm-ib' exceeded (used 8 of 16)", ("h100-80gb-sxm-ib", 8, 16)),
        ("insufficient quota for a40: 24/32 in use", ("a40", 24, 32)),
        ("h100-80gb-sxm-ib quota exceeded, limit: 128", ("h100-80gb-sxm-ib", None, 128)),
        ("the project's quota does not allow this", (None, None, None)),
        ("exceeds the quota of the project: 12 in use, maximum is 12", (None, 12, 12)),
    ],
)
def test_quota_is_not_called_capacity_and_its_numbers_are_kept(
    make_client: MakeClient, message: str, numbers: tuple[object, ...]
) -> None:
    error = fail(make_client, refusal(403, message))
    assert isinstance(error, QuotaError)
    assert (error.quota, error.used, error.limit) == quota_numbers(message) == numbers
    assert reason_of(message) == "quota"
    assert message.rstrip(".") in str(error)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("quota exceeded although there is no capacity problem, out of capacity elsewhere", "quota"),
        ("name 'quota-test' is already taken", "other"),
        ("capacity planning pool not found", "other"),
        ("", "other"),
    ],
)
def test_reasons_are_not_guessed_from_a_bare_word(text: str, reason: str) -> None:
    assert reason_of(text) == reason


def test_health_codes_are_understood() -> None:
    assert reason_of("", "INSUFFICIENT_CAPACITY") == "capacity"
    assert reason_of("", "INSUFFICIENT_QUOTA") == "quota"


@pytest.mark.parametrize(
    ("shift", "said"),
    [
        (timedelta(minutes=20), "This machine's clock is 20 minutes behind"),
        (-timedelta(hours=2), "This machine's clock is 2 hours ahead"),
        (timedelta(days=400), "This machine's clock is 400 days behind"),
        (timedelta(seconds=61), "This machine's clock is 1 minute behind"),
        (timedelta(seconds=30), "Check the access key (profile 'test')"),
        (None, "Check the access key (profile 'test')"),
    ],
)
def test_a_refused_signature_is_blamed_on_the_clock_only_when_it_is_off(
    make_client: MakeClient, shift: timedelta | None, said: str
) -> None:
    date = {"Date": format_datetime(START + shift, usegmt=True)} if shift is not None else {"Date": "yesterday"}
    error = fail(make_client, refusal(401, "signature mismatch", "bad_credential", **date), "get")
    assert isinstance(error, Unauthorized)
    assert said in str(error)


def test_a_refused_project_says_whose_key_it_was(make_client: MakeClient) -> None:
    error = fail(make_client, refusal(403, "no access", "unauthorized"), "get")
    assert isinstance(error, Forbidden)
    assert "the access key (profile 'test') belongs to the stack's project" in str(error)


def test_a_404_of_something_else_never_reads_as_gone(make_client: MakeClient) -> None:
    for other in (
        httpx.Response(404, html="<h1>Not Found</h1>"),
        answer(404, {"detail": "Not Found"}),
        answer(404, []),
        httpx.Response(404),
    ):
        error = fail(make_client, other, "get")
        assert isinstance(error, MalformedAnswer)
        assert error.answer_lost is False
        assert not isinstance(error, NotFound)
        assert "check the endpoint" in str(error)


@pytest.mark.parametrize(
    "response",
    [
        httpx.Response(200),
        httpx.Response(204),
        httpx.Response(200, html="<html>sign in</html>"),
        httpx.Response(200, content=b'{"id": "cut', headers={"content-type": "application/json"}),
        httpx.Response(200, content=b"[]"),
        httpx.Response(200, content=b"null"),
        httpx.Response(200, content=b"[" * 200_000),
        httpx.Response(200, content=b'{"a": ' + b"9" * 5000 + b"}"),
        httpx.Response(200, content=b"\xff\xfe"),
    ],
)
def test_a_success_without_an_object_is_an_error(make_client: MakeClient, response: httpx.Response) -> None:
    for method, lost in (("post", True), ("get", False)):
        error = fail(make_client, response, method)
        assert isinstance(error, MalformedAnswer)
        assert error.answer_lost is lost
        assert "sign in" not in str(error)


def test_a_delete_needs_no_body(make_client: MakeClient) -> None:
    for response in (httpx.Response(204), httpx.Response(200), httpx.Response(200, text="deleted")):
        assert make_client(Api(response)).delete("networking/ib-partitions/p") == {}


def test_the_content_type_does_not_matter(make_client: MakeClient) -> None:
    for kind in ("application/json; charset=utf-8", "text/plain", ""):
        response = httpx.Response(201, content=b'{"id": "x", "new_field": [1]}', headers={"content-type": kind})
        assert make_client(Api(response)).get("storage/disks/x") == {"id": "x", "new_field": [1]}


def test_a_redirect_is_not_followed_with_the_signature(make_client: MakeClient) -> None:
    api = Api(httpx.Response(302, headers={"location": "https://elsewhere.example.test/"}))
    with pytest.raises(MalformedAnswer, match="redirect") as caught:
        make_client(api).post("storage/disks", {})
    assert caught.value.answer_lost is False
    assert len(api.requests) == 1


def test_errors_never_show_the_body_they_could_not_read(make_client: MakeClient) -> None:
    error = fail(make_client, httpx.Response(400, text="canary " * 10))
    assert isinstance(error, BadRequest)
    assert "canary" not in str(error)
    assert "no reason given" in str(error)


def test_wrong_types_in_an_error_body_do_no_harm(make_client: MakeClient) -> None:
    bodies: list[object] = [{"code": 5, "message": ["x"], "error_id": {}}, [1], "text", 5, None, {"message": None}]
    for body in bodies:
        error = fail(make_client, httpx.Response(400, content=json.dumps(body).encode()))
        assert isinstance(error, BadRequest)
        assert str(error).startswith("POST kubernetes/nodepools: no reason given (HTTP 400). Correct")
