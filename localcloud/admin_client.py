"""Talks to a running server's admin surface. Standard library only, so that the command line starts at once."""

from __future__ import annotations

import http.client
import json
from typing import Any

from localcloud.state import HOST, LocalCloudError, ServerProcess, StateFolder

_SECONDS = 10.0
# Long enough for a local cloud under load; something else on the port may accept and never answer.
_HEALTH_SECONDS = 1.0


class AdminClient:
    """Calls of one running server."""

    def __init__(self, process: ServerProcess, token: str) -> None:
        """Talk to `process` with the folder's token."""
        self._process = process
        self._token = token

    @classmethod
    def of(cls, folder: StateFolder) -> AdminClient:
        """The client of a folder; raises LocalCloudError when its server doesn't run."""
        process = folder.running()
        keys = json.loads((folder.path / "keys.json").read_text(encoding="utf-8"))
        return cls(process, keys["admin_token"])

    @staticmethod
    def health(process: ServerProcess) -> dict[str, Any] | None:
        """What the server on a port says about itself, if it is a local cloud."""
        try:
            status, answer = _request(process.port, "GET", "/_local/health", None, {}, _HEALTH_SECONDS)
        except OSError:
            return None
        return answer if status == http.client.OK and answer.get("service") == "localcloud" else None

    @staticmethod
    def answers(process: ServerProcess) -> bool:
        """Whether this very process answers."""
        found = AdminClient.health(process)
        return found is not None and found.get("pid") == process.pid

    def call(
        self, method: str, path: str, body: dict[str, Any] | None = None, seconds: float = _SECONDS
    ) -> dict[str, Any]:
        """One call below `/_local`; raises LocalCloudError with the server's words."""
        headers = {"X-Local-Token": self._token}
        try:
            status, answer = _request(self._process.port, method, f"/_local/{path}", body, headers, seconds)
        except OSError as error:
            raise LocalCloudError(f"the local cloud on port {self._process.port} does not answer: {error}") from error
        if status >= http.client.BAD_REQUEST:
            raise LocalCloudError(str(answer.get("message", f"the local cloud answered {status}")))
        return answer


def _request(
    port: int, method: str, path: str, body: dict[str, Any] | None, headers: dict[str, str], seconds: float = _SECONDS
) -> tuple[int, dict[str, Any]]:
    connection = http.client.HTTPConnection(HOST, port, timeout=seconds)
    try:
        payload = None if body is None else json.dumps(body)
        connection.request(method, path, payload, {**headers, "Content-Type": "application/json"})
        answer = connection.getresponse()
        text = answer.read()
    except http.client.HTTPException as error:
        raise OSError(str(error)) from error
    finally:
        connection.close()
    try:
        return answer.status, json.loads(text)
    except ValueError:
        return answer.status, {}
