"""What a report holds. These models are also its JSON form: camelCase there, and read back from it whole."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

FORMAT = 1
"""Version of the JSON form. It grows with each change that an older reader would misread."""


class _Model(BaseModel):
    model_config = ConfigDict(
        frozen=True, extra="forbid", alias_generator=to_camel, populate_by_name=True, hide_input_in_errors=True
    )


class Op(StrEnum):
    """What happens to a resource."""

    DELETE = "delete"
    REPLACE = "replace"
    FORGET = "forget"
    """It leaves the state and stays in the cloud (retainOnDelete, or it was only read)."""
    UPDATE = "update"
    CREATE = "create"
    ADOPT = "adopt"
    """An existing one is imported."""
    SAME = "same"


class Property(_Model):
    """One property that changes.

    `old` and `new` are JSON text, with `[secret]` for what is hidden and `[unknown]` for what is not known before it
    is made; None where there is none.
    """

    path: str
    old: str | None
    new: str | None
    replaces: bool = False
    unknown: bool = False


class Change(_Model):
    """What happens to one resource. `part` is the part of the platform that it belongs to."""

    urn: str
    name: str
    type: str
    part: str
    op: Op
    protected: bool = False
    properties: tuple[Property, ...] = ()


class Range(_Model):
    """A number that an autoscaler may choose: `low` and `high` are equal where nothing does."""

    low: int = 0
    high: int = 0

    def __add__(self, other: Range) -> Range:
        """Return the sum of both ends."""
        return Range(low=self.low + other.low, high=self.high + other.high)

    def __str__(self) -> str:
        """`32`, or `8 to 32`."""
        return f"{self.low}" if self.low == self.high else f"{self.low} to {self.high}"


class Gpus(_Model):
    """GPUs of one VM type before and after. `vms` counts whole hosts where `whole_host`, else slices of hosts.

    `gpus_before` and `gpus_after` are None where the catalogue does not know the type.
    """

    type: str
    whole_host: bool
    vms_before: Range
    vms_after: Range
    gpus_before: Range | None
    gpus_after: Range | None
    pools: tuple[str, ...] = ()
    """Names of the pools that change."""


class Loss(_Model):
    """Something whose replacement or deletion can't be taken back.

    Attributes:
        what: `cluster`, `GPU pool`, `NodeSet`, `disk` or `key`.
        lost: what is lost with it.
        approve: the way to approve it, or to do without.
        approved_by: what has approved it already, None where nothing has.
        blocked: Pulumi will refuse it, since it is protected.
    """

    what: str
    name: str
    urn: str
    op: Op
    lost: str
    approve: str
    approved_by: str | None = None
    blocked: bool = False


class Repair(_Model):
    """What AutoClusters does about an issue (CMK v1) or for a pool (CMK v2), before and after."""

    subject: str
    old: str | None
    new: str | None


class Reader(_Model):
    """An object of the plan that reads a Secret; `restarts` where the plan changes it as well."""

    kind: str
    name: str
    restarts: bool


class SecretChange(_Model):
    """A Kubernetes Secret that changes: which of its keys, and who reads it. Never a value."""

    namespace: str
    name: str
    keys: tuple[str, ...]
    readers: tuple[Reader, ...] = ()


class PolicyResult(_Model):
    """What one policy says of one resource, or the exception that lets it pass."""

    name: str
    urn: str
    pack: str
    policy: str
    level: str
    message: str
    exceptions: tuple[str, ...] = ()


class Problem(_Model):
    """An error or a warning of the program, a provider or the engine."""

    severity: Literal["error", "warning"]
    name: str
    message: str


class Outcome(StrEnum):
    """The verdict in one word; `EXIT_CODES` of verdict.py has the number for each."""

    SAFE = "safe"
    DRIFT = "drift"
    NEEDS_APPROVAL = "needs-approval"
    REFUSED = "refused"
    FAILED = "preview-failed"
    NO_STACK = "no-such-stack"
    NO_CREDENTIALS = "no-credentials"
    OTHER_VERSION = "other-version"


class Verdict(_Model):
    """The outcome, the exit code for it, and the reasons in sentences.

    `label` is what approves exactly these losses, None where there is nothing to approve.
    """

    outcome: Outcome
    exit_code: int
    reasons: tuple[str, ...] = ()
    label: str | None = None


class Report(_Model):
    """Everything that a reviewer is told about one preview of one stack."""

    format: Annotated[int, Field(strict=True)] = FORMAT
    project: str
    stack: str
    verdict: Verdict
    counts: Mapping[Op, int] = {}
    changes: tuple[Change, ...] = ()
    gpus: tuple[Gpus, ...] = ()
    losses: tuple[Loss, ...] = ()
    repairs: tuple[Repair, ...] = ()
    secrets: tuple[SecretChange, ...] = ()
    packs: Mapping[str, str] = {}
    policies: tuple[PolicyResult, ...] = ()
    problems: tuple[Problem, ...] = ()
    seconds: int = 0
    """What the preview itself took."""
