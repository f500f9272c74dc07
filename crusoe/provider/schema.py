"""The package's Pulumi schema, made from the kinds' declarations; the engine uses it for `pulumi import` and docs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from crusoe.provider.configuration import PROPERTIES
from crusoe.provider.kind import PACKAGE, Kind
from crusoe.provider.lookups import Lookup
from crusoe.provider.properties import Effect, Property
from crusoe.provider.shapes import Field, Flag, ListOf, MapOf, Record, Shape, Text, Whole

Json = dict[str, object]


def schema(version: str, kinds: Mapping[str, Kind], lookups: Mapping[str, Lookup]) -> Json:
    """Return the schema as JSON values."""
    types: dict[str, Json] = {}
    config = _fields(PROPERTIES, types)
    return {
        "name": PACKAGE,
        "displayName": "Crusoe Cloud",
        "version": version,
        "description": "Crusoe Cloud: networks, disks, Kubernetes clusters, node pools, automatic repair and Slurm.",
        "license": "Apache-2.0",
        "config": {"variables": config, "defaults": [one.name for one in PROPERTIES if one.required]},
        "provider": {
            "description": "Where the stack's resources live. The access key comes from the environment only.",
            "inputProperties": config,
            "requiredInputs": [one.name for one in PROPERTIES if one.required],
            "properties": config,
            "required": [one.name for one in PROPERTIES if one.required],
        },
        "resources": {token: _resource(kind, types) for token, kind in kinds.items()},
        "functions": {token: _function(lookup, types) for token, lookup in lookups.items()},
        "types": types,
    }


def _resource(kind: Kind, types: dict[str, Json]) -> Json:
    outputs = {one.name: _typed(one.shape, one.description, types, secret=one.secret) for one in kind.outputs}
    always = [one.name for one in kind.properties if one.required] + [one.name for one in kind.outputs]
    return {
        "description": kind.description,
        "inputProperties": _fields(kind.properties, types),
        "requiredInputs": [one.name for one in kind.properties if one.required],
        "properties": {**_fields(kind.properties, types), **outputs},
        "required": always,
    }


def _function(lookup: Lookup, types: dict[str, Json]) -> Json:
    def record(fields: tuple[Field, ...]) -> Json:
        return {
            "type": "object",
            "properties": _fields(fields, types),
            "required": [one.name for one in fields if one.required],
        }

    return {"description": lookup.description, "inputs": record(lookup.arguments), "outputs": record(lookup.results)}


def _fields(fields: Iterable[Field], types: dict[str, Json]) -> dict[str, Json]:
    found: dict[str, Json] = {}
    for one in fields:
        found[one.name] = _typed(one.shape, one.description, types)
        if isinstance(one, Property):
            if one.secret:
                found[one.name]["secret"] = True
            if one.effect is Effect.REPLACE:
                found[one.name]["replaceOnChanges"] = True
    return found


def _typed(shape: Shape, description: str, types: dict[str, Json], *, secret: bool = False) -> Json:
    found = {**_type(shape, types), "description": description}
    return {**found, "secret": True} if secret else found


def _type(shape: Shape, types: dict[str, Json]) -> Json:
    if isinstance(shape, Whole):
        return {"type": "integer"}
    if isinstance(shape, Flag):
        return {"type": "boolean"}
    if isinstance(shape, ListOf):
        return {"type": "array", "items": _type(shape.item, types)}
    if isinstance(shape, MapOf):
        return {"type": "object", "additionalProperties": _type(shape.item, types)}
    if isinstance(shape, Record):
        token = f"{PACKAGE}:index:{shape.name}"
        if token not in types:
            types[token] = {}
            types[token] |= {
                "type": "object",
                "properties": _fields(shape.fields, types),
                "required": [one.name for one in shape.fields if one.required],
            }
        return {"$ref": f"#/types/{token}"}
    if isinstance(shape, Text):
        return {"type": "string"}
    raise TypeError(f"{type(shape).__name__} has no schema type")
