"""What the engine sends of a resource, as plain values: unknown ones stay apart, and secrets are told from the rest."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, cast

from crusoe.rules.values import items, table

if TYPE_CHECKING:
    from google.protobuf.struct_pb2 import Struct, Value

SIGNATURE = "4dabf18193072939515e22adb298388d"
SECRET = "1b47061264138c4ac30d75fd1eb44270"  # noqa: S105 - Pulumi's mark of a secret value, not one itself

# What stands for a value that is not known in a preview, one for each type (pulumi/pulumi, sdk/go/common/resource).
UNKNOWNS = frozenset(
    {
        "1c4a061d-8072-4f0a-a4cb-0ff528b18fe7",
        "3eeb2bf0-c639-47a8-9e75-3b44932eb421",
        "04da6b54-80e4-46f7-96ec-b56ff0331ba9",
        "6a19a0b0-7e62-4c92-b797-7f8e31da9cc2",
        "030794c1-ac77-496b-92df-f27374a8bd58",
        "e48ece36-62e2-4504-bad9-02848725956a",
        "dd056dcd-154b-4c76-9bd3-c8f88648b5ff",
    }
)


class Unknown:
    """A value that is not known before an `up`. Rules take it for a value of a type that they don't judge."""

    __slots__ = ()

    def __repr__(self) -> str:
        """As messages show it."""
        return "(not known yet)"


UNKNOWN = Unknown()


def plain(struct: Struct) -> dict[str, object]:
    """Return properties as dicts, lists, texts, floats and bools. Secrets lose their wrapping; UNKNOWN is kept."""
    return {key: _plain(value) for key, value in struct.fields.items()}


def _plain(value: Value) -> object:
    match value.WhichOneof("kind"):
        case "string_value":
            return UNKNOWN if value.string_value in UNKNOWNS else value.string_value
        case "number_value":
            return value.number_value
        case "bool_value":
            return value.bool_value
        case "struct_value":
            fields = value.struct_value.fields
            if SIGNATURE in fields and fields[SIGNATURE].string_value == SECRET:
                return _plain(fields["value"])
            return {key: _plain(each) for key, each in fields.items()}
        case "list_value":
            return [_plain(each) for each in value.list_value.values]
        case _:
            return None


def texts_in_clear(struct: Struct, path: str = "") -> Iterator[tuple[str, str, str]]:
    """Yield path, last key and text of every text that is not a secret."""
    for key, value in struct.fields.items():
        yield from _clear(value, f"{path}.{key}" if path else key, key)


def _clear(value: Value, path: str, key: str) -> Iterator[tuple[str, str, str]]:
    kind = value.WhichOneof("kind")
    if kind == "string_value":
        if value.string_value not in UNKNOWNS:
            yield path, key, value.string_value
    elif kind == "struct_value":
        fields = value.struct_value.fields
        if not (SIGNATURE in fields and fields[SIGNATURE].string_value == SECRET):
            # An item {name: TOKEN, value: ...} of an environment is called by its name.
            named = fields["name"].string_value if "name" in fields and "value" in fields else ""
            for inner, each in fields.items():
                yield from _clear(each, f"{path}.{inner}", named if named and inner == "value" else inner)
    elif kind == "list_value":
        for index, each in enumerate(value.list_value.values):
            yield from _clear(each, f"{path}[{index}]", key)


def unknown_within(value: object, path: str) -> str | None:
    """Return the path of the first unknown value in a value, None when all of it is known."""
    if value is UNKNOWN:
        return path
    if isinstance(value, Mapping):
        entries = cast("Mapping[str, object]", value).items()
        return next((found for key, each in entries if (found := unknown_within(each, f"{path}.{key}"))), None)
    listed = enumerate(items(value))
    return next((found for index, each in listed if (found := unknown_within(each, f"{path}[{index}]"))), None)


def at(value: object, *path: str | int) -> object:
    """Return what is at a path of keys and indices; None where there is nothing, UNKNOWN below an unknown value."""
    for key in path:
        if value is UNKNOWN:
            return UNKNOWN
        if isinstance(key, int):
            listed = items(value)
            value = listed[key] if -len(listed) <= key < len(listed) else None
        else:
            value = table(value).get(key)
    return value


def spoken(path: tuple[str | int, ...]) -> str:
    """Return a path as messages write it: `spec.containers[0].image`."""
    written = ""
    for key in path:
        written += f"[{key}]" if isinstance(key, int) else f".{key}" if written else key
    return written


def listed(value: object) -> list[object]:
    """Return the items of a list, nothing for anything else."""
    return [*items(value)]
