"""Delivery against a web server and an API server of the test: bounded, repeated, once, and never with the URL told."""

from __future__ import annotations

import logging
import socket
import ssl
import subprocess
import time
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from actor import notices, notify
from actor.kubernetes import Kubernetes, KubernetesError
from actor.notices import STATES, Book, Notice
from actor.notify import DeliveryError, Notifier, post
from actor.state import Job
from tests.unit.actor.receiver import SECRET, Receiver

Json = dict[str, Any]
NOTICE = Notice("7", "bert", "ada", "FAILED", 3, 0, "train-0", 1, 2, "NonZeroExitCode", "research")


@pytest.fixture
def receiver() -> Generator[Receiver]:
    one = Receiver()
    yield one
    one.end()


def test_a_notice_arrives_as_one_object(receiver: Receiver) -> None:
    post(receiver.url, NOTICE)
    keys = {"job", "name", "user", "state", "exit", "restarts", "nodes", "start", "end", "reason", "cluster"}
    assert receiver.got[0].keys() == keys
    assert (receiver.got[0]["job"], receiver.got[0]["state"], receiver.got[0]["exit"]) == ("7", "FAILED", 3)


@pytest.mark.parametrize("status", [302, 404, 500])
def test_any_other_answer_is_a_failure(receiver: Receiver, status: int) -> None:
    receiver.status = status
    with pytest.raises(DeliveryError, match=f"the webhook answered {status}"):
        post(receiver.url, NOTICE)
    assert len(receiver.got) == 1


def test_a_server_that_drips_is_left_in_time(receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notify, "SECONDS", 0.4)
    receiver.drip = True
    start = time.monotonic()
    with pytest.raises(DeliveryError, match="did not answer within"):
        post(receiver.url, NOTICE)
    assert time.monotonic() - start < 3


def test_a_silent_server_is_left_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notify, "SECONDS", 0.3)
    with socket.create_server(("127.0.0.1", 0)) as silent, pytest.raises(DeliveryError, match="did not answer within"):
        post(f"http://127.0.0.1:{silent.getsockname()[1]}/{SECRET}", NOTICE)


def test_a_certificate_that_nobody_signed_is_not_trusted(tmp_path: Path) -> None:
    pair = [str(tmp_path / name) for name in ("key.pem", "cert.pem")]
    made = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=127.0.0.1", "-days", "2"]
    subprocess.run([*made, "-keyout", pair[0], "-out", pair[1]], check=True, capture_output=True, timeout=60)
    trust = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    trust.load_cert_chain(pair[1], pair[0])
    one = Receiver(trust)
    try:
        with pytest.raises(DeliveryError, match="certificate is not trusted"):
            post(one.url, NOTICE)
    finally:
        one.end()
    assert one.got == []


@pytest.mark.parametrize(
    "url",
    [
        f"http://127.0.0.1:1/{SECRET}",
        f"http://{SECRET}.invalid/",
        f"ftp://host/{SECRET}",
        f"http://host:{SECRET}/",
        f"http://127.0.0.1/a b{SECRET}\n",
        SECRET,
        "",
    ],
)
def test_no_error_has_the_url(url: str) -> None:
    with pytest.raises(DeliveryError) as error:
        post(url, NOTICE)
    assert SECRET.lower() not in repr(error.value).lower()
    assert error.value.__cause__ is None
    assert error.value.__suppress_context__


class Api(Kubernetes):
    """One ConfigMap, as the API server keeps it, and events."""

    def __init__(self) -> None:
        self.kept: Json | None = None
        self.version = 0
        self.away = False
        self.events: list[tuple[str, str, str]] = []

    def config_map(self, name: str) -> Json | None:
        assert name == notify.CONFIG_MAP
        return self.kept

    def write_config_map(self, name: str, wanted: Any) -> Json | None:
        if self.away:
            raise KubernetesError("the API server does not answer")
        if wanted["metadata"].get("resourceVersion", "0") != str(self.version):
            return None
        self.version += 1
        self.kept = {**wanted, "metadata": {"name": name, "resourceVersion": str(self.version)}}
        return self.kept

    def warn(self, config_map: str, reason: str, text: str) -> None:
        self.events.append((config_map, reason, text))

    @property
    def book(self) -> Book:
        assert self.kept is not None
        return notices.read(self.kept["data"]["book"])


class Clock:
    """A clock that the test sets."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def failed(number: int) -> Job:
    return Job(number, str(number), frozenset({"FAILED"}), mail=frozenset({"END"}), submitted=1001, ended=1002)


def notifier(api: Api, receiver: Receiver, clock: Clock) -> Notifier:
    return Notifier(api, lambda: f"{receiver.url}\n", STATES, "research", clock=clock)


def look(one: Notifier, clock: Clock, *jobs: Job, seconds: float = 0) -> None:
    clock.now += seconds
    one.see(jobs, clock.now + 5)
    one.step()


@pytest.fixture
def clock() -> Clock:
    return Clock()


def test_each_is_sent_once_whoever_leads(receiver: Receiver, clock: Clock) -> None:
    api = Api()
    first = notifier(api, receiver, clock)
    look(first, clock)
    look(first, clock, failed(1), failed(2), seconds=5)
    look(first, clock, failed(1), failed(2), seconds=5)
    other = notifier(api, receiver, clock)
    look(other, clock, failed(1), failed(2), failed(3), seconds=5)
    assert [each["job"] for each in receiver.got] == ["1", "2", "3"]
    assert api.book.waiting == ()


def test_one_that_leads_no_longer_sends_and_writes_nothing(receiver: Receiver, clock: Clock) -> None:
    api = Api()
    one = notifier(api, receiver, clock)
    look(one, clock)
    one.see([failed(1)], clock.now)
    one.step()
    assert (receiver.got, api.version) == ([], 1)


def test_what_another_leader_wrote_counts(receiver: Receiver, clock: Clock) -> None:
    api = Api()
    first, other = notifier(api, receiver, clock), notifier(api, receiver, clock)
    look(first, clock)
    look(other, clock, failed(1), seconds=5)
    look(first, clock, failed(1))
    look(first, clock, failed(1))
    assert len(receiver.got) == 1


def test_a_failed_one_is_tried_again_later_and_those_after_it_wait(receiver: Receiver, clock: Clock) -> None:
    api, jobs = Api(), (failed(1), failed(2))
    one = notifier(api, receiver, clock)
    look(one, clock)
    receiver.status = 500
    look(one, clock, *jobs, seconds=5)
    assert [each.job for each in api.book.waiting] == ["1", "2"]
    look(one, clock, *jobs, seconds=1)
    assert len(receiver.got) == 1, "not before its pause is over"
    receiver.status = 200
    # Slurm has forgotten them, and this actor is another one: what waits is kept.
    again = notifier(api, receiver, clock)
    look(again, clock, seconds=2)
    assert [each["job"] for each in receiver.got] == ["1", "1", "2"]
    assert api.events == []


def test_it_is_given_up_after_some_tries_and_told_without_the_url(
    receiver: Receiver, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    api = Api()
    one = notifier(api, receiver, clock)
    look(one, clock)
    receiver.status = 500
    look(one, clock, failed(1), seconds=5)
    for _ in range(notify.TRIES):
        look(one, clock, failed(1), seconds=notify.LONGEST_PAUSE)
    assert len(receiver.got) == notify.TRIES
    assert api.book.waiting == ()
    text = "Not told: 1 FAILED: the webhook answered 500, in 8 tries."
    assert api.events == [(notify.CONFIG_MAP, "NotifyFailed", text)]
    assert len(caplog.records) == 2, "the first failure and the last"
    assert SECRET not in caplog.text


def test_more_than_fit_are_given_up_oldest_first(
    receiver: Receiver, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notices, "MOST", 2)
    api = Api()
    one = notifier(api, receiver, clock)
    look(one, clock)
    look(one, clock, failed(1), failed(2), failed(3), seconds=5)
    assert [each["job"] for each in receiver.got] == ["2", "3"]
    assert "Not told: 1 FAILED" in api.events[0][2]


def test_as_many_as_may_wait_fit_into_a_config_map() -> None:
    most = "\N{SNOWMAN}" * 5000
    job = Job(1, "1", frozenset({"FAILED"}), mail=frozenset({"END"}), submitted=9, ended=9, name=most, reason="r" * 999)
    (one,) = notices.enter(Book(0), [job], STATES, "c").waiting
    assert len(notices.write(Book(0, waiting=(one,) * notices.MOST))) < 1_000_000


def test_a_sent_one_is_not_sent_again_while_the_api_server_is_away(
    receiver: Receiver, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    api = Api()
    one = notifier(api, receiver, clock)
    look(one, clock)
    original = api.write_config_map

    def then_away(name: str, wanted: Any) -> Json | None:
        written = original(name, wanted)
        api.away = True
        return written

    # It goes between the two writes.
    monkeypatch.setattr(api, "write_config_map", then_away)
    for _ in range(3):
        with pytest.raises(KubernetesError):
            look(one, clock, failed(1), failed(2), seconds=1)
    monkeypatch.undo()
    api.away = False
    look(one, clock, failed(1), failed(2), seconds=1)
    assert [each["job"] for each in receiver.got] == ["1", "2"]
    assert api.book.waiting == ()


def test_a_url_that_can_not_be_read_is_a_failure(clock: Clock, receiver: Receiver) -> None:
    def gone() -> str:
        raise FileNotFoundError(SECRET)

    api = Api()
    one = notifier(api, receiver, clock)
    one.url = gone
    look(one, clock)
    look(one, clock, failed(1), seconds=5)
    assert len(api.book.waiting) == 1


def test_a_book_that_somebody_spoilt_begins_anew(receiver: Receiver, clock: Clock) -> None:
    api = Api()
    api.write_config_map(notify.CONFIG_MAP, {"metadata": {}, "data": {"book": "{}"}})
    one = notifier(api, receiver, clock)
    look(one, clock, seconds=1)
    assert api.book == Book(1001)
