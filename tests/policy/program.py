"""A program whose resources stand in resources.json beside it, as `{type, name, properties, protect?}` each.

A text `later:VALUE` is VALUE, but not known before the first resource is there.
"""

import json
from pathlib import Path
from typing import Any, cast

import pulumi


class Declared(pulumi.CustomResource):
    """A resource of any type."""

    def __init__(self, declared: dict[str, Any], properties: dict[str, Any]) -> None:
        opts = pulumi.ResourceOptions(
            protect=declared.get("protect"), delete_before_replace=declared.get("deleteBeforeReplace", True)
        )
        super().__init__(declared["type"], declared["name"], properties, opts)


first: list[Declared] = []


def known_later(value: object) -> object:
    if isinstance(value, dict):
        return {key: known_later(each) for key, each in cast("dict[str, object]", value).items()}
    if isinstance(value, list):
        return [known_later(each) for each in cast("list[object]", value)]
    if isinstance(value, str) and value.startswith("later:"):
        return first[0].id.apply(lambda _: value.removeprefix("later:"))
    return value


for each in json.loads(Path("resources.json").read_text()):
    first.append(Declared(each, {key: known_later(value) for key, value in each["properties"].items()}))
