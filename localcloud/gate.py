"""What every request to the API passes: the request log, the signature check, the faults.

All three are pure ASGI, so they cost little and can cut a connection. Only signed requests meet faults.
"""

import asyncio
import time
from typing import Any

from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from localcloud import faults
from localcloud.cloud import Cloud
from localcloud.errors import ApiError, internal_error
from localcloud.handlers import answer
from localcloud.signing import Signatures

_LARGEST_BODY = 1024 * 1024


class ConnectionDroppedError(Exception):
    """The connection was to be cut, but the server gave no handle to cut it with."""


async def send_error(scope: Scope, receive: Receive, send: Send) -> None:
    """An ASGI app that answers with the error found in the scope's state."""
    await answer(scope["state"]["error"])(scope, receive, send)


class Gate:
    """Log, then check the signature, then meet faults, then the API."""

    def __init__(self, app: ASGIApp, cloud: Cloud) -> None:
        """Guard `app`."""
        self._cloud = cloud
        self._faults = FaultLayer(app, cloud)
        self._guarded = Signatures(self._faults, cloud.keys, cloud.clock, send_error)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one HTTP request and write it to the log, answered or not."""
        started, at = time.perf_counter(), self._cloud.clock.now()
        scope.setdefault("state", {})
        status: int | None = None
        body = await _read(scope, receive)
        if body is None:
            too_large = ApiError(413, "bad_request", f"the request body is larger than {_LARGEST_BODY} bytes")
            await answer(too_large)(scope, receive, send)
            return

        async def note(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._guarded(scope, _replay(body, receive), note)
        finally:
            state: dict[str, Any] = scope["state"]
            key, fault = state.get("api_key"), state.get("fault")
            headers = {name.lower(): value.decode("latin-1") for name, value in scope["headers"]}
            self._cloud.requests.add(
                at=at,
                method=scope["method"],
                path=scope["path"],
                query=scope["query_string"].decode("latin-1"),
                body=body,
                status=status,
                key_id=key.id if key else None,
                user_agent=headers.get(b"user-agent"),
                fault=fault.kind if fault else None,
                milliseconds=(time.perf_counter() - started) * 1000,
            )


class FaultLayer:
    """Does to a request what the first matching fault says."""

    def __init__(self, app: ASGIApp, cloud: Cloud) -> None:
        """Stand before `app`."""
        self._app = app
        self._cloud = cloud

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        fault = self._cloud.faults.meet(scope["method"], scope["path"])
        if fault is None:
            await self._app(scope, receive, send)
            return
        scope["state"]["fault"] = fault
        if error := _instead(fault):
            await answer(error)(scope, receive, send)
        elif fault.kind == "drop-before":
            await _cut(scope, receive)
        elif fault.kind in ("drop-after", "http-500-after"):
            await self._app(scope, receive, _swallow)
            if fault.kind == "drop-after":
                await _cut(scope, receive)
            else:
                await answer(internal_error(fault.options.message or "internal error"))(scope, receive, send)
        else:
            if fault.kind == "slow":
                await asyncio.sleep(fault.options.seconds or 0.0)
            token = faults.current.set(fault)
            try:
                await self._app(scope, receive, send)
            finally:
                faults.current.reset(token)


_REFUSALS = {
    "http-400": (400, "bad_request", "the request is not accepted"),
    "http-401": (401, "bad_credential", "the signature is not accepted"),
    "http-403": (403, "unauthorized", "the access key may not do this"),
    "http-404": (404, "not_found", "there is no such object"),
    "http-409": (409, "conflict", "something else works on the object"),
    "http-429": (429, "rate_limited", "too many requests"),
    "http-503": (503, "unavailable", "the service is unavailable"),
    "quota-400": (400, "bad_request", "the project's quota is exceeded"),
}
"""Status, code and message that a kind answers unless the fault has a message of its own."""

_BREAKDOWNS = {
    "http-500": "internal error",
    "capacity-500": "out of host capacity: no host can take the requested VM type now",
}
"""Messages of kinds that answer 500, each time with an error id."""


def _instead(fault: faults.Fault) -> ApiError | None:
    """The answer that a fault gives in the API's place, if it is of such a kind."""
    options = fault.options
    if message := _BREAKDOWNS.get(fault.kind):
        return internal_error(options.message or message)
    if refusal := _REFUSALS.get(fault.kind):
        status, code, message = refusal
        headers = {} if options.retry_after is None else {"Retry-After": str(options.retry_after)}
        return ApiError(status, code, options.message or message, headers=headers)
    return None


async def _cut(scope: Scope, receive: Receive) -> None:
    transport = scope["state"].get("transport")
    if transport is None:
        raise ConnectionDroppedError
    transport.abort()
    # Until the server has noticed: it would answer 500 to an app that returns without an answer.
    while (await receive())["type"] != "http.disconnect":
        pass


async def _swallow(_message: Message) -> None:
    pass


async def _read(scope: Scope, receive: Receive) -> bytes | None:
    parts: list[bytes] = []
    size = 0
    async for part in Request(scope, receive).stream():
        size += len(part)
        if size > _LARGEST_BODY:
            return None
        parts.append(part)
    return b"".join(parts)


def _replay(body: bytes, receive: Receive) -> Receive:
    sent = False

    async def again() -> Message:
        nonlocal sent
        if sent:
            return await receive()
        sent = True
        return {"type": "http.request", "body": body, "more_body": False}

    return again
