"""Sends one alert through a real Alertmanager, and finds out of its own metrics who took it.

Alertmanager counts what each receiver was asked and what failed (`alertmanager_notification_requests_total` and
`..._failed_total`, by `receiver_name` where the feature `receiver-name-in-metrics` is on). A request that did not fail
was accepted: with a 2xx by Slack, PagerDuty or a webhook, by the mail server for mail. What lies behind it is not seen
from here.
"""

from __future__ import annotations

import json
import re
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from components.observability.alertmanager import SEND_SECONDS, TEST

_ANSWER_SECONDS = 10.0
_POLL_SECONDS = 0.25
_SAMPLE = re.compile(r"^(alertmanager_notification_requests(?:_failed)?_total)\{([^}]*)\} (\S+)$", re.MULTILINE)
_LABEL = re.compile(r'(\w+)="([^"]*)"')


class DeliveryError(Exception):
    """Alertmanager itself does not answer as it should."""


@dataclass(frozen=True)
class Asked:
    """How often a receiver was asked, and how often that failed."""

    requests: float = 0.0
    failed: float = 0.0

    @property
    def accepted(self) -> float:
        """How often it took what it was sent."""
        return self.requests - self.failed


@dataclass(frozen=True)
class Outcome:
    """What became of the alert on one route, in words."""

    route: str
    accepted: bool
    words: str


def read(metrics: str) -> Mapping[str, Asked]:
    """What each receiver was asked, by its name."""
    counts: dict[str, list[float]] = {}
    for name, labels, value in _SAMPLE.findall(metrics):
        receiver = dict(_LABEL.findall(labels)).get("receiver_name", "")
        counts.setdefault(receiver, [0.0, 0.0])["failed" in name] += float(value)
    return {receiver: Asked(*both) for receiver, both in counts.items()}


def outcome(route: str, before: Asked, now: Asked, seconds: float) -> Outcome | None:
    """What became of the alert on a route after some seconds; None while it is open."""
    if now.accepted > before.accepted:
        return Outcome(route, accepted=True, words=f"accepted after {seconds:.1f} s")
    if now.failed > before.failed:
        if seconds >= SEND_SECONDS:
            words = f"no answer within {SEND_SECONDS} s: the receiver hangs, or can't be reached"
        else:
            words = "refused: the secret is empty or wrong, or the receiver does not take it"
        return Outcome(route, accepted=False, words=words)
    return None


def reach(url: str) -> None:
    """Raise DeliveryError where no Alertmanager answers."""
    _ask(f"{url}/-/ready")


def deliver(
    url: str, routes: Collection[str], seconds: float, wait: Callable[[float], None] = time.sleep
) -> list[Outcome]:
    """Send one alert to all routes and wait, within a bound, for what becomes of it on each.

    Raises:
        DeliveryError: Alertmanager can't be asked, or does not tell its receivers apart.
    """
    before = read(_ask(f"{url}/metrics"))
    _ask(f"{url}/api/v2/alerts", _alert())
    begun, open_routes = time.monotonic(), [*routes]
    found, last = dict[str, Outcome](), dict[str, Outcome | None]()
    while open_routes and (passed := time.monotonic() - begun) < seconds:
        now = read(_ask(f"{url}/metrics"))
        if now and set(now) == {""}:
            raise DeliveryError(
                "Alertmanager does not tell its receivers apart: it runs without the feature receiver-name-in-metrics"
            )
        told = {each: outcome(each, before.get(each, Asked()), now.get(each, Asked()), passed) for each in open_routes}
        for route, each in told.items():
            before_that = last.get(route)
            # A request is counted a moment before its failure is, so one look at the two numbers may deceive.
            if each and before_that and each.accepted == before_that.accepted:
                found[route] = before_that
        last = told
        open_routes = [route for route in open_routes if route not in found]
        wait(_POLL_SECONDS)
    words = f"not sent within {seconds:.0f} s: Alertmanager has no such route yet, or is still at it"
    return [found.get(route) or Outcome(route, accepted=False, words=words) for route in routes]


def _alert() -> bytes:
    ends = datetime.now(UTC) + timedelta(minutes=1)
    alert = {
        "labels": {"alertname": TEST, "severity": "info", "test": uuid.uuid4().hex[:8]},
        "annotations": {"summary": "This is a test of the way that alerts take. There is nothing to do."},
        "endsAt": ends.isoformat(),
    }
    return json.dumps([alert]).encode()


def _ask(url: str, body: bytes | None = None) -> str:
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(url, data=body, headers=headers)  # noqa: S310 (http, of our own making)
    try:
        with urllib.request.urlopen(request, timeout=_ANSWER_SECONDS) as answer:  # noqa: S310 (http, of our own making)
            return answer.read().decode()
    except (urllib.error.URLError, TimeoutError, OSError) as error:
        raise DeliveryError(f"Alertmanager does not answer: {error}") from error
