"""The provider's own configuration: which cloud and which project, recorded in the stack's state.

Keys are never part of it. A stack stays with its cloud and its project: another project replaces every resource, and
another endpoint is refused, because the resources would look as if they were gone.
"""

from __future__ import annotations

from crusoe.provider import shapes
from crusoe.provider.shapes import Change, Failure, Field, Text
from crusoe.provider.values import Value, Values

DEFAULT_ENDPOINT = "https://api.cloud.crusoe.ai/v1"

PROPERTIES = (
    Field("endpoint", Text(), f"Address of the API; {DEFAULT_ENDPOINT} when left out."),
    Field("project", Text(), "Name or id of the project.", required=True),
)

_ENGINE = ("version", "pluginDownloadURL")
"""Inputs that the engine adds for itself."""


def own(values: Values) -> Values:
    """Return the provider's own inputs."""
    return {name: value for name, value in values.items() if name not in _ENGINE and not name.startswith("__")}


def check(values: Values) -> tuple[Values, list[Failure]]:
    """Return the inputs to record, with the default filled in, and every fault."""
    from crusoe.client import ConfigurationError
    from crusoe.client.endpoint import normalise

    given = own(values)
    faults = list(shapes.check_fields(PROPERTIES, given))
    endpoint = given.get("endpoint", DEFAULT_ENDPOINT)
    if isinstance(endpoint, str):
        try:
            endpoint = normalise(endpoint)
        except ConfigurationError as error:
            faults.append(Failure("endpoint", str(error)))
    return {**values, "endpoint": endpoint}, faults


def differences(olds: Values, news: Values) -> list[tuple[str, Change, bool]]:
    """Return path, change and whether it replaces, for each difference that matters."""
    found: list[tuple[str, Change, bool]] = []
    for name in ("endpoint", "project"):
        old, new = olds.get(name), news.get(name)
        if old != new:
            change = Change.ADD if old is None else Change.DELETE if new is None else Change.UPDATE
            found.append((name, change, name == "project" and old is not None))
    return found


def refusal(olds: Values, news: Values) -> str | None:
    """Return why a stack can't move to another endpoint, or None where it is the same cloud."""
    from crusoe.client.endpoint import is_loopback, normalise

    old, new = olds.get("endpoint"), news.get("endpoint")
    if not isinstance(old, str) or not isinstance(new, str) or normalise(old) == normalise(new):
        return None
    if is_loopback(old) and is_loopback(new):
        # The local cloud on another port.
        return None
    return (
        f"This stack's resources live at {old}, and its endpoint is now {new}: another cloud, where they would look as"
        " if they were gone. Use another stack for it, or set the endpoint back."
    )


def text(value: Value) -> str | None:
    """Return a text, None for anything else."""
    return value if isinstance(value, str) and value else None
