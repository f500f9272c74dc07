"""What a PromQL query asks for: its metrics and labels, read with as little of the language as that takes."""

from __future__ import annotations

import re
from collections.abc import Iterator

from components.observability.alerts import all_rules
from components.observability.metrics import METRICS
from components.observability.rules import Limits, Record

_STRING = re.compile(r'"(\\.|[^"\\])*"')
_MATCHERS = re.compile(r"\{([^}]*)\}")
_GROUPING = re.compile(r"\b(?:by|without|on|ignoring|group_left|group_right)\s*\(([^)]*)\)")
_RANGE = re.compile(r"\[[^\]]*\]|\boffset\s+\w+")
_NAME = re.compile(r"[a-zA-Z_:][\w:]*(?!\s*\(|[\w:])")
_WORDS = {"and", "or", "unless", "by", "on", "bool", "group_left", "group_right", "inf"}
_SUFFIXES = ("_bucket", "_sum", "_count")
_RECORDS = {each.name: each for each in all_rules(Limits()) if isinstance(each, Record)}


def metrics(query: str) -> set[str]:
    """Names of the series that a query asks for; a histogram's parts by the histogram's name."""
    bare = _STRING.sub("", query)
    for pattern in (_MATCHERS, _GROUPING, _RANGE):
        bare = pattern.sub(" ", bare)
    names = {name for name in _NAME.findall(bare) if name not in _WORDS and not name.startswith("__")}
    return {_whole(name) for name in names}


def _whole(name: str) -> str:
    for suffix in _SUFFIXES:
        base = name.removesuffix(suffix)
        if base != name and base in METRICS and METRICS[base].kind == "histogram":
            return base
    return name


def labels(query: str) -> set[str]:
    """Names of the labels that a query asks for."""
    bare = _STRING.sub('""', query)
    inside = [part.split("=")[0].split("!")[0] for found in _MATCHERS.findall(bare) for part in found.split(",")]
    grouped = [part for found in _GROUPING.findall(bare) for part in found.split(",")]
    return {name for each in (*inside, *grouped) if (name := each.strip())}


def faults(query: str) -> Iterator[str]:
    """What a query asks for that nobody exports."""
    known = {"le"}
    for name in sorted(metrics(query)):
        if name in _RECORDS:
            known |= set(_RECORDS[name].labels)
        elif name in METRICS:
            known |= set(METRICS[name].labels)
        elif name == "ALERTS":
            known |= {"alertname", "alertstate", "severity", "node", "pool"}
        else:
            yield f"nobody exports {name}"
    yield from (f"none of its series has the label {name}" for name in sorted(labels(query) - known))
