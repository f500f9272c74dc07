"""One resource whose name and text come from the environment, and ways to fail."""

import os
import sys
from typing import Any

import pulumi


class Thing(pulumi.CustomResource):
    """A resource of the tiny plugin."""

    shout: pulumi.Output[str]

    def __init__(self, name: str, text: str) -> None:
        inputs: dict[str, Any] = {"text": text, "shout": None}
        options = pulumi.ResourceOptions(protect="TINY_PROTECT" in os.environ)
        super().__init__("tiny:index:Thing", name, inputs, options)


def fail() -> None:
    raise ValueError("the reason it failed")


print("the program says hello")
match os.environ.get("TINY_FAIL"):
    case "exception":
        fail()
    case "run-error":
        raise pulumi.RunError("one plain sentence")
    case "exit":
        sys.exit(3)
    case _:
        thing = Thing(os.environ.get("TINY_NAME", "one"), os.environ.get("TINY_TEXT", "hello"))
        pulumi.export("shout", thing.shout)
        pulumi.export("stack", f"{pulumi.get_organization()}/{pulumi.get_project()}/{pulumi.get_stack()}")
        pulumi.export("interpreter", sys.prefix)
        pulumi.export("object", pulumi.Config().require_object("object"))
        pulumi.export("secret", pulumi.Config().get_secret("secret"))
