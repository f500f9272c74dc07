"""Charts and images that stay what they were when they were tested."""

from __future__ import annotations

import re

from crusoe.rules.finding import Finding
from crusoe.rules.values import table, text

_FLOATING = frozenset({"latest", "stable", "edge", "main", "master", "nightly", "dev"})
_VERSION = re.compile(r"v?\d+\.\d+\.\d+([-+.][0-9A-Za-z.+-]+)?")


def image(path: str, value: object) -> list[Finding]:
    """Refuse an image without a tag or digest, or with a tag that moves."""
    given = text(value)
    if given is None or "@sha256:" in given:
        return []
    _, colon, tag = given.rsplit("/", 1)[-1].partition(":")
    if colon and tag and tag.lower() not in _FLOATING:
        return []
    name = given[: -len(tag) - 1] if colon else given
    problem = f"{given[:80]!r} may be another image tomorrow"
    return [Finding(path, problem, f"Write a version, such as '{name[:60]}:1.2.3', or a digest")]


def chart(path: str, value: object, source: object) -> list[Finding]:
    """Refuse a chart from a registry or repository whose version is missing or a range.

    `source` is what names the chart; one in a folder is what lies there.
    """
    place, given = text(source), text(value)
    if place is None or place.startswith((".", "/")):
        return []
    if given is None:
        return [Finding(path, "left out, so the newest chart of the day is taken", "Write a version, such as '1.2.1'")]
    if _VERSION.fullmatch(given):
        return []
    return [Finding(path, f"{given[:40]!r} is a range and not one version", "Write one version, such as '1.2.1'")]


def is_local(release: object) -> bool:
    """Say whether a release's chart lies in a folder: it has no repository, and its name is a path of the program."""
    given = table(release)
    name = text(given.get("chart")) or ""
    options = table(given.get("repositoryOpts") or given.get("fetchOpts"))
    return not options.get("repo") and not given.get("repo") and not name.startswith("oci://") and "/" in name
