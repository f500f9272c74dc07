"""Who may ask for pages and use their forms.

The server listens on the loopback address only. What is left are other sites' pages in a browser of this machine: a
name of theirs that leads to 127.0.0.1 (DNS rebinding) is told by the Host header, a form of theirs by its Origin and by
the token that only these pages have.
"""

from __future__ import annotations

import hmac
import re
import secrets
from collections.abc import Mapping
from http import HTTPStatus

from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

HEADERS: Mapping[str, str] = {
    "content-security-policy": (
        "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self'; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    # Not `no-referrer`: browsers would send the Origin `null` with the forms.
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}
_HOST = re.compile(r"(127\.0\.0\.1|localhost|\[::1\])(:\d{1,5})?")
_FORM_METHODS = ("POST", "PUT", "PATCH", "DELETE")

TOKEN = secrets.token_urlsafe(32)
"""What a form of these pages has; another with every start."""


def refusal(method: str, headers: Mapping[str, str]) -> tuple[HTTPStatus, str] | None:
    """Why a request is not answered, with its status; None for one that is. `headers` have lower-case names."""
    host = headers.get("host", "")
    if not _HOST.fullmatch(host.lower()):
        return HTTPStatus.MISDIRECTED_REQUEST, "The console answers at http://127.0.0.1 and http://localhost only."
    if method in _FORM_METHODS and headers.get("origin", "").lower() != f"http://{host.lower()}":
        return HTTPStatus.FORBIDDEN, "Only forms of the console's own pages may change anything."
    return None


def is_ours(token: str) -> bool:
    """Whether a form has the token of these pages."""
    return hmac.compare_digest(token.encode(), TOKEN.encode())


class Guard:
    """Stands before an app: refuses strangers, and has every answer say what a browser may do with it."""

    def __init__(self, app: ASGIApp) -> None:
        """Guard `app`."""
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                own = [(name.encode(), value.encode()) for name, value in HEADERS.items()]
                message = {**message, "headers": [*message.get("headers", ()), *own]}
            await send(message)

        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
        refused = refusal(scope["method"], headers)
        app = self._app if refused is None else PlainTextResponse(f"{refused[1]}\n", refused[0])
        await app(scope, receive, with_headers)
