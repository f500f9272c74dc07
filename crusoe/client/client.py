"""The client of Crusoe's REST API: JSON in, JSON out, typed errors, operations awaited.

Safe to use from many threads. Creating one opens no connection and imports no HTTP library; the first call does.
"""

from __future__ import annotations

import json
import threading
from typing import TYPE_CHECKING, cast

from crusoe.client import answers, operations, projects, retries, signing
from crusoe.client.answers import Request
from crusoe.client.clock import Clock, SystemClock
from crusoe.client.endpoint import normalise
from crusoe.client.errors import ConfigurationError, MalformedAnswer, RateLimited
from crusoe.client.gate import Gate
from crusoe.client.transport import Transport

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import httpx

    from crusoe.client.answers import JsonObject
    from crusoe.client.credentials import Credentials
    from crusoe.client.operations import Operation

MOST_PAGES = 1000


class Client:
    """Speaks to one project through one endpoint.

    Paths without a leading slash are relative to the project (`kubernetes/clusters` is
    `/projects/<id>/kubernetes/clusters`); paths with one are relative to the endpoint (`/organizations/projects`).

    Args:
        endpoint: base address such as `https://api.cloud.crusoe.ai/v1`.
        credentials: access key, from `credentials.load`.
        project: id or name; looked up at the first project-relative call. None: the only one that the key sees.
        cancel: once set, every call and wait raises `Cancelled`, within 2 s.
        http_transport: stands in for the network in tests (`httpx.MockTransport`).
        clock: stands in for time in tests.

    Raises:
        ConfigurationError: the endpoint is not fit to be used.
    """

    def __init__(
        self,
        endpoint: str,
        credentials: Credentials,
        project: str | None = None,
        *,
        cancel: threading.Event | None = None,
        http_transport: httpx.BaseTransport | None = None,
        clock: Clock | None = None,
    ) -> None:
        self.endpoint = normalise(endpoint)
        self.credentials = credentials
        self.cancel = cancel or threading.Event()
        self._clock = clock or SystemClock()
        self._gate = Gate(self._clock)
        self._transport = Transport(self.endpoint, credentials, self._clock, http_transport)
        self._wanted = project
        self._project: projects.Project | None = None
        self._project_lock = threading.Lock()

    def __enter__(self) -> Client:
        """Close the connections at the end of a with block."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the connections."""
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._transport.close()

    @property
    def project(self) -> projects.Project:
        """The project, looked up once; wrong endpoint, key, clock or project is told within 15 s.

        Raises:
            ConfigurationError: the key sees no such project.
            CrusoeError: the look-up failed.
        """
        with self._project_lock:
            if self._project is None:
                self._project = projects.resolve(
                    self._wanted,
                    lambda path: self._call("GET", path, policy=retries.FIRST_CONTACT),
                    lambda query: self._items("/organizations/projects", "items", query, policy=retries.FIRST_CONTACT),
                )
            return self._project

    @property
    def project_id(self) -> str:
        """The project's id."""
        return self.project.id

    def get(self, path: str, **query: str) -> JsonObject:
        """GET one object.

        Raises:
            CrusoeError: `NotFound` only when the API itself says so.
        """
        return self._call("GET", path, query)

    def list(self, path: str, *, key: str = "items", **query: str) -> list[JsonObject]:
        """GET a list, all its pages; `key` is the answer's field that holds the items.

        Items that are not objects are left out, a null or absent list is empty.
        """
        return self._items(path, key, query)

    def post(
        self, path: str, body: Mapping[str, object] | None = None, *, harmless: bool = False, **query: str
    ) -> JsonObject:
        """POST; `harmless` says that it makes nothing (get-credentials) and may be sent again as a GET would.

        Raises:
            TransportError, ServerError: with `answer_lost`, the work may have been done: look before asking again.
        """
        return self._call("POST", path, query, body, policy=retries.READ if harmless else None)

    def patch(self, path: str, body: Mapping[str, object], **query: str) -> JsonObject:
        """PATCH with absolute values; sent again when an answer is lost."""
        return self._call("PATCH", path, query, body)

    def delete(self, path: str, **query: str) -> JsonObject:
        """DELETE; `{}` for an empty answer. `NotFound` may mean that an earlier try, whose answer was lost, did it."""
        return self._call("DELETE", path, query)

    def wait(
        self,
        operation: Mapping[str, object],
        family: str,
        timeout: float,
        cancel: threading.Event | None = None,
        progress: Callable[[Operation, float], None] | None = None,
        reread: Callable[[], JsonObject | None] | None = None,
    ) -> Operation:
        """Wait for the operation in a mutating answer and return it as it ended.

        The first poll is made at once, later ones up to 2 s apart.

        Args:
            operation: the mutating answer as it came.
            family: where its operations lie, such as `kubernetes/nodepools`.
            timeout: seconds for the whole wait.
            cancel: set to stop waiting, within 2 s; default: the client's.
            progress: called with the operation and the seconds waited, before each poll.
            reread: reads the object when the API has forgotten the operation or sent none; what it returns becomes the
                result, what it raises is raised.

        Raises:
            OperationFailed, OperationTimeout, OperationExpired, Cancelled: each with the operation's id.
        """
        stop = cancel or self.cancel

        def poll(operation_id: str, seconds: float) -> JsonObject:
            policy = retries.Policy(2, min(retries.READ.try_seconds, seconds), min(30.0, seconds), retries.may_repeat)
            return self._call("GET", f"{family}/operations/{operation_id}", policy=policy, cancel=stop)

        return operations.wait(
            operation, poll, clock=self._clock, timeout=timeout, cancel=stop, progress=progress, reread=reread
        )

    def _items(
        self, path: str, key: str, query: Mapping[str, str], policy: retries.Policy | None = None
    ) -> list[JsonObject]:
        found: list[JsonObject] = []
        page: dict[str, str] = dict(query)
        seen: set[str] = set()
        for _ in range(MOST_PAGES):
            answer = self._call("GET", path, page, policy=policy)
            items = answer.get(key)
            if items is not None and not isinstance(items, list):
                raise MalformedAnswer(f"GET {path}: {key!r} is not a list.", answer_lost=False)
            found += [cast("JsonObject", item) for item in cast("list[object]", items or []) if isinstance(item, dict)]
            token, name = answer.get("next_token"), "next_token"
            if not token:
                token, name = answer.get("next_page_token"), "page_token"
            if not isinstance(token, str) or not token or token in seen:
                return found
            seen.add(token)
            page = {**query, name: token}
        raise MalformedAnswer(f"GET {path}: the list does not end after {MOST_PAGES} pages.", answer_lost=False)

    def _call(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None = None,
        body: Mapping[str, object] | None = None,
        *,
        policy: retries.Policy | None = None,
        cancel: threading.Event | None = None,
    ) -> JsonObject:
        stop = cancel or self.cancel
        try:
            asked = signing.canonical_query((query or {}).items())
        except UnicodeEncodeError:
            raise ConfigurationError(f"{method} {path}: a value of the query is not valid text.") from None
        request = Request(method, self._path(path), asked, None if body is None else encode(body))

        def once(seconds: float) -> JsonObject:
            answer = self._transport.send(request, seconds, stop)
            if 200 <= answer.status < 300:
                self._gate.passed()
                return answers.decode(answer, request)
            error = answers.error_of(answer, request, self._clock.now(), key=self.credentials.source)
            if isinstance(error, RateLimited):
                self._gate.close(error.retry_after)
            raise error

        return retries.run(once, policy or retries.POLICIES[method], self._clock, self._gate, stop)

    def _path(self, path: str) -> str:
        segments = path.removeprefix("/").split("/")
        if any(not part or part in {".", ".."} or not part.isprintable() for part in segments):
            raise ConfigurationError(f"{path!r} is not a path of the API: an id in it is empty or malformed.")
        return path if path.startswith("/") else f"/projects/{self.project_id}/{path}"


def encode(body: Mapping[str, object]) -> bytes:
    """Return the body as Crusoe's own client writes it: compact, keys in order, a newline at the end.

    Whole floats become integers: Pulumi knows only doubles, and the API reads `2.0` in an integer field as 0.

    Raises:
        ConfigurationError: not to be written as JSON; nothing was sent.
    """
    try:
        text = json.dumps(_whole(body), sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
        return f"{text}\n".encode()
    except (TypeError, ValueError, RecursionError):
        raise ConfigurationError("What is to be sent holds a number or text that JSON does not have.") from None


def _whole(value: object) -> object:
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, dict):
        return {key: _whole(item) for key, item in cast("dict[str, object]", value).items()}
    if isinstance(value, list | tuple):
        return [_whole(item) for item in cast("list[object]", value)]
    return value
