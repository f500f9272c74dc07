"""The test alert: what Alertmanager's own numbers say, and what is said where there is nothing to try."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from typing import Any

import pytest

from components.observability import alert_command
from components.observability.alertmanager import FOLDER, SEND_SECONDS, config
from components.observability.delivery import Asked, outcome, read
from components.observability.settings import ObservabilitySettings
from components.settings import parse

METRICS = """\
# TYPE alertmanager_notification_requests_total counter
alertmanager_notification_requests_total{integration="slack",receiver_name="team"} 3
alertmanager_notification_requests_failed_total{integration="slack",receiver_name="team"} 1
alertmanager_notification_requests_total{integration="webhook",receiver_name="hook"} 2
alertmanager_notifications_total{integration="webhook",receiver_name="hook"} 9
"""


def test_numbers_are_read_by_receiver() -> None:
    assert read(METRICS) == {"team": Asked(3, 1), "hook": Asked(2, 0)}
    assert read("") == {}


@pytest.mark.parametrize(
    ("now", "seconds", "accepted", "words"),
    [
        (Asked(4, 1), 0.5, True, "accepted after 0.5 s"),
        (Asked(5, 2), 0.5, True, "accepted"),
        (Asked(4, 2), 0.5, False, "refused"),
        (Asked(4, 2), SEND_SECONDS, False, "no answer within 10 s"),
    ],
)
def test_what_became_of_it_is_told_by_what_has_grown(now: Asked, seconds: float, accepted: bool, words: str) -> None:
    told = outcome("team", Asked(3, 1), now, seconds)
    assert told is not None
    assert told.accepted is accepted
    assert words in told.words


def test_nothing_is_told_while_nothing_has_grown() -> None:
    assert outcome("team", Asked(3, 1), Asked(3, 1), 59) is None


STACKS: dict[str, tuple[Mapping[str, Any], str]] = {
    "not up yet": ({}, "run `make up`"),
    "without monitoring": ({"observability": {"stack": "none", "routes": {}}}, "no monitoring"),
    "without routes": ({"observability": {"stack": "own", "service": "s", "routes": {}}}, "tells nobody"),
    "of somebody else": ({"observability": {"stack": "bring", "service": "", "routes": {}}}, "somebody else's"),
}


@pytest.mark.parametrize(("outputs", "words"), STACKS.values(), ids=[*STACKS])
def test_a_stack_with_nothing_to_try_is_told_so_in_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], outputs: Mapping[str, Any], words: str
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(json.dumps(outputs)))
    assert alert_command.main(["--kubectl=kubectl"]) == 1
    said = capsys.readouterr()
    assert said.out == ""
    assert words in said.err
    assert len(said.err.splitlines()) == 1


def test_secrets_are_files_of_the_routes_names_and_no_receiver_is_forgotten() -> None:
    routes = {
        "a": {"kind": "slack", "secret": "one", "channel": "#x"},
        "b": {"kind": "pagerduty", "secret": "two", "severities": ["page"]},
        "c": {"kind": "webhook", "secret": "three"},
        "d": {"kind": "email", "secret": "four", "to": "a@b.c", "sender": "a@b.c", "server": "s:25", "user": "u"},
    }
    settings = parse(ObservabilitySettings, {"routes": routes, "heartbeat": {"secret": "five"}}, "o")
    made = config(settings)
    text = json.dumps(made)
    assert all(f"{FOLDER}/{name}" in text for name in (*routes, "heartbeat"))
    assert not [name for name in ("one", "two", "three", "four", "five") if f'"{name}"' in text]
    receivers = {each["name"] for each in made["receivers"]}
    assert {each["receiver"] for each in made["route"]["routes"]} == receivers
    assert receivers == {*routes, "heartbeat", "nobody"}
