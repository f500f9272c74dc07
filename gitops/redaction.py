"""Taking secrets out of property values, and naming what is not known yet.

The engine blinds what it knows to be secret. That is not all: a Kubernetes Secret that was edited by hand comes back
in clear, a value may be secret on one side of a change only, and a program may pass on a key without marking it. So a
value is hidden when any of these holds:

* it is secret in the inputs or outputs of either side of the step;
* it is `data` or `stringData` of a Kubernetes Secret;
* its name says so (`password`, `kubeconfig`, ...), or its text holds a private key.

What was hidden in clear is remembered, and taken out of messages too, also in base64 and as JSON would write it.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from typing import cast

from crusoe.rules.values import items, table, text
from gitops.events import Properties, State, Step

SECRET = "[secret]"  # noqa: S105 - what stands in a secret's place
UNKNOWN = "[unknown]"

# Signatures and sentinels: sdk/go/common/resource/sig/sig.go of Pulumi 3.274.
_KEY = "4dabf18193072939515e22adb298388d"
_SECRET = "1b47061264138c4ac30d75fd1eb44270"  # noqa: S105 - a public signature
_REFERENCE = "5cf8f73096256a8f31e491e813e4eb8e"
_OUTPUT = "d0e6a833031e9bbcd3f4e8bde6ca49a4"
_BYTES = "803fd3297a5875dc03ca845dda5d2a98"
_UNKNOWN = re.compile(
    "1c4a061d-8072-4f0a-a4cb-0ff528b18fe7|3eeb2bf0-c639-47a8-9e75-3b44932eb421|04da6b54-80e4-46f7-96ec-b56ff0331ba9"
    "|6a19a0b0-7e62-4c92-b797-7f8e31da9cc2|030794c1-ac77-496b-92df-f27374a8bd58|e48ece36-62e2-4504-bad9-02848725956a"
    "|dd056dcd-154b-4c76-9bd3-c8f88648b5ff"
)

_SENTINEL = 36
"""Characters of a sentinel."""

_NAMES = re.compile(
    r"(pass(word|wd|phrase)|secret[-_]?key|private[-_]?key|access[-_]?key|api[-_]?key|client[-_]?key([-_]?data)?"
    r"|kubeconfig|token|credentials?)$",
    re.IGNORECASE,
)
_PRIVATE = re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY|LS0tLS1CRUdJTi[A-Za-z0-9+/=]{16,}|client-key-data")
_LOGIN = re.compile(r"(?<=://)[^/\s:@]*:[^/\s@]+(?=@)")
_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"

REMEMBERED = 8
"""A hidden text of fewer characters is not searched for in messages: it might be any word."""

Path = tuple[str, ...]
"""Where a value is; every item of a list is `*`, so that one that moved is hidden in its new place too."""


def _is(value: object, signature: str) -> bool:
    return isinstance(value, dict) and cast("dict[str, object]", value).get(_KEY) == signature


def _is_secret(value: object) -> bool:
    return _is(value, _SECRET) or (_is(value, _OUTPUT) and table(value).get("secret") is True)


def is_unknown(value: object) -> bool:
    """Whether a value is not known before it is made."""
    if _is(value, _OUTPUT):
        return "value" not in table(value)
    return isinstance(value, str) and _UNKNOWN.fullmatch(value) is not None


def _inside(value: object) -> Iterator[tuple[str, object]]:
    """What a value holds, by name, the items of a list by `*`."""
    if isinstance(value, list):
        yield from (("*", item) for item in cast("list[object]", value))
    elif _is(value, _OUTPUT):
        yield from _inside(table(value).get("value"))
    else:
        yield from table(value).items()


def secret_paths(kind: str, value: object, at: Path = ()) -> set[Path]:
    """Return where a resource's properties hold what must not be shown."""
    if _speaks_of_secret(kind, value, at) or _is_secret(value):
        return {at}
    if not isinstance(value, dict | list):
        return set()
    within = _inside(cast("object", value))
    return {path for name, inner in within for path in secret_paths(kind, inner, (*at, name))}


def _speaks_of_secret(kind: str, value: object, at: Path) -> bool:
    if kind.startswith("kubernetes:core/v1:Secret") and at in (("data",), ("stringData",)):
        # Each entry by itself, so that the report can say which key changed.
        return not isinstance(value, dict)
    if kind.startswith("kubernetes:core/v1:Secret") and at[:1] in (("data",), ("stringData",)) and len(at) == 2:
        return True
    if at and at[-1] == _LAST_APPLIED:
        return True
    if not isinstance(value, str) or not value:
        return False
    return bool(at and _NAMES.search(at[-1])) or _PRIVATE.search(value) is not None


class Redactor:
    """Hides what is secret in one preview's steps, then in everything that was said."""

    def __init__(self) -> None:
        self._hidden: set[str] = set()

    def states(self, step: Step) -> tuple[State | None, State | None]:
        """Return both sides of a step with nothing secret in them."""
        sides = [side for side in (step.old, step.new) if side]
        paths = {
            path for side in sides for group in (side.inputs, side.outputs) for path in secret_paths(step.type, group)
        }
        old, new = (side and self._state(side, paths) for side in (step.old, step.new))
        return old, new

    def _state(self, state: State, paths: set[Path]) -> State:
        return State(
            inputs=cast("Properties", self._value(state.inputs, (), paths)),
            outputs=cast("Properties", self._value(state.outputs, (), paths)),
            id=_UNKNOWN.sub(UNKNOWN, state.id),
            parent=state.parent,
            custom=state.custom,
            protect=state.protect,
            retained=state.retained,
        )

    def _value(self, value: object, at: Path, paths: set[Path]) -> object:
        if at in paths:
            self._remember(value)
            return SECRET
        if isinstance(value, str):
            return UNKNOWN if is_unknown(value) else self._plain(value)
        if isinstance(value, list):
            return [self._value(item, (*at, "*"), paths) for item in cast("list[object]", value)]
        if isinstance(value, Mapping):
            found = table(cast("object", value))
            if _KEY in found:
                return UNKNOWN if is_unknown(found) else self._special(found, at, paths)
            return {name: self._value(item, (*at, name), paths) for name, item in found.items()}
        return value

    def _special(self, value: Mapping[str, object], at: Path, paths: set[Path]) -> object:
        if _is(value, _OUTPUT):
            return self._value(value.get("value"), at, paths)
        if _is(value, _REFERENCE):
            return f"[resource {text(value.get('urn')) or ''}]"
        if _is(value, _BYTES):
            return "[bytes]"
        # An asset or an archive: its contents may be long and may be anything.
        digest = text(value.get("hash"))
        return f"[file {digest[:12]}]" if digest else "[file]"

    def _plain(self, value: str) -> str:
        def hide(match: re.Match[str]) -> str:
            self._remember(match[0].partition(":")[2])
            return SECRET

        shown = _LOGIN.sub(hide, value) if "://" in value else value
        return _UNKNOWN.sub(UNKNOWN, shown) if len(shown) > _SENTINEL else shown

    def _remember(self, value: object) -> None:
        for leaf in _texts(value):
            if len(leaf) >= REMEMBERED and leaf != SECRET and not is_unknown(leaf):
                self._hidden.update(_forms(leaf))
                if decoded := _decoded(leaf):
                    self._hidden.update(_forms(decoded))

    @cached_property
    def _forms(self) -> list[str]:
        # The longest first: one may be a part of another.
        return sorted(self._hidden, key=lambda each: (-len(each), each))

    def message(self, said: str) -> str:
        """Return a text without what was hidden in the steps, and without private keys and passwords in it.

        To be asked once all steps were read.
        """
        kept = said
        for form in self._forms:
            if form in kept:
                kept = kept.replace(form, SECRET)
        if _PRIVATE.search(kept):
            return f"{SECRET} (a message with a private key in it)"
        return _LOGIN.sub(SECRET, kept)


def _texts(value: object) -> Iterator[str]:
    """The texts inside of a hidden value, with those that a secret's own envelope may carry in clear."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield str(value)
    elif isinstance(value, Mapping):
        for name, item in table(cast("object", value)).items():
            if name == "plaintext" and isinstance(item, str):
                # The engine writes it as JSON.
                yield from _loaded(item)
            if name not in (_KEY, "dependencies"):
                yield from _texts(item)
    else:
        for item in items(value):
            yield from _texts(item)


def _loaded(plaintext: str) -> Iterable[str]:
    try:
        return _texts(json.loads(plaintext))
    except ValueError:
        return ()


def _forms(value: str) -> set[str]:
    """How a text may be written: as it is, as JSON writes it, in base64, and line by line."""
    lines = {line.strip() for line in value.splitlines()} if "\n" in value else set[str]()
    raw = value.encode("utf-8", "surrogatepass")
    encoded = {base64.b64encode(raw).decode(), base64.urlsafe_b64encode(raw).decode()}
    found = {value, json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1], *lines, *encoded}
    bare = {each.rstrip("=") for each in encoded}
    return {each for each in found | bare if len(each) >= REMEMBERED}


def _decoded(value: str) -> str:
    try:
        return base64.b64decode(value, validate=True).decode()
    except ValueError:
        return ""
