"""What a rule has to say."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, order=True)
class Finding:
    """One fault: where it is, what is wrong, and what would be right with a concrete value.

    `path` is the setting as the user wrote it (`platform.nodePools.train.type`); `str()` is one line for a message.
    """

    path: str
    problem: str
    fix: str

    def __post_init__(self) -> None:
        """Show what can't be printed as its escape: names that a user gave may hold ends of lines, or worse."""
        for name in ("path", "problem", "fix"):
            object.__setattr__(self, name, printable(getattr(self, name)))

    def __str__(self) -> str:
        """`platform.nodePools.train.type: unknown VM type 'h100'. Use 'h100-80gb-sxm-ib.8x'.`."""
        return f"{self.path}: {self.problem.rstrip('.')}. {self.fix.rstrip('.')}."


def printable(text: str) -> str:
    """The text on one line, each character that can't be printed as Python writes it, such as `\\n` and `\\x1b`."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)
