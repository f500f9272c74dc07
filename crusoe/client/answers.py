"""From an HTTP answer to a JSON object or a typed error; pure functions over status, headers and bytes."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, cast

from crusoe.client import errors
from crusoe.client.errors import ApiError, CapacityError, MalformedAnswer, QuotaError, Reason, ServerError

if TYPE_CHECKING:
    from collections.abc import Mapping

JsonObject = dict[str, object]

CLOCK_TOLERANCE = 60.0
"""Seconds by which the clocks may differ before a refused signature is blamed on them; the real limit is not known."""

LONGEST_MESSAGE = 600
"""Characters of an API message that are shown."""

_QUOTA = re.compile(
    r"INSUFFICIENT_QUOTA|\bquotas?\b.*(?:exceed|insufficient|limit|reach|max|enough|allow|available|used|\bover\b|full)"
    r"|(?:exceed|insufficient|limit|reach|max|enough|over|beyond|out of)\w*\b.*\bquotas?\b",
    re.IGNORECASE,
)
_CAPACITY = re.compile(
    r"out of (?:host |gpu |)(?:capacity|stock|hosts)"
    r"|(?:insufficient|not enough|no|lack of)[ _](?:\w+ )?(?:capacity|hosts|stock)"
    r"|capacity (?:is |was |are |)(?:exhausted|unavailable|not available|insufficient)"
    r"|(?:exceeds?|exceeded) (?:the )?(?:available |current )?capacity",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Request:
    """A request as it is signed: `path` unescaped and without the endpoint's base path, `query` canonical."""

    method: str
    path: str
    query: str = ""
    body: bytes | None = None

    @property
    def changes(self) -> bool:
        """Say whether carrying it out may change something."""
        return self.method != "GET"

    def __str__(self) -> str:
        """Name the request in messages, without the project's part of the path."""
        parts = self.path.strip("/").split("/")
        shown = parts[2:] if parts[0] == "projects" and len(parts) > 2 else parts
        return f"{self.method} {'/'.join(shown)}"


@dataclass(frozen=True, slots=True)
class Answer:
    """An HTTP answer: lower-case header names, the whole body."""

    status: int
    headers: Mapping[str, str]
    body: bytes


def reason_of(message: str, code: str = "") -> Reason:
    """Tell a shortage of machines from a used-up quota by the API's own words; the status says neither.

    Crusoe names both `INSUFFICIENT_CAPACITY` and `INSUFFICIENT_QUOTA` in a node pool's health; its support articles
    quote "insufficient capacity" and "out of stock". A message that speaks of both is about the quota: a quota can be
    raised, so blaming the stock would send the user the wrong way.
    """
    text = f"{code} {message}"
    if _QUOTA.search(text):
        return "quota"
    return "capacity" if _CAPACITY.search(text) else "other"


def as_object(value: object) -> JsonObject:
    """Return `value` when it is a JSON object, an empty one otherwise."""
    return cast("JsonObject", value) if isinstance(value, dict) else {}


def clean(text: object) -> str:
    """Return API text as one line without control characters, without the gRPC preamble, and not endless.

    What follows ` desc = ` is the part meant for users, when it occurs once; Crusoe's own tools cut there too.
    """
    if not isinstance(text, str):
        return ""
    before, mark, after = text.partition(" desc = ")
    shown = after if mark and " desc = " not in after else text if mark else before
    line = " ".join("".join(char if char.isprintable() else " " for char in shown).split())
    return line if len(line) <= LONGEST_MESSAGE else line[: LONGEST_MESSAGE - 1] + "…"


def decode(answer: Answer, request: Request) -> JsonObject:
    """Return the JSON object of a successful answer; `{}` for a DELETE that is answered with anything else.

    The content type is not asked for: a body that is a JSON object is taken as one.

    Raises:
        MalformedAnswer: no JSON object, which would silently read as an object without fields.
    """
    value = _json(answer.body)
    if isinstance(value, dict):
        return cast("JsonObject", value)
    if request.method == "DELETE":
        return {}
    kind = clean(answer.headers.get("content-type", "").partition(";")[0]) or "unlabelled data"
    found = "an empty body" if not answer.body.strip() else f"{kind} that is not a JSON object"
    raise MalformedAnswer(
        f"{request}: the API answered HTTP {answer.status} with {found}; check that the endpoint is Crusoe's API.",
        answer_lost=request.changes,
    )


def error_of(answer: Answer, request: Request, now: datetime, *, key: str) -> errors.CrusoeError:
    """Return the typed error for an answer that is not a success; `key` says where the access key comes from."""
    fields = as_object(_json(answer.body))
    code, message = clean(fields.get("code")), clean(fields.get("message"))
    error_id = clean(fields.get("error_id")) or None
    if 300 <= answer.status < 400:
        return MalformedAnswer(
            f"{request}: the endpoint answered with a redirect (HTTP {answer.status}), which Crusoe's API never does;"
            " correct the endpoint.",
            answer_lost=False,
        )
    if answer.status == 404 and not (code or message):
        # A proxy's or another server's 404 must never read as "the object is gone".
        return MalformedAnswer(
            f"{request}: HTTP 404 that is not from Crusoe's API; check the endpoint, its base path included.",
            answer_lost=False,
        )
    kind = _class_of(answer.status, message, code)
    error = kind(
        answer.status,
        code,
        message or "no reason given",
        error_id,
        request=str(request),
        retry_after=retry_after(answer.headers.get("retry-after"), now),
        # What helps against a shortage or a quota depends on what was asked for, which whoever asked knows.
        hint="" if kind in {CapacityError, QuotaError} else _hint(answer, request, now, key, error_id),
    )
    if isinstance(error, ServerError):
        error.answer_lost = request.changes
    if isinstance(error, QuotaError):
        error.quota, error.used, error.limit = quota_numbers(message)
    return error


def quota_numbers(message: str) -> tuple[str | None, int | None, int | None]:
    """Return name, use and limit of a quota as far as a message has them; the API fixes no wording.

    A quota's name is one word with a digit or hyphen in it, such as a VM family or a disk type, beside the word quota.
    """
    word = r"['\"`]?((?=[\w.]*[-\d])\w[\w.-]*\w)['\"`]?"
    name = _first(message, rf"quotas?[ :]+(?:of |for |named |on )?{word}", rf"{word} quota")
    share = re.search(r"(\d+) ?(?:/|(?:out )?of) ?(\d+)", message)
    used = _first(message, r"(?:used|usage|using|in use)\D{0,3}(\d+)", r"(\d+) (?:are |is |)(?:used|in use)")
    limit = _first(message, r"(?:limit|max|maximum)\D{0,8}(\d+)")
    if share:
        used, limit = share[1], share[2]
    return name, int(used) if used else None, int(limit) if limit else None


def _first(text: str, *patterns: str) -> str | None:
    found = (re.search(pattern, text, re.IGNORECASE) for pattern in patterns)
    return next((match[1] for match in found if match), None)


def retry_after(value: str | None, now: datetime) -> float | None:
    """Return the seconds of a Retry-After header (seconds or a date), None when absent or unreadable."""
    if value is None:
        return None
    text = value.strip()
    if re.fullmatch(r"\d{1,9}", text):
        return float(text)
    date = _http_date(text)
    return max(0.0, (date - now).total_seconds()) if date else None


def clock_offset(date: str | None, now: datetime) -> float | None:
    """Return by how many seconds this machine's clock is ahead of the answer's Date header (negative: behind)."""
    server = _http_date(date) if date else None
    return (now - server).total_seconds() if server else None


def _http_date(text: str) -> datetime | None:
    from email.utils import parsedate_to_datetime

    try:
        date = parsedate_to_datetime(text)
    except ValueError:
        return None
    return date if date.tzinfo else date.replace(tzinfo=UTC)


def _json(body: bytes) -> object:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None


def _class_of(status: int, message: str, code: str) -> type[ApiError]:
    if status not in {401, 404}:
        reason = reason_of(message, code)
        if reason != "other":
            return QuotaError if reason == "quota" else CapacityError
    named: dict[int, type[ApiError]] = {
        400: errors.BadRequest,
        401: errors.Unauthorized,
        403: errors.Forbidden,
        404: errors.NotFound,
        409: errors.Conflict,
        422: errors.BadRequest,
        429: errors.RateLimited,
    }
    return named.get(status, ServerError if status >= 500 else ApiError)


_HINTS = {
    400: "Correct what it names, then run the same command again.",
    404: "Run `pulumi refresh`, then the same command again.",
    409: "Something else has its name or works on it: see to that, or run the same command again later.",
    422: "Correct what it names, then run the same command again.",
    429: "Run the same command again later.",
}
"""What to do about a refusal, by its status; 401, 403 and 5xx depend on more."""


def _hint(answer: Answer, request: Request, now: datetime, key: str, error_id: str | None) -> str:
    if answer.status == 401:
        offset = clock_offset(answer.headers.get("date"), now)
        if offset is not None and abs(offset) > CLOCK_TOLERANCE:
            return f"This machine's clock is {_span(abs(offset))} {'ahead' if offset > 0 else 'behind'}: set it right."
        return f"Check the access key ({key}): its id, its secret, and that it belongs to this endpoint."
    if answer.status == 403:
        return f"Check that the access key ({key}) belongs to the stack's project and may do this."
    if answer.status >= 500:
        support = ", and give Crusoe's support the error id if it stays so" if error_id else ""
        return f"Run the same command again later{support}."
    if answer.status == 404 and request.path.lstrip("/").startswith("organizations/"):
        # Every endpoint has these.
        return "Check the endpoint, its base path included."
    return _HINTS.get(answer.status, "")


def _span(seconds: float) -> str:
    for unit, size in (("day", 86400), ("hour", 3600), ("minute", 60)):
        if seconds >= size:
            count = round(seconds / size)
            return f"{count} {unit}{'s' if count != 1 else ''}"
    return f"{round(seconds)} seconds"
