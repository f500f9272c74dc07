"""What can go wrong between this machine and Crusoe's API, one class for each thing a caller handles differently.

`str()` of every error is one or two plain sentences that are fit to be shown to a user; nothing in it is secret.
"""
# Class names say what happened, in the API's own words ("not found", "forbidden"), as httpx and requests do.
# ruff: noqa: N818

from __future__ import annotations

from typing import Literal

Reason = Literal["capacity", "quota", "other"]
"""Why a request for machines was turned down: no stock, the project's quota, or anything else."""


class CrusoeError(Exception):
    """Base of every error of this client."""


class ConfigurationError(CrusoeError):
    """Credentials, endpoint or project are missing or unfit; found before anything was changed."""


class Cancelled(CrusoeError):
    """The run was cancelled while this client waited.

    `operation_id` and `state` are those of the operation that was waited for, None when there was none.
    `answer_lost` is True when a request that changes something was under way: it may have been carried out.
    """

    def __init__(
        self,
        message: str,
        *,
        operation_id: str | None = None,
        state: str | None = None,
        answer_lost: bool = False,
    ) -> None:
        super().__init__(message)
        self.operation_id = operation_id
        self.state = state
        self.answer_lost = answer_lost


class TransportError(CrusoeError):
    """No usable answer came back.

    `answer_lost` is True when the request changes something and may have been carried out all the same, so that the
    caller has to look for the object before it asks again.
    """

    def __init__(self, message: str, *, answer_lost: bool) -> None:
        super().__init__(message)
        self.answer_lost = answer_lost


class NeverSent(TransportError):
    """No connection could be made, so nothing can have been carried out.

    `final` says that another try can't help, such as a certificate that can't be verified.
    """

    def __init__(self, message: str, *, final: bool = False) -> None:
        super().__init__(message, answer_lost=False)
        self.final = final


class MalformedAnswer(TransportError):
    """An answer came back that is not what the API promises: no JSON, cut short, too large, a field of another type."""


class ApiError(CrusoeError):
    """The API refused a request.

    `status` is the HTTP status, `code` and `message` are the body's (`message` already shortened to what concerns the
    user), `error_id` is what Crusoe's support asks for, `retry_after` the seconds the API asked to wait.
    """

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        error_id: str | None = None,
        *,
        request: str = "",
        retry_after: float | None = None,
        hint: str = "",
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
        self.error_id = error_id
        self.request = request
        self.retry_after = retry_after
        self.hint = hint

    def __str__(self) -> str:
        """`POST kubernetes/nodepools: <message> (HTTP 400 bad_request, error id 1f…). <hint>`."""
        details = f"HTTP {self.status}" + (f" {self.code}" if self.code else "")
        if self.error_id:
            details += f", error id {self.error_id}"
        said = self.message.rstrip(". ") or "refused without a reason"
        return f"{self.request + ': ' if self.request else ''}{said} ({details}).{' ' + self.hint if self.hint else ''}"


class BadRequest(ApiError):
    """400 or 422: the API does not accept what was sent."""


class Unauthorized(ApiError):
    """401: the access key or its signature was not accepted."""


class Forbidden(ApiError):
    """403: the key is good, but not for this; the API also says so of operations that it no longer knows."""


class NotFound(ApiError):
    """404 in the API's own words. A 404 from anything else on the way is a `MalformedAnswer`: the object may exist."""


class Conflict(ApiError):
    """409: the name is taken, or something else works on the object."""


class RateLimited(ApiError):
    """429, after the retries."""


class ServerError(ApiError):
    """5xx, after the retries. `answer_lost` is True when the request changes something: the work may have been done."""

    answer_lost: bool = False


class CapacityError(ApiError):
    """No free hosts of the type in the location, whatever status the API used to say so. Asking again does not help."""


class QuotaError(ApiError):
    """The project's quota does not allow it; `quota`, `used` and `limit` as far as the message names them."""

    quota: str | None = None
    used: int | None = None
    limit: int | None = None


class OperationFailed(CrusoeError):
    """An operation ended as FAILED; `reason` tells a shortage of machines and a used-up quota from the rest."""

    def __init__(self, message: str, *, operation_id: str, code: str = "", reason: Reason = "other") -> None:
        super().__init__(message)
        self.operation_id = operation_id
        self.code = code
        self.reason: Reason = reason


class OperationExpired(CrusoeError):
    """The API no longer knows the operation, so its end has to be read from the object itself."""

    def __init__(self, message: str, *, operation_id: str) -> None:
        super().__init__(message)
        self.operation_id = operation_id


class OperationTimeout(CrusoeError):
    """An operation did not end in the time it was given; it goes on in the cloud."""

    def __init__(self, message: str, *, operation_id: str, state: str) -> None:
        super().__init__(message)
        self.operation_id = operation_id
        self.state = state
