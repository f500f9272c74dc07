"""Errors of the API: `{"code", "message", "error_id"?, "reason"?}` with the pairs that its description names.

409 is not among those pairs. It is used here for a name that is taken and for an object that another operation is
working on, because both need an answer that a client can tell from a bad request.
"""

from __future__ import annotations

import uuid
from typing import Any


class ApiError(Exception):
    """An answer other than success; the message is what a user gets to read."""

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        *,
        reason: str | None = None,
        error_id: str | None = None,
        headers: dict[str, str] | None = None,
    ) -> None:
        """Keep the parts of the answer."""
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
        self.reason = reason
        self.error_id = error_id
        self.headers = headers

    def body(self) -> dict[str, Any]:
        """The JSON body."""
        optional = {"error_id": self.error_id, "reason": self.reason}
        return {"code": self.code, "message": self.message, **{k: v for k, v in optional.items() if v is not None}}


def bad_request(message: str, reason: str | None = None) -> ApiError:
    """400: the request cannot be carried out as it is."""
    return ApiError(400, "bad_request", message, reason=reason)


def bad_credential(message: str) -> ApiError:
    """401: unsigned, wrongly signed, unknown key, or a time stamp outside the window."""
    return ApiError(401, "bad_credential", message)


def unauthorized(message: str) -> ApiError:
    """403: the key is known but has no access."""
    return ApiError(403, "unauthorized", message)


def not_found(what: str, identifier: str) -> ApiError:
    """404: no such object."""
    return ApiError(404, "not_found", f"{what} {identifier} not found")


def name_taken(what: str, name: str) -> ApiError:
    """409: names are unique per kind and project."""
    return ApiError(409, "already_exists", f"a {what} named {name!r} already exists in this project")


def busy(what: str, identifier: str, operation_id: str) -> ApiError:
    """409: an object takes one operation at a time."""
    return ApiError(409, "conflict", f"operation {operation_id} is still working on {what} {identifier}")


def internal_error(message: str) -> ApiError:
    """500 with an error id, as the service gives one."""
    return ApiError(500, "internal_error", message, error_id=uuid.uuid4().hex)
