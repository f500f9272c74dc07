"""A client without a network and without waiting: scripted answers, and a clock that jumps."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import httpx

from crusoe.client import Cancelled, Client

ENDPOINT = "https://api.example.test/v1"
PROJECT = "00000000-0000-4000-8000-000000000001"
KEY_TEXT = "YS1zZWNyZXQtb2YtdGhlLXRlc3RzLTAxMjM0NTY3ODk"
START = datetime(2026, 11, 29, 17, 38, 45, tzinfo=UTC)


@dataclass
class FakeClock:
    """Sleeping moves it on; `waits` keeps what was asked for."""

    seconds: float = 1000.0
    waits: list[float] = field(default_factory=list[float])
    on_sleep: Callable[[], None] | None = None

    def now(self) -> datetime:
        return START + timedelta(seconds=self.seconds - 1000.0)

    def monotonic(self) -> float:
        return self.seconds

    def sleep(self, seconds: float, cancel: threading.Event) -> None:
        if cancel.is_set():
            raise Cancelled("The run was cancelled.")
        self.waits.append(seconds)
        self.seconds += seconds
        if self.on_sleep:
            self.on_sleep()
        if cancel.is_set():
            raise Cancelled("The run was cancelled.")


Step = httpx.Response | Exception | Callable[[httpx.Request], httpx.Response]


class Api:
    """Answers with the given steps in order, the last one for ever, and keeps the requests."""

    def __init__(self, *steps: Step, clock: FakeClock | None = None, seconds: float = 0.0) -> None:
        self.steps: list[Step] = list(steps)
        self.requests: list[httpx.Request] = []
        self._clock, self._seconds, self._lock = clock, seconds, threading.Lock()

    def __call__(self, request: httpx.Request) -> httpx.Response:
        with self._lock:
            self.requests.append(request)
            step = self.steps.pop(0) if len(self.steps) > 1 else self.steps[0]
            if self._clock:
                self._clock.seconds += self._seconds
        if isinstance(step, Exception):
            raise step
        if callable(step):
            return step(request)
        return httpx.Response(step.status_code, headers=step.headers, content=step.content)

    @property
    def methods(self) -> list[str]:
        return [request.method for request in self.requests]


def answer(status: int = 200, body: object = None, **headers: str) -> httpx.Response:
    """A JSON answer; header names with underscores for hyphens."""
    return httpx.Response(
        status, json={} if body is None else body, headers={k.replace("_", "-"): v for k, v in headers.items()}
    )


def refusal(status: int, message: str, code: str = "", **headers: str) -> httpx.Response:
    """An error in the API's form."""
    return answer(status, {"code": code, "message": message}, **headers)


def running(operation_id: str = "op-1") -> dict[str, object]:
    """A mutating answer whose operation is under way."""
    return {"operation": {"operation_id": operation_id, "state": "IN_PROGRESS"}}


def polls(*states: str, result: object = None) -> Iterable[httpx.Response]:
    """Bare operations, as polls give them."""
    return [answer(200, {"operation_id": "op-1", "state": state, "result": result}) for state in states]


MakeClient = Callable[[Callable[[httpx.Request], httpx.Response]], Client]


def body_of(request: httpx.Request) -> object:
    """The JSON that was sent."""
    return json.loads(request.content)
