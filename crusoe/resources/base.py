"""What every resource class of this package shares.

A class declares its inputs as a TypedDict and its outputs as annotations; names are snake_case here and camelCase on
Pulumi's side, and this module translates between the two. Keys inside of values (labels, actions, the fields of `oidc`
or `autoscaling`) are never touched.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, ClassVar, TypeVar

import pulumi

PACKAGE = "crusoe"

T = TypeVar("T")


def camel(name: str) -> str:
    """`vpc_network_id` as `vpcNetworkId`."""
    return re.sub(r"_([a-z0-9])", lambda match: match[1].upper(), name)


class CrusoeResource(pulumi.CustomResource):
    """A resource of the crusoe package; `inputs=` of a subclass is the TypedDict of what its constructor takes."""

    _token: ClassVar[str]
    _inputs: ClassVar[type]
    _outputs: ClassVar[tuple[str, ...]]
    _delete_before_replace: ClassVar[bool] = True

    def __init_subclass__(cls, *, inputs: type) -> None:
        """Tell Pulumi the names and types of inputs and outputs."""
        super().__init_subclass__()
        cls._token = f"{PACKAGE}:index:{cls.__name__}"
        cls._inputs = _input_type(cls.__name__, inputs)
        cls._outputs = tuple(name for name in cls.__annotations__ if not name.startswith("_"))
        for name in cls._outputs:
            setattr(cls, name, pulumi.property(camel(name)))

    def __init__(self, name: str, inputs: Mapping[str, Any], opts: pulumi.ResourceOptions | None) -> None:
        """Register the resource. Objects have unique names, so a replacement has to delete the old one first."""
        properties = self._inputs(**inputs)
        for output in self._outputs:
            properties.__dict__.setdefault(output, None)
        defaults = pulumi.ResourceOptions(delete_before_replace=self._delete_before_replace or None)
        super().__init__(self._token, name, properties, pulumi.ResourceOptions.merge(defaults, opts))


def _input_type(name: str, inputs: type) -> type:
    """Return Pulumi's form of a TypedDict of inputs. What is missing or wrong is for type checkers and the plugin."""
    fields: dict[str, Any] = {field: pulumi.property(camel(field), default=None) for field in inputs.__annotations__}
    namespace = {**fields, "__annotations__": dict.fromkeys(fields, Any), "__module__": __name__}
    return pulumi.input_type(type(f"{name}Inputs", (), namespace))


def output_type(cls: type[T]) -> type[T]:
    """Make a class with annotations the type of a value inside of outputs, its names translated."""
    for name in cls.__annotations__:
        setattr(cls, name, pulumi.property(camel(name)))
    return pulumi.output_type(cls)
