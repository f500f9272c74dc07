"""When a request is sent again, and for how long.

| Method | Sent again after | Why it is safe |
|---|---|---|
| GET | no connection, broken or late answer, 429, 5xx but 501 | it changes nothing |
| PATCH, DELETE | the same | every PATCH of this API sets absolute values, a DELETE has one outcome |
| POST | no connection; 429; 503 with Retry-After | see below |

A POST makes something, so it is only sent again when the first cannot have been carried out: when no connection was
made; on 429, which a rate limit answers instead of doing the work; and on 503 that names a time to come back, by which
the service says that it took nothing on. A lost answer, a plain 500, 502, 503 or 504 is handed to the caller, who looks
for the object by its name. Messages about capacity or quota are never retried, whatever status carries them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from crusoe.client.errors import ApiError, MalformedAnswer, NeverSent, RateLimited, ServerError, TransportError

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable

    from tenacity import RetryCallState

    from crusoe.client.clock import Clock
    from crusoe.client.gate import Gate

T = TypeVar("T")

CONNECTION_TRIES = 3
"""Tries without any connection; with 3 s for each, an unreachable endpoint is reported within 12 s."""

SHORTEST_TRY = 1.0
"""Seconds below which another try is not worth starting."""


@dataclass(frozen=True, slots=True)
class Policy:
    """How often and how long: at most `tries`, `try_seconds` for one, `budget` seconds with all waits."""

    tries: int
    try_seconds: float
    budget: float
    repeat: Callable[[BaseException], bool]


def may_repeat(error: BaseException) -> bool:
    """For requests that can be carried out twice without harm."""
    if isinstance(error, NeverSent):
        return not error.final
    if isinstance(error, ServerError):
        return error.status != 501
    return isinstance(error, RateLimited) or (
        isinstance(error, TransportError) and not isinstance(error, MalformedAnswer)
    )


def was_not_done(error: BaseException) -> bool:
    """For requests that make something: only when nothing can have been made."""
    if isinstance(error, NeverSent):
        return not error.final
    if isinstance(error, ServerError):
        return error.status == 503 and error.retry_after is not None
    return isinstance(error, RateLimited)


READ = Policy(tries=5, try_seconds=30, budget=60, repeat=may_repeat)
SET = Policy(tries=4, try_seconds=60, budget=120, repeat=may_repeat)
MAKE = Policy(tries=3, try_seconds=90, budget=120, repeat=was_not_done)
FIRST_CONTACT = Policy(tries=3, try_seconds=6, budget=7, repeat=may_repeat)
"""For the two look-ups at start-up: whatever is wrong with endpoint, key or project is told within 15 s."""

POLICIES = {"GET": READ, "PATCH": SET, "PUT": SET, "DELETE": SET, "POST": MAKE}


def run(once: Callable[[float], T], policy: Policy, clock: Clock, gate: Gate, cancel: threading.Event) -> T:
    """Call `once(seconds left for this try)` until it succeeds, the error is not to be repeated, or time is up."""
    import tenacity

    deadline = clock.monotonic() + policy.budget
    backoff = tenacity.wait_exponential_jitter(multiplier=0.5, max=8, jitter=0.5)

    def attempt() -> T:
        while pause := gate.turn():
            if clock.monotonic() + pause + SHORTEST_TRY > deadline:
                raise RateLimited(429, "", f"the API asks to wait {pause:.0f} s more", hint="Try again later.")
            clock.sleep(pause, cancel)
            if not gate.remaining():
                break
        return once(min(policy.try_seconds, deadline - clock.monotonic()))

    def wait(state: RetryCallState) -> float:
        error = _error(state)
        asked = error.retry_after or 0.0 if isinstance(error, ApiError) else 0.0
        return max(asked, gate.remaining()) + backoff(state)

    def stop(state: RetryCallState) -> bool:
        tries = CONNECTION_TRIES if isinstance(_error(state), NeverSent) else policy.tries
        next_try = clock.monotonic() + state.upcoming_sleep
        return state.attempt_number >= min(tries, policy.tries) or next_try + SHORTEST_TRY > deadline

    retrying = tenacity.Retrying(
        retry=tenacity.retry_if_exception(policy.repeat),
        wait=wait,
        stop=stop,
        sleep=lambda seconds: clock.sleep(seconds, cancel),
        reraise=True,
    )
    return retrying(attempt)


def _error(state: RetryCallState) -> BaseException | None:
    return state.outcome.exception() if state.outcome is not None else None
