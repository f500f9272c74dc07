"""Reading the engine's events: what one `pulumi preview --json` prints with PULUMI_ENABLE_STREAMING_JSON_PREVIEW.

Without that variable the CLI prints one digest instead, which leaves out what policies said and whether the preview
ended well. The events hold both, and property values with secrets blinded (`[secret]`). Shapes: `EngineEvent` in
`sdk/go/common/apitype/events.go` of Pulumi 3.274. They carry no version of their own, so a stream is known by what it
must hold: a last summary with `isPreview` and `result`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, cast

from crusoe.rules.values import items, table, text

_COLOURS = re.compile(r"\x1b\[[0-9;]*[mK]|<\{%[^%]*%\}>")

Properties = Mapping[str, object]


class OtherFormatError(ValueError):
    """These are not the events of a preview as this program knows them."""


@dataclass(frozen=True, slots=True)
class State:
    """A resource on one side of a step, as the engine tells it: its properties may still hold what is to be hidden.

    `left_over` is what an earlier replacement has not deleted yet; the resource itself is another one.
    """

    inputs: Properties
    outputs: Properties
    id: str
    parent: str
    custom: bool
    protect: bool
    retained: bool
    left_over: bool = False


@dataclass(frozen=True, slots=True)
class Step:
    """One step of the plan.

    Attributes:
        op: `same`, `create`, `update`, `delete`, `replace`, `create-replacement`, `delete-replaced`, `import`, ...
        keys: properties that force a replacement.
        diffs: properties that change, by their first names.
        detailed: path of each changed property to (`add`, `update-replace`, ..., whether it is the input's); None when
            the provider gave no details.
    """

    op: str
    urn: str
    type: str
    old: State | None
    new: State | None
    keys: tuple[str, ...]
    diffs: tuple[str, ...]
    detailed: Mapping[str, tuple[str, bool]] | None

    @property
    def is_left_over(self) -> bool:
        """Whether it deletes what an earlier replacement has left."""
        return self.old is not None and self.old.left_over and self.new is None


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """Something that the program, a provider or the engine said.

    `severity` is `info`, `info#err` (the program's standard error), `warning` or `error`.
    """

    urn: str
    severity: str
    message: str


@dataclass(frozen=True, slots=True)
class Violation:
    """What one policy has against a resource; one with exceptions does not stop the update."""

    urn: str
    pack: str
    policy: str
    level: str
    message: str
    exceptions: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Preview:
    """Everything that one preview said, in its order.

    Attributes:
        result: `succeeded`, `failed` or `canceled`; None when it ended before it came to a result.
        packs: policy packs that ran, name to version.
        said: what the CLI printed beside events.
    """

    steps: tuple[Step, ...] = ()
    diagnostics: tuple[Diagnostic, ...] = ()
    violations: tuple[Violation, ...] = ()
    result: str | None = None
    seconds: int = 0
    packs: Mapping[str, str] = field(default_factory=dict[str, str])
    said: tuple[str, ...] = ()


def read(lines: Iterable[str]) -> Preview:
    """Return what the events say.

    Raises:
        OtherFormatError: there is a digest, an update or something else where a preview's events should be.
    """
    steps: dict[tuple[str, str, bool], Step] = {}
    diagnostics: list[Diagnostic] = []
    violations: list[Violation] = []
    said: list[str] = []
    refreshing: set[str] = set()
    summary: Mapping[str, object] = {}
    seen = False
    for line in lines:
        if not line.strip() or _is_debug(line):
            continue
        event = _event(line)
        if event is None:
            said.append(line.rstrip())
            continue
        seen = True
        if begun := event.get("resourcePreEvent"):
            step = _step(begun)
            if step.op == "refresh":
                refreshing.add(step.urn)
            else:
                steps[step.urn, step.op, step.is_left_over] = step
        elif ended := event.get("resOutputsEvent"):
            step = _step(ended)
            # What a refresh found is the state that the plan starts from, and no step of the plan.
            if step.urn in refreshing:
                refreshing.remove(step.urn)
            else:
                # Again with more known of the outputs.
                steps[step.urn, step.op, step.is_left_over] = step
        elif diagnostic := event.get("diagnosticEvent"):
            diagnostics += _diagnostic(table(diagnostic))
        elif violation := event.get("policyEvent"):
            violations.append(_violation(table(violation)))
        elif error := event.get("errorEvent"):
            diagnostics.append(Diagnostic("", "error", clean(table(error).get("error"))))
        elif end := event.get("summaryEvent"):
            summary = table(end)
    if not seen and _is_digest(said):
        raise OtherFormatError(
            "this is the digest of `pulumi preview --json`, which leaves out what policies say; a report needs the "
            "events (PULUMI_ENABLE_STREAMING_JSON_PREVIEW=true)"
        )
    if summary and (summary.get("isPreview") is not True or text(summary.get("result")) is None):
        raise OtherFormatError(
            "the events are of an update and not of a preview"
            if summary.get("isPreview") is False
            else "the events' summary lacks isPreview or result, so another version of Pulumi wrote them"
        )
    return Preview(
        steps=tuple(steps.values()),
        diagnostics=tuple(dict.fromkeys(diagnostics)),
        violations=tuple(violations),
        result=text(summary.get("result")),
        seconds=int(cast("int", summary.get("durationSeconds", 0))),
        packs={name: str(version) for name, version in table(summary.get("PolicyPacks")).items()},
        said=tuple(said),
    )


def with_more(preview: Preview, said: Iterable[str]) -> Preview:
    """Return a preview with what the CLI said elsewhere."""
    return replace(preview, said=(*preview.said, *said))


def _is_debug(line: str) -> bool:
    """The engine logs each of its own moves as an event; they are most of the stream."""
    return '"diagnosticEvent"' in line[:80] and '"severity":"debug"' in line


def _event(line: str) -> Mapping[str, Any] | None:
    if not line.startswith("{"):
        return None
    try:
        event = table(json.loads(line))
    except ValueError:
        return None
    return event if "sequence" in event else None


def _is_digest(said: list[str]) -> bool:
    try:
        digest = table(json.loads("\n".join(said)))
    except ValueError:
        return False
    return "steps" in digest or "changeSummary" in digest


_AFTERWARDS = "Resource monitor has terminated, shutting down"
"""What a program says when the engine has given up before it, or not, as it happens; the reason is told by another."""


def clean(message: object) -> str:
    """Return a message without colours and spaces at its ends."""
    return _COLOURS.sub("", str(message or "")).strip()


def _diagnostic(event: Mapping[str, object]) -> Iterable[Diagnostic]:
    message = clean(event.get("message"))
    if message and message != _AFTERWARDS and not event.get("ephemeral"):
        yield Diagnostic(str(event.get("urn") or ""), str(event.get("severity")), message)


def _violation(event: Mapping[str, object]) -> Violation:
    exceptions = tuple(
        (str(table(one).get("id")), str(table(one).get("reason"))) for one in items(event.get("exceptions"))
    )
    return Violation(
        urn=str(event.get("resourceUrn") or ""),
        pack=str(event.get("policyPackName") or ""),
        policy=str(event.get("policyName") or ""),
        level=str(event.get("enforcementLevel") or ""),
        message=clean(event.get("message")),
        exceptions=exceptions,
    )


def _step(event: object) -> Step:
    metadata = table(table(event).get("metadata"))
    detailed = metadata.get("detailedDiff")
    return Step(
        op=str(metadata.get("op")),
        urn=str(metadata.get("urn")),
        type=str(metadata.get("type")),
        old=_state(metadata.get("old")),
        new=_state(metadata.get("new")),
        keys=tuple(str(key) for key in items(metadata.get("keys"))),
        diffs=tuple(str(key) for key in items(metadata.get("diffs"))),
        detailed=None
        if detailed is None
        else {
            path: (str(table(one).get("diffKind")), table(one).get("inputDiff") is True)
            for path, one in table(detailed).items()
        },
    )


def _state(value: object) -> State | None:
    if value is None:
        return None
    state = table(value)
    return State(
        inputs=table(state.get("inputs")),
        outputs=table(state.get("outputs")),
        id=str(state.get("id") or ""),
        parent=str(state.get("parent") or ""),
        custom=state.get("custom") is True,
        protect=state.get("protect") is True,
        retained=state.get("retainOnDelete") is True,
        left_over=state.get("delete") is True,
    )
