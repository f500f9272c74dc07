"""One try of one request: sign, send, read the answer, all inside a hard time limit and open to a cancel.

The sending runs in a daemon thread, because nothing else bounds it: a name look-up has no time limit, a server that
trickles bytes resets the read timeout with each, and neither can be interrupted by a cancel.
"""

from __future__ import annotations

import sys
import threading
import time
from typing import TYPE_CHECKING, cast
from urllib.parse import quote, unquote, urlsplit

from crusoe.client import signing
from crusoe.client.answers import Answer, Request
from crusoe.client.endpoint import is_loopback
from crusoe.client.errors import Cancelled, CrusoeError, MalformedAnswer, NeverSent, TransportError

if TYPE_CHECKING:
    from collections.abc import Callable

    import httpx

    from crusoe.client.clock import Clock
    from crusoe.client.credentials import Credentials

CONNECT_SECONDS = 3.0
LARGEST_ANSWER = 32 * 1024 * 1024
"""Bytes; a list of 500 node pools takes well under one mebibyte."""

CANCEL_POLL = 0.05
CANCEL_GRACE = 1.5
"""Seconds that a request which changes something is given after a cancel, as its answer carries the object's id."""

IDLE_CONNECTION_SECONDS = 2.0
"""Shorter than any server keeps idle connections, so that a request is not sent into a connection being closed."""

AGAIN = "Run the same command again: it looks first at what became of this."


class Transport:
    """Sends single requests to one endpoint with one access key; safe to use from many threads."""

    def __init__(
        self, endpoint: str, credentials: Credentials, clock: Clock, http_transport: httpx.BaseTransport | None
    ) -> None:
        self.endpoint = endpoint
        self._credentials = credentials
        self._clock = clock
        self._http_transport = http_transport
        self._http: httpx.Client | None = None
        self._lock = threading.Lock()

    def close(self) -> None:
        """Close the connections."""
        with self._lock:
            if self._http is not None:
                self._http.close()
                self._http = None

    def send(self, request: Request, seconds: float, cancel: threading.Event) -> Answer:
        """Send once and return the answer, whatever its status.

        Raises:
            NeverSent: no connection could be made.
            TransportError: no whole answer within `seconds`.
            Cancelled: `cancel` was set.
        """
        if cancel.is_set():
            raise Cancelled("The run was cancelled.")
        job = _Job(lambda: self._exchange(request, seconds))
        job.start()
        if job.wait(seconds, cancel, grace=CANCEL_GRACE if request.changes else 0.0):
            return job.outcome()
        if cancel.is_set():
            raise Cancelled(f"The run was cancelled during {request}.", answer_lost=request.changes)
        raise self._silent(request, seconds)

    def _exchange(self, request: Request, seconds: float) -> Answer:
        http = self._client()
        import httpx

        url = urlsplit(self.endpoint)
        path = f"{unquote(url.path)}{request.path}"
        signed = signing.headers(self._credentials, request.method, path, request.query, self._clock.now())
        target = f"{url.scheme}://{url.netloc}{quote(path, safe='/')}" + (f"?{request.query}" if request.query else "")
        kind = {"Content-Type": "application/json"} if request.body is not None else {}
        patience = httpx.Timeout(seconds, connect=min(CONNECT_SECONDS, seconds))
        try:
            with http.stream(
                request.method, target, content=request.body, headers={**signed, **kind}, timeout=patience
            ) as response:
                body = bytearray()
                for chunk in response.iter_bytes():
                    body += chunk
                    if len(body) > LARGEST_ANSWER:
                        raise MalformedAnswer(
                            f"{request}: the answer is larger than {LARGEST_ANSWER >> 20} MiB.",
                            answer_lost=request.changes,
                        )
                headers = {name.lower(): value for name, value in response.headers.items()}
                return Answer(response.status_code, headers, bytes(body))
        except (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout, httpx.ProxyError) as error:
            raise self._unreachable(error) from None
        except (httpx.UnsupportedProtocol, httpx.LocalProtocolError, httpx.InvalidURL) as error:
            raise NeverSent(f"{request} can't be sent: {error}.", final=True) from None
        except httpx.TimeoutException:
            raise self._silent(request, seconds) from None
        except httpx.HTTPError:
            raise TransportError(
                f"{request}: the connection to {self.endpoint} broke before the whole answer was there. {AGAIN}",
                answer_lost=request.changes,
            ) from None

    def _silent(self, request: Request, seconds: float) -> TransportError:
        told = f"{request}: no answer from {self.endpoint} within {seconds:.0f} s. {AGAIN}"
        return TransportError(told, answer_lost=request.changes)

    def _unreachable(self, error: Exception) -> NeverSent:
        text = f"{error} {error.__cause__} {error.__context__}"
        host = urlsplit(self.endpoint).hostname
        if "CERTIFICATE_VERIFY_FAILED" in text:
            return NeverSent(
                f"The certificate of {self.endpoint} can't be verified; check the endpoint, or set SSL_CERT_FILE if"
                " your network uses its own certificate authority.",
                final=True,
            )
        if any(
            mark in text
            for mark in ("Name or service not known", "nodename nor servname", "getaddrinfo", "name resolution")
        ):
            why = f"the name {host} can't be resolved"
        elif "refused" in text:
            why = "connection refused"
        elif "imed out" in text or "Timeout" in type(error).__name__:
            why = "no answer"
        else:
            why = "no connection"
        way = (
            "start the local cloud or correct the endpoint"
            if is_loopback(self.endpoint)
            else "check endpoint and network"
        )
        return NeverSent(f"Crusoe's API at {self.endpoint} can't be reached ({why}); {way}.")

    def _client(self) -> httpx.Client:
        with self._lock:
            if self._http is None:
                httpx = load_httpx()
                local = is_loopback(self.endpoint)
                self._http = httpx.Client(
                    transport=self._http_transport,
                    # Where nothing is encrypted, reading the machine's certificates is a tenth of a second for nothing.
                    verify=not self.endpoint.startswith("http://"),
                    headers={"User-Agent": "crusoe-gpu-platform", "Accept": "application/json"},
                    limits=httpx.Limits(max_connections=64, keepalive_expiry=IDLE_CONNECTION_SECONDS),
                    # A proxy has no business between two processes of one machine.
                    trust_env=not local,
                    follow_redirects=False,
                )
            return self._http


def load_httpx():  # noqa: ANN201 - a module has no type of its own
    """Import httpx without its command line, which would bring click, rich and pygments: two thirds of the time."""
    modules = cast("dict[str, object]", sys.modules)
    modules.setdefault("httpx._main", None)
    try:
        import httpx
    finally:
        if modules.get("httpx._main") is None:
            modules.pop("httpx._main", None)
    return httpx


class _Job:
    """A function in a daemon thread, whose outcome is waited for only as long as wanted."""

    def __init__(self, function: Callable[[], Answer]) -> None:
        self._function = function
        self._done = threading.Event()
        self._answer: Answer | None = None
        self._error: BaseException | None = None

    def start(self) -> None:
        threading.Thread(target=self._run, name="crusoe-request", daemon=True).start()

    def _run(self) -> None:
        try:
            self._answer = self._function()
        except BaseException as error:  # noqa: BLE001 - handed to the waiting thread, whatever it is
            self._error = error
        finally:
            self._done.set()

    def wait(self, seconds: float, cancel: threading.Event, *, grace: float) -> bool:
        """Return True when done; False after `seconds`, or `grace` seconds after a cancel."""
        end = time.monotonic() + seconds
        cancelled = False
        while not self._done.wait(min(CANCEL_POLL, max(0.0, end - time.monotonic()))):
            if cancel.is_set() and not cancelled:
                cancelled, end = True, min(end, time.monotonic() + grace)
            if time.monotonic() >= end:
                return self._done.is_set()
        return True

    def outcome(self) -> Answer:
        if self._error is not None:
            raise self._error
        if self._answer is None:
            raise CrusoeError("The request ended without an answer.")
        return self._answer
