"""Reading URNs: `urn:pulumi:<stack>::<project>::<parent type>$...$<type>::<name>`."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Urn:
    """The parts of a URN; `ancestors` are the types of its parents, outermost first, without the stack itself."""

    stack: str
    project: str
    ancestors: tuple[str, ...]
    type: str
    name: str

    @property
    def kind(self) -> str:
        """The last part of the type: `KubernetesNodePool`."""
        return self.type.rpartition(":")[2]


def parse(urn: str) -> Urn:
    """Return the parts of a URN. A name may hold `::`. What is no URN is taken for a name."""
    pieces = urn.split("::", 3)
    if len(pieces) < 4 or not urn.startswith("urn:pulumi:"):
        return Urn("", "", (), "", urn)
    head, project, types, name = pieces
    *ancestors, own = types.split("$")
    return Urn(head.removeprefix("urn:pulumi:"), project, tuple(ancestors), own, name)
