"""Secrets that are made once and kept in the stack's state."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, NotRequired, TypedDict, Unpack

import pulumi

from crusoe.resources.base import CrusoeResource


class GeneratedSecretInputs(TypedDict):
    """Inputs of a generated secret; a change of any draws it anew, of `keepers` in place.

    Attributes:
        length: random bytes; characters with alphanumeric. 32 when left out.
        encoding: `hex`, `base64` (the default), `base64url` or `alphanumeric`.
        keepers: any values, whose change is to draw the secret anew.
    """

    length: NotRequired[pulumi.Input[int] | None]
    encoding: NotRequired[pulumi.Input[str] | None]
    keepers: NotRequired[pulumi.Input[Mapping[str, pulumi.Input[str]]] | None]


class GeneratedSecret(CrusoeResource, inputs=GeneratedSecretInputs):
    """A random secret, drawn when it is created; `value` is a secret output."""

    _delete_before_replace: ClassVar[bool] = False

    length: pulumi.Output[int | None]
    encoding: pulumi.Output[str | None]
    keepers: pulumi.Output[Mapping[str, str] | None]
    value: pulumi.Output[str]

    def __init__(
        self,
        resource_name: str,
        /,
        *,
        opts: pulumi.ResourceOptions | None = None,
        **inputs: Unpack[GeneratedSecretInputs],
    ) -> None:
        """Declare the secret."""
        super().__init__(resource_name, inputs, opts)
