"""What every settings model has in common, and how a wrong setting is told.

Owns the base class `Settings`, the annotation `Form`, and `parse`, which turns a plain document into settings or into
the complete list of what is wrong with it. Knows no part of the platform: each room declares its own model. Nothing
here reads Pulumi's configuration; `components.configuration.load` does, once.

A value that is refused for its shape is never repeated in the message: a secret may have been pasted into the wrong
place.
"""

import difflib
import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import NoneType, UnionType
from typing import Annotated, Any, ClassVar, TypeVar, Union, cast, get_args, get_origin

from pydantic import BaseModel, ConfigDict, GetCoreSchemaHandler, GetJsonSchemaHandler, ValidationError
from pydantic.alias_generators import to_camel
from pydantic.fields import FieldInfo
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, ErrorDetails, PydanticCustomError, core_schema

from crusoe.rules.finding import Finding


class Settings(BaseModel):
    """Base of every settings model: frozen, camelCase in YAML, unknown keys refused, values hidden in errors."""

    model_config: ClassVar[ConfigDict] = ConfigDict(
        alias_generator=to_camel,
        extra="forbid",
        frozen=True,
        hide_input_in_errors=True,
        strict=True,
        validate_by_alias=True,
        validate_by_name=False,
    )


@dataclass(frozen=True)
class Form:
    """Annotation of a text setting: the pattern of the whole value, and what a value is that does not fit, in words."""

    pattern: str
    words: str

    def __get_pydantic_core_schema__(self, source: type[Any], handler: GetCoreSchemaHandler) -> CoreSchema:
        """Check the pattern after the type, so that the message can be ours."""
        return core_schema.no_info_after_validator_function(self._check, handler(source))

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        """Give editors the same pattern."""
        return {**handler(schema), "pattern": f"^(?:{self.pattern})$"}

    def _check(self, value: str) -> str:
        if re.fullmatch(self.pattern, value) is None:
            raise PydanticCustomError("form", "{words}", {"words": self.words})
        return value


class SettingsError(Exception):
    """Settings that can't be used; `findings` has every fault, one each."""

    def __init__(self, findings: Iterable[Finding]) -> None:
        """Keep the findings in the order in which they were made, each once."""
        self.findings = tuple(dict.fromkeys(findings))
        super().__init__("\n".join(map(str, self.findings)))


Model = TypeVar("Model", bound=Settings)
Plain = Mapping[str, object]
"""Settings as they were written, with defaults filled in. Any value may be of a wrong type: rules pass those over."""
Check = Callable[[Plain], Iterable[Finding]]


def parse(
    model: type[Model],
    document: object,
    root: str,
    checks: Iterable[Check] = (),
    last: Callable[[Model], Iterable[Finding]] | None = None,
) -> Model:
    """Turn `document` (plain values, camelCase keys) into settings.

    Raises `SettingsError` with all faults at once: those of the document's shape, and those that the `checks` find; and
    when there are none, those that `last` finds in what is made from the settings. `root` is the path of the document,
    put before every other.
    """
    settings: Model | None = None
    shape: list[Finding] = []
    try:
        settings = model.model_validate_json(json.dumps(document))
    except ValidationError as error:
        shape = [_finding(model, fault, root) for fault in error.errors(include_url=False)]
    told = {finding.path for finding in shape}
    found: list[Finding] = []
    if isinstance(document, Mapping):
        plain = cast("Plain", with_defaults(model, cast("object", document)))
        found = [finding for check in checks for finding in check(plain) if finding.path not in told]
    if settings is None or found:
        raise SettingsError([*shape, *found])
    if last and (found := list(last(settings))):
        raise SettingsError(found)
    return settings


def with_defaults(annotation: object, value: object) -> object:
    """`value` with the defaults of the models in `annotation` filled in; what is not as it should be stays as it is."""
    bare = _bare(annotation)
    model, arguments = _model(bare), get_args(bare)
    if isinstance(value, Mapping):
        given = cast("Plain", value)
        if model is not None:
            return {key: each for key, field in _fields(model) if (each := _given(key, field, given)) is not _NOTHING}
        if len(arguments) == 2:
            return {key: with_defaults(arguments[1], entry) for key, entry in given.items()}
        return given
    if isinstance(value, list) and arguments:
        return [with_defaults(arguments[0], entry) for entry in cast("list[object]", value)]
    return cast("object", value)


_NOTHING = object()


def _given(key: str, field: FieldInfo, document: Plain) -> object:
    """The field's value in the document, else its default, else `_NOTHING`."""
    if key in document:
        return with_defaults(field.annotation, document[key])
    if field.is_required():
        return _NOTHING
    default = cast("object", field.get_default(call_default_factory=True))
    return default.model_dump(by_alias=True) if isinstance(default, Settings) else default


# From a fault of pydantic's to a finding in the user's terms.

Location = tuple[int | str, ...]


def _finding(model: type[Settings], fault: ErrorDetails, root: str) -> Finding:
    location = tuple(part for part in fault["loc"] if part != "[key]")
    path = root + "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in location)
    problem, fix = _words(model, fault, location)
    return Finding(path, problem, fix)


def _words(model: type[Settings], fault: ErrorDetails, location: Location) -> tuple[str, str]:
    """The problem and the fix of one fault."""
    context = fault.get("ctx", {})
    example = _example(model, location)
    match fault["type"]:
        case "extra_forbidden":
            return "there is no such setting", _known(model, location)
        case "missing":
            return "missing", f"Set it{example}"
        case "form":
            return str(context["words"]), f"Write one{example}"
        case "string_type" if isinstance(fault["input"], bool | int | float):
            return "YAML reads this as a number or a truth value, where text is needed", f"Quote it{example}"
        case "string_type":
            return "not text", f"Write text{example}"
        case "int_type" | "int_from_float" | "int_parsing":
            return "not a whole number", f"Write it without quotes or decimals{example}"
        case "bool_type":
            return "neither true nor false", "Write true or false, without quotes"
        case "model_type" | "dict_type" | "mapping_type":
            return "not a map of settings", f"Write keys and values below it{example}"
        case "tuple_type":
            return "not a list", f"Write a list{example}"
        case "literal_error":
            return "not one of the known values", f"Write {context['expected']}"
        case "too_short" | "string_too_short":
            return "too short", f"Write at least {context['min_length']}{example}"
        case _:
            # Bounds of numbers, where pydantic's own words are plain: "Input should be greater than or equal to 0".
            return fault["msg"].replace("Input should be", "must be"), f"Change it{example}"


def _known(model: type[Settings], location: Location) -> str:
    """The setting that was probably meant, or all that are known at this place."""
    parent = _model(_at(model, location[:-1]))
    known = sorted(key for key, _ in _fields(parent)) if parent else []
    near = difflib.get_close_matches(to_camel(str(location[-1])), known, n=1)
    return f"Write {near[0]}" if near else f"Known here: {', '.join(known)}"


def _example(model: type[Settings], location: Location) -> str:
    """`, for example key: value` from the documentation of the nearest setting that has an example, or nothing."""
    for end in range(len(location), 0, -1):
        parent = _model(_at(model, location[: end - 1]))
        for key, field in _fields(parent) if parent else ():
            if key == location[end - 1] and field.examples:
                return f", for example {key}: {json.dumps(field.examples[0], ensure_ascii=False)}"
    return ""


def _at(annotation: object, location: Location) -> object:
    """The type that the settings have at a location, None where there is none."""
    bare = _bare(annotation)
    if not location:
        return bare
    key, rest = location[0], location[1:]
    model, arguments = _model(bare), get_args(bare)
    if model is not None:
        return next((_at(field.annotation, rest) for name, field in _fields(model) if name == key), None)
    entry = arguments[0 if isinstance(key, int) else -1] if arguments else None
    return _at(entry, rest)


def _fields(model: type[Settings]) -> list[tuple[str, FieldInfo]]:
    """Each setting of a model under the one name that it has in YAML."""
    return [(field.alias or name, field) for name, field in model.model_fields.items()]


def _model(annotation: object) -> type[Settings] | None:
    bare = _bare(annotation)
    return bare if isinstance(bare, type) and issubclass(bare, Settings) else None


def _bare(annotation: object) -> object:
    """`X` for `Annotated[X, ...]` and for `X | None`."""
    origin = get_origin(annotation)
    if origin is Annotated:
        return _bare(get_args(annotation)[0])
    if origin in (Union, UnionType):
        return _bare(next(part for part in get_args(annotation) if part is not NoneType))
    return annotation
