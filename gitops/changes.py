"""From the engine's steps to what happens to each resource, property by property, with nothing secret left in it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from gitops import paths, urns
from gitops.events import Properties, State, Step
from gitops.model import Change, Op, Property
from gitops.parts import STACK, Parts
from gitops.parts import order as part_order
from gitops.redaction import UNKNOWN, Redactor

LONGEST = 2000
"""Characters of a value that a report keeps."""

_REPLACING = {"replace", "create-replacement", "delete-replaced", "import-replacement"}
_OPS = {
    "create": Op.CREATE,
    "update": Op.UPDATE,
    "delete": Op.DELETE,
    "import": Op.ADOPT,
    "discard": Op.FORGET,
    "same": Op.SAME,
}
# Reads change nothing, and the rest is a step of a replacement that has others.
_ORDER = list(Op)


@dataclass(frozen=True)
class Resource:
    """One resource in a plan: what happens to it, and both sides of it, with nothing secret in them.

    `custom` is false for components. The side that there is not is None: `old` of what is created, `new` of what goes.
    """

    urn: str
    type: str
    name: str
    part: str
    op: Op
    custom: bool
    old: State | None
    new: State | None
    properties: tuple[Property, ...] = ()

    @property
    def protected(self) -> bool:
        """Pulumi refuses to delete or to replace it, unless it is told to ignore that."""
        if self.old is None:
            return False
        return self.old.protect and (self.op is Op.DELETE or (self.new is not None and self.new.protect))

    @property
    def before(self) -> Properties:
        """What it is now: its outputs, under them its inputs."""
        return {**self.old.inputs, **self.old.outputs} if self.old else {}

    @property
    def after(self) -> Properties:
        """What it is declared to be."""
        return self.new.inputs if self.new else {}

    def change(self) -> Change:
        """Return what a report says of it."""
        return Change(
            urn=self.urn,
            name=self.name,
            type=self.type,
            part=self.part,
            op=self.op,
            protected=self.protected,
            properties=self.properties,
        )


def resources(steps: Iterable[Step], redactor: Redactor) -> list[Resource]:
    """Return every resource of a plan but the stack itself: by part, the gravest first, then by name."""
    grouped: dict[str, list[Step]] = {}
    for step in steps:
        if step.type != STACK and (step.op in _OPS or step.op in _REPLACING):
            grouped.setdefault(step.urn, []).append(step)
    parts = Parts(urns.parse(urn) for urn, of_one in grouped.items() if not _is_custom(of_one))
    # What an earlier replacement has left: where the resource itself is in the plan, its loss was told back then.
    told = {urn: [step for step in of_one if not step.is_left_over] or of_one for urn, of_one in grouped.items()}
    found = [_resource(urn, of_one, parts, redactor) for urn, of_one in told.items()]
    return sorted(found, key=lambda each: (part_order(each.part), _ORDER.index(each.op), each.name, each.urn))


def _is_custom(steps: Sequence[Step]) -> bool:
    return any(side.custom for step in steps for side in (step.old, step.new) if side)


def _resource(urn: str, steps: Sequence[Step], parts: Parts, redactor: Redactor) -> Resource:
    parsed = urns.parse(urn)
    op = _op(steps)
    # The step with both sides tells the difference; each side by itself may come from another one.
    telling = max(steps, key=lambda step: (step.op == "replace", bool(step.old and step.new), bool(step.detailed)))
    old = next((step.old for step in (telling, *steps) if step.old), None) if op is not Op.CREATE else None
    new = None if op in (Op.DELETE, Op.FORGET) else next((step.new for step in (telling, *steps) if step.new), None)
    whole = Step(telling.op, urn, telling.type, old, new, telling.keys, telling.diffs, telling.detailed)
    shown_old, shown_new = redactor.states(whole)
    return Resource(
        urn=urn,
        type=parsed.type,
        name=parsed.name,
        part=parts.of(parsed),
        op=op,
        custom=_is_custom(steps),
        old=shown_old,
        new=shown_new,
        properties=tuple(_properties(whole, op, shown_old, shown_new)),
    )


def _op(steps: Sequence[Step]) -> Op:
    ops = {step.op for step in steps}
    # Without its creation a replacement is a deletion: the resource is one that is gone from the program.
    if ops & _REPLACING and ops != {"delete-replaced"}:
        return Op.REPLACE
    if ops == {"delete-replaced"}:
        return Op.DELETE
    op = min((_OPS[each] for each in ops), key=_ORDER.index)
    retained = any(step.old and step.old.retained for step in steps)
    return Op.FORGET if op is Op.DELETE and retained else op


def _properties(step: Step, op: Op, old: State | None, new: State | None) -> Iterator[Property]:
    if op is Op.SAME or new is None:
        return
    if old is None:
        for name, value in sorted(new.inputs.items()):
            if not name.startswith("__"):
                yield _property(name, paths.MISSING, value, replaces=False)
        return
    detailed = step.detailed
    if detailed is None:
        changed = sorted(paths.differences(old.inputs, new.inputs))
        first = [path for path in changed if not step.diffs or str(next(iter(paths.parse(path)), "")) in step.diffs]
        detailed = dict.fromkeys(first or step.diffs, ("update", True))
    for path, (kind, of_input) in sorted(detailed.items()):
        if path.startswith("__"):
            continue
        steps = paths.parse(path)
        if not steps:  # A provider's path that names nothing.
            continue
        before = paths.get(old.inputs if of_input else old.outputs, steps)
        if before is paths.MISSING:
            before = paths.get(old.outputs if of_input else old.inputs, steps)
        after = paths.get(new.inputs, steps)
        replaces = kind.endswith("-replace") or str(steps[0]) in step.keys
        # What the provider computes anew has no input.
        known = after is not paths.MISSING or kind.startswith("delete")
        yield _property(
            path,
            paths.MISSING if kind.startswith("add") else before,
            after if known else paths.get(new.outputs, steps),
            replaces=replaces,
        )


def _property(path: str, old: object, new: object, *, replaces: bool) -> Property:
    shown = shown_text(new)
    return Property(
        path=path, old=shown_text(old), new=shown, replaces=replaces, unknown=shown is not None and UNKNOWN in shown
    )


def shown_text(value: object) -> str | None:
    """Return a value as one line of JSON, None where there is none; hidden and unknown ones without quotes."""
    if value is paths.MISSING:
        return None
    written = json.dumps(value, ensure_ascii=False, sort_keys=True)
    for word in ('"[secret]"', '"[unknown]"'):
        written = written.replace(word, word.strip('"'))
    return written if len(written) <= LONGEST else f"{written[:LONGEST]}… ({len(written):,} characters)"
