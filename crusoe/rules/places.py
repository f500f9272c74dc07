"""Locations, such as `us-east1-a`."""

from __future__ import annotations

import difflib
import re

from crusoe.rules.finding import Finding
from crusoe.rules.values import text

KNOWN = ("us-east1-a", "us-southcentral1-a", "us-northcentral1-a", "eu-iceland1-a", "us-east2-a", "eu-norway1-b")
"""Seen in Crusoe's material until 2026-08; `GET /locations` has the list that counts."""

_FORM = re.compile(r"[a-z]{2}-[a-z]+[0-9]+-[a-z]")


def location(path: str, value: object) -> list[Finding]:
    """Check a location's form; whether the project may use it is for the API to say."""
    given = text(value)
    if given is None or _FORM.fullmatch(given):
        return []
    near = difflib.get_close_matches(given.lower().replace("_", "-"), KNOWN, n=1, cutoff=0.6)
    return [
        Finding(
            path,
            f"{given[:40]!r} does not look like a location",
            f"Write {near[0]!r}" if near else f"Write one such as {KNOWN[0]!r}",
        )
    ]


def same(path: str, value: object, other_path: str, other: object) -> list[Finding]:
    """Check that two things that must lie together do, such as a subnet and its cluster."""
    one, two = text(value), text(other)
    if one is None or two is None or one == two:
        return []
    return [Finding(path, f"{one!r} is another location than {other_path}, {two!r}", f"Write {two!r}")]
