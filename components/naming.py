"""Physical names: what a resource is called in Crusoe Cloud.

A name is `<stack>-<thing>`, so it is the same on every run, and two stacks of one project never meet. Because such a
name belongs to this program alone, the provider may adopt an object that it finds under it (`adoptExisting`): that is
how an object whose create answer was lost is found again. A name that a person wrote in the settings may be anybody's,
and is never adopted.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class PhysicalName:
    """A resource's name in Crusoe Cloud, and whether an existing object of that name may be adopted."""

    value: str
    adopt_existing: bool


def physical_name(stack: str, thing: str, by_hand: str | None = None) -> PhysicalName:
    """`<stack>-<thing>`, or the name that the settings give by hand."""
    if by_hand is not None:
        return PhysicalName(by_hand, adopt_existing=False)
    return PhysicalName(f"{stack}-{thing}", adopt_existing=True)
