"""Quotas of GPUs in Kubernetes against what the pools hold, and the order of those who want them."""

from __future__ import annotations

from crusoe.rules.finding import Finding
from crusoe.rules.values import items, table, text, whole

FLOOR_PRIORITY = 100_000
"""Value of the PriorityClass of guaranteed shares: nothing with GPUs stands above it."""


def amount(value: object) -> int | None:
    """Return a whole number of GPUs, as Kubernetes writes it in text or as a number."""
    given = text(value)
    return int(given) if given is not None and given.isdecimal() else whole(value)


def of(quota: object, resource: str) -> int | None:
    """Return what a ResourceQuota's spec allows of an extended resource; None when it does not speak of it."""
    return amount(table(table(quota).get("hard")).get(f"requests.{resource}"))


def classes(quota: object) -> list[str]:
    """Return the priority classes that a quota's spec is for; none when it is for other pods or for all."""
    terms = items(table(table(quota).get("scopeSelector")).get("matchExpressions"))
    named = [table(term) for term in terms if table(term).get("scopeName") == "PriorityClass"]
    values = [each for term in named if term.get("operator") == "In" for each in items(term.get("values"))]
    return [name for each in values if (name := text(each))]


def above_capacity(path: str, asked: object, capacity: object, what: str = "it allows") -> list[Finding]:
    """Refuse more GPUs than there are."""
    want, have = whole(asked), whole(capacity)
    if want is None or have is None or want <= have:
        return []
    return [Finding(path, f"{what} {want} GPUs, and the pools have {have}", f"Write {have} or less, or add nodes")]


def outside_share(path: str, namespace: object, shares: object) -> list[Finding]:
    """Refuse pods with GPUs in a namespace whose quotas hold none; `shares` are GPUs by namespace."""
    given = text(namespace) or "default"
    having = [name for name, gpus in table(shares).items() if (whole(gpus) or 0) > 0]
    if shares is None or given in having:
        return []
    listed = ", ".join(sorted(having)) or "one with a quota"
    return [
        Finding(path, f"pods with GPUs in {given!r}, which has no share of them", f"Use a namespace with one: {listed}")
    ]


def priority(path: str, value: object, floor: object) -> list[Finding]:
    """Refuse a PriorityClass above that of guaranteed shares. Kubernetes' own are above all and not for people."""
    given, most = whole(value), whole(floor)
    if given is None or most is None or given <= most:
        return []
    return [
        Finding(
            path, f"{given} is above the guaranteed shares' {most}: its pods push them out", f"Write {most} or less"
        )
    ]
