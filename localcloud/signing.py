"""Checks Crusoe's request signatures, as a pure ASGI middleware.

The signed message is four lines, each ended by a line break: the path with the base path, unescaped; the canonical
query; the method; the `X-Crusoe-Timestamp` header. `Authorization` is `Bearer 1.0:<key id>:<signature>`, the signature
being HMAC-SHA256 over the message, all base64 unpadded and URL-safe. The body is not covered. Clients repeat a request
with the same signature, so replays are allowed and only the clock window bounds them.
"""

from __future__ import annotations

import base64
import hmac
import re
from collections.abc import MutableMapping
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote_plus, unquote_to_bytes

from starlette.types import ASGIApp, Receive, Scope, Send

from localcloud.clock import Clock, rfc3339
from localcloud.errors import ApiError, bad_credential, bad_request
from localcloud.keys import ApiKey, Keys

WINDOW_SECONDS = 300.0
_STAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")
_AUTHORIZATION = re.compile(r"Bearer 1\.0:([^:\s]+):([A-Za-z0-9_-]+)")
_BAD_ESCAPE = re.compile(rb"%(?![0-9A-Fa-f]{2})")


def canonical_query(query: bytes) -> str:
    """A raw query as it is signed: pairs sorted by key, equal keys in order, form encoding with upper-case hex.

    Raises ApiError 400 for `;` and for broken escapes, which a client refuses to send.
    """
    if b";" in query:
        raise bad_request("the query must not contain ';'; write it as %3B")
    if _BAD_ESCAPE.search(query):
        raise bad_request("the query has a broken percent escape")
    pairs: list[tuple[bytes, bytes]] = []
    for part in filter(None, query.split(b"&")):
        key, _, value = part.partition(b"=")
        pairs.append((_form_decode(key), _form_decode(value)))
    pairs.sort(key=lambda pair: pair[0])
    return "&".join(f"{quote_plus(key)}={quote_plus(value)}" for key, value in pairs)


def message(path: str, query: bytes, method: str, stamp: str) -> bytes:
    """The message that a request's signature covers."""
    return f"{path}\n{canonical_query(query)}\n{method}\n{stamp}\n".encode()


def sign(key: bytes, text: bytes) -> str:
    """The signature of a message."""
    return base64.urlsafe_b64encode(hmac.digest(key, text, "sha256")).rstrip(b"=").decode()


class Signatures:
    """Lets signed requests through, with the caller's key in `scope["state"]["api_key"]`."""

    def __init__(self, app: ASGIApp, keys: Keys, clock: Clock, on_error: ASGIApp) -> None:
        """Guard `app`; `on_error` answers with the ApiError found in `scope["state"]["error"]`."""
        self._app = app
        self._keys = keys
        self._clock = clock
        self._on_error = on_error

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Check one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        state: MutableMapping[str, Any] = scope.setdefault("state", {})
        try:
            state["api_key"] = self.check(scope)
        except ApiError as error:
            state["error"] = error
            await self._on_error(scope, receive, send)
            return
        await self._app(scope, receive, send)

    def check(self, scope: Scope) -> ApiKey:
        """The key that signed the request; raises ApiError 401, or 400 for a query that can't be read."""
        headers = {name.lower(): value.decode("latin-1") for name, value in scope["headers"]}
        authorization, stamp = headers.get(b"authorization"), headers.get(b"x-crusoe-timestamp")
        if authorization is None or stamp is None:
            raise bad_credential("the request is not signed: Authorization and X-Crusoe-Timestamp are required")
        parts = _AUTHORIZATION.fullmatch(authorization)
        if parts is None:
            raise bad_credential("Authorization must read 'Bearer 1.0:<access key id>:<signature>'")
        key = self._keys.by_id.get(parts[1])
        if key is None:
            raise bad_credential(f"access key {parts[1]} does not exist")
        wanted = sign(key.decoded(), message(scope["path"], scope["query_string"], scope["method"], stamp))
        if not hmac.compare_digest(wanted, parts[2]):
            raise bad_credential("the signature does not match the request")
        self._check_stamp(stamp)
        return key

    def _check_stamp(self, stamp: str) -> None:
        # After the signature, so that only the key's owner learns the cloud's time.
        try:
            if not _STAMP.fullmatch(stamp):
                raise ValueError(stamp)  # noqa: TRY301 - strptime takes more forms; both kinds get one answer
            then = datetime.strptime(stamp, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC).timestamp()
        except ValueError:
            raise bad_credential("X-Crusoe-Timestamp must be UTC like 2026-11-29T17:38:45Z") from None
        now = self._clock.now()
        if abs(now - then) > WINDOW_SECONDS:
            raise bad_credential(
                f"the request's time stamp {stamp} is more than {WINDOW_SECONDS:.0f} s away from {rfc3339(now)}; "
                "set the caller's clock right"
            )


def _form_decode(text: bytes) -> bytes:
    return unquote_to_bytes(text.replace(b"+", b" "))
