"""What a policy is, and what it is given to judge."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal

from policies import values

if TYPE_CHECKING:
    from google.protobuf.struct_pb2 import Struct

    from crusoe.rules.finding import Finding

Level = Literal["advisory", "mandatory", "disabled"]
LEVELS: tuple[Level, ...] = ("advisory", "mandatory", "disabled")
DOCS = "docs/policies.md"

Parameters = Mapping[str, object]
NONE: Mapping[str, object] = MappingProxyType({})


class NotKnownError(Exception):
    """A policy needs a value that is not known before an `up`; `path` says which one."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.path = path


@dataclass(frozen=True, eq=False)
class Resource:
    """A resource as the program declares it.

    Attributes:
        type: its token, such as `crusoe:index:KubernetesNodePool`.
        name: the program's name for it.
        urn: its URN.
        inputs: its properties as the program gives them.
        protect: whether it is protected.
        delete_before_replace: None when the program leaves it to the provider.
        dependencies: URNs of the resources that each property comes from; in stack policies only.
        sent: the properties as the engine sent them, with secrets marked.
        unknown: paths that were read and are not known yet.
    """

    type: str
    name: str
    urn: str
    inputs: Mapping[str, object]
    protect: bool = False
    delete_before_replace: bool | None = None
    dependencies: Mapping[str, Sequence[str]] = field(default_factory=dict[str, Sequence[str]])
    sent: Struct | None = None
    unknown: list[str] = field(default_factory=list[str])

    @property
    def kind(self) -> str:
        """The last part of its token: `Deployment`, of a patch of one as well."""
        return self.type.rsplit(":", 1)[-1].removesuffix("Patch")

    @property
    def stack(self) -> str:
        """Name of its stack."""
        return self.urn.split("::", 1)[0].rsplit(":", 1)[-1]

    def has(self, *path: str | int) -> bool:
        """Say whether there is something at a path, known or not."""
        return values.at(self.inputs, *path) is not None

    def read(self, *path: str | int) -> object:
        """Return what is at a path, unknown values included.

        For rules that say nothing about a value that they can't judge: a policy that has read something unknown and
        found no fault says that it can't be checked yet.
        """
        value = values.at(self.inputs, *path)
        if unknown := values.unknown_within(value, values.spoken(path)):
            self.unknown.append(unknown)
        return value

    def known(self, *path: str | int) -> object:
        """Return what is at a path. Raises NotKnownError: for rules that mind a missing value."""
        value = values.at(self.inputs, *path)
        if unknown := values.unknown_within(value, values.spoken(path)):
            raise NotKnownError(unknown)
        return value


@dataclass(frozen=True)
class Stack:
    """All resources of a stack, at the end of a preview or an `up`."""

    resources: Sequence[Resource]

    def of(self, applies: Callable[[str], bool]) -> list[Resource]:
        """Return the resources of some types."""
        return [each for each in self.resources if applies(each.type)]

    @cached_property
    def by_urn(self) -> Mapping[str, Resource]:
        """Each resource by its URN."""
        return {each.urn: each for each in self.resources}

    def source(self, resource: Resource, key: str, applies: Callable[[str], bool]) -> Resource | None:
        """Return the resource of some types whose id a property holds: by its value, else by where it came from."""
        candidates = self.of(applies)
        value = values.at(resource.inputs, key)
        named = [each for each in candidates if isinstance(value, str) and each.inputs.get("id") == value]
        urns = resource.dependencies.get(key, ())
        found = named or [each for each in candidates if each.urn in urns]
        return found[0] if found else None


@dataclass(frozen=True)
class Example:
    """Resources of a small program, and in words what makes them good or bad.

    Each is `{type, name?, properties, protect?, deleteBeforeReplace?, from?}`; `from` maps a property to the name of
    the resource that it comes from.
    """

    says: str
    resources: tuple[Mapping[str, object], ...]
    stack: str = "dev"


def example(says: str, *resources: Mapping[str, object], stack: str = "dev") -> Example:
    """Return an example."""
    return Example(says, resources, stack)


@dataclass(frozen=True, kw_only=True)
class Policy:
    """One thing that is refused, or advised against.

    Attributes:
        name: in kebab-case; also its section in docs/policies.md.
        refuses: one sentence, in the present tense.
        why: what would happen.
        fix: what to write, with a concrete value.
        good, bad: an example each. Both are tested.
        level: what a fault means unless the configuration says otherwise.
        parameters: JSON schema of each value that the configuration may set, with its default.
    """

    name: str
    refuses: str
    why: str
    fix: str
    good: Example
    bad: Example
    level: Level = "mandatory"
    parameters: Mapping[str, Mapping[str, object]] = field(default_factory=dict[str, Mapping[str, object]])

    @property
    def url(self) -> str:
        """Where its section is."""
        return f"{DOCS}#{self.name}"

    def defaults(self) -> dict[str, object]:
        """Return its parameters' defaults."""
        return {key: schema["default"] for key, schema in self.parameters.items()}


@dataclass(frozen=True, kw_only=True)
class ResourcePolicy(Policy):
    """Judges one resource by its inputs, before the request is sent.

    Attributes:
        applies: whether it judges resources of a type.
        check: yields findings with paths below the resource.
    """

    applies: Callable[[str], bool]
    check: Callable[[Resource, Parameters], Iterable[Finding]]


@dataclass(frozen=True, kw_only=True)
class StackPolicy(Policy):
    """Judges resources against each other, at the end of a preview and at the end of an `up`.

    Attributes:
        check: yields findings, each with the resource that is at fault.
        already: what exists by then, where the preview was left out or could not know.
    """

    check: Callable[[Stack, Parameters], Iterable[tuple[Resource, Finding]]]
    already: str
