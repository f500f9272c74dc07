"""Property values between the engine's protobuf and Python.

The engine marks what JSON can't say with objects that carry a signature: secrets, outputs, assets, references. Here a
property bag becomes plain Python values plus the names of the top-level properties that hold a secret anywhere inside,
so that the rest of the provider computes with plain values and secrecy is put back at the edge. A whole property is
secret or not: marking too much is safe, marking too little is not.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, cast

from google.protobuf.struct_pb2 import ListValue, NullValue, Struct
from google.protobuf.struct_pb2 import Value as Wire

SIGNATURE: Final = "4dabf18193072939515e22adb298388d"
SECRET: Final = "1b47061264138c4ac30d75fd1eb44270"  # noqa: S105 - the marker of secrets, itself public
OUTPUT: Final = "d0e6a833031e9bbcd3f4e8bde6ca49a4"
ASSET: Final = "c44067f5952c0a294b673a41bacd8c17"
ARCHIVE: Final = "0def7320c3a5731c473e5ecbe6d01bc7"
REFERENCE: Final = "5cf8f73096256a8f31e491e813e4eb8e"
UNKNOWN_TEXT: Final = "04da6b54-80e4-46f7-96ec-b56ff0331ba9"
"""Markers of Pulumi's wire format, as in `pulumi.runtime.rpc`, which is too slow to import here; a test compares."""


class Unknown(Enum):
    """The one value that stands for "not known before the update"."""

    UNKNOWN = "unknown"

    def __repr__(self) -> str:
        """Read well in messages and test output."""
        return "UNKNOWN"


UNKNOWN: Final = Unknown.UNKNOWN

Value = None | bool | int | float | str | Unknown | list["Value"] | dict[str, "Value"]
Values = dict[str, Value]


class UnsupportedValueError(Exception):
    """A kind of value that no resource of this provider takes; the text is one sentence."""


@dataclass(frozen=True)
class Bag:
    """A property bag: plain values, and the names of the properties that are secret."""

    values: Values = field(default_factory=dict[str, Value])
    secret: frozenset[str] = frozenset()


def decode(struct: Struct) -> Bag:
    """Read a property bag; a property whose value is null is absent, and whole numbers are integers.

    Raises:
        UnsupportedValueError: an asset, an archive or a resource.
    """
    values: Values = {}
    secret: set[str] = set()
    for name, wire in struct.fields.items():
        value, hidden = _read(wire, name)
        if value is not None:
            values[name] = value
            if hidden:
                secret.add(name)
    return Bag(values, frozenset(secret))


def encode(values: Mapping[str, Value], secret: Iterable[str] = ()) -> Struct:
    """Write a property bag; the properties named in `secret` are marked, None is left out."""
    struct = Struct()
    hidden = frozenset(secret)
    for name, value in values.items():
        if value is None:
            continue
        wire = _write(value)
        if name in hidden:
            marked = Struct(fields={SIGNATURE: Wire(string_value=SECRET), "value": wire})
            wire = Wire(struct_value=marked)
        struct.fields[name].CopyFrom(wire)
    return struct


def has_unknown(value: Value) -> bool:
    """Say whether anything inside is not known yet."""
    if isinstance(value, dict):
        return any(has_unknown(item) for item in value.values())
    if isinstance(value, list):
        return any(has_unknown(item) for item in value)
    return value is UNKNOWN


def _read(wire: Wire, path: str) -> tuple[Value, bool]:
    """Return the plain value and whether a secret is in it."""
    kind = wire.WhichOneof("kind")
    if kind == "string_value":
        return (UNKNOWN if wire.string_value == UNKNOWN_TEXT else wire.string_value), False
    if kind == "number_value":
        number = wire.number_value
        return (int(number) if number.is_integer() else number), False
    if kind == "bool_value":
        return wire.bool_value, False
    if kind == "list_value":
        items = [_read(item, f"{path}[{index}]") for index, item in enumerate(wire.list_value.values)]
        return [value for value, _ in items], any(hidden for _, hidden in items)
    if kind == "struct_value":
        return _read_struct(wire.struct_value, path)
    return None, False


def _read_struct(struct: Struct, path: str) -> tuple[Value, bool]:
    signature = struct.fields[SIGNATURE].string_value if SIGNATURE in struct.fields else None
    if signature is None:
        items = {name: _read(item, f"{path}.{name}") for name, item in struct.fields.items()}
        plain = cast("Values", {name: value for name, (value, _) in items.items() if value is not None})
        return plain, any(hidden for _, hidden in items.values())
    if signature == SECRET:
        return _read(struct.fields["value"], path)[0], True
    if signature == OUTPUT:
        hidden = "secret" in struct.fields and struct.fields["secret"].bool_value
        if "value" not in struct.fields:
            return UNKNOWN, hidden
        value, inner = _read(struct.fields["value"], path)
        return value, hidden or inner
    kind = {ASSET: "an asset", ARCHIVE: "an archive", REFERENCE: "a resource"}.get(signature, "of an unknown kind")
    raise UnsupportedValueError(f"{path} is {kind}; give a plain value, such as an id.")


def _write(value: Value) -> Wire:
    if value is None:
        return Wire(null_value=NullValue.NULL_VALUE)
    if value is UNKNOWN:
        return Wire(string_value=UNKNOWN_TEXT)
    if isinstance(value, bool):
        return Wire(bool_value=value)
    if isinstance(value, int | float):
        return Wire(number_value=value)
    if isinstance(value, str):
        return Wire(string_value=value)
    if isinstance(value, list):
        return Wire(list_value=ListValue(values=[_write(item) for item in value]))
    fields = {name: _write(item) for name, item in value.items() if item is not None}
    return Wire(struct_value=Struct(fields=fields))
