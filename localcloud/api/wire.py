"""What request and answer models share.

Requests are read strictly: a field that the API doesn't know, a missing one, or one of another JSON type (`"2"` or
`2.0` for an integer) is refused with its name. Answers are checked against their models before they leave, and only
the fields that were set are sent.
"""

import ipaddress
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints


class Body(BaseModel):
    """A request's body."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class Filters(BaseModel):
    """A request's query; values arrive as text, so they are converted."""

    model_config = ConfigDict(extra="forbid", frozen=True)


def absent() -> Any:  # noqa: ANN401  it stands in for a value of the field's own type
    """The default of an answer's field that is left out unless it is set."""
    return Field(default=None, exclude_if=_is_none)


def _is_none(value: object) -> bool:
    return value is None


class Answer(BaseModel):
    """An answer, or a part of one. Fields that are `absent()` by default may be missing."""

    model_config = ConfigDict(extra="forbid", strict=True)


class OperationView(Answer):
    """An asynchronous operation. `result` is the object, `{code, message}` of a failure, or null."""

    operation_id: str
    state: str
    metadata: dict[str, Any]
    result: Any
    started_at: str
    completed_at: str


class Started(Answer):
    """The answer to a call that goes on in the background."""

    operation: OperationView


class OperationList(Answer):
    """Operations of a family."""

    items: list[OperationView]


class ErrorView(Answer):
    """Any answer that isn't a success."""

    code: str
    message: str
    error_id: str = absent()
    reason: str = absent()


class Nothing(Answer):
    """An empty object."""


def network_cidr(text: str) -> str:
    """An IPv4 network in CIDR form without host bits; raises ValueError with what would be right."""
    try:
        interface = ipaddress.IPv4Interface(text)
    except ValueError:
        raise ValueError(f"{text!r} is not an IPv4 network such as 10.0.0.0/16") from None
    if "/" not in text or interface.ip != interface.network.network_address:
        raise ValueError(f"{text!r} has host bits set; the network is {interface.network}")
    return text


Name = Annotated[str, StringConstraints(min_length=1, max_length=255, pattern=r"^\S(.*\S)?$")]
Cidr = Annotated[str, AfterValidator(network_cidr)]


def overlap(one: str, other: str) -> bool:
    """Whether two CIDRs share an address."""
    return ipaddress.IPv4Network(one).overlaps(ipaddress.IPv4Network(other))


def within(inner: str, outer: str) -> bool:
    """Whether a CIDR lies whole inside another."""
    return ipaddress.IPv4Network(inner).subnet_of(ipaddress.IPv4Network(outer))
