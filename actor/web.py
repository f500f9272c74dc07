"""HTTP with JSON, as both APIs speak it."""

import http.client
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, cast

SECONDS = 10.0
"""How long either API may take to answer."""

Connect = Callable[[], http.client.HTTPConnection]
"""Makes a connection, with a timeout."""


class WebError(Exception):
    """An API did not answer, or not as it should."""


@dataclass(frozen=True)
class Answer:
    """An answer: its status, and its JSON (an empty object where it is none)."""

    status: int
    body: dict[str, Any]
    text: str

    @property
    def ok(self) -> bool:
        """Whether the API did what it was asked."""
        return self.status < http.client.MULTIPLE_CHOICES


def call(connect: Connect, method: str, path: str, body: object, headers: Mapping[str, str]) -> Answer:
    """Ask once.

    Raises:
        WebError: nothing answered in time.
    """
    connection: http.client.HTTPConnection | None = None
    try:
        connection = connect()
        data = None if body is None else json.dumps(body).encode()
        connection.request(method, path, data, {"Accept": "application/json", **headers})
        response = connection.getresponse()
        text = response.read().decode(errors="replace")
    except (OSError, http.client.HTTPException) as error:
        raise WebError(f"{method} {path}: {error or type(error).__name__}") from error
    finally:
        if connection is not None:
            connection.close()
    return Answer(response.status, _object(text), text)


def _object(text: str) -> dict[str, Any]:
    try:
        found: object = json.loads(text)
    except ValueError:
        return {}
    return cast("dict[str, Any]", found) if isinstance(found, dict) else {}
