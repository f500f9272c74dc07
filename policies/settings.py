"""The pack's configuration: levels, parameters and exemptions, as Pulumi's own JSON for policy packs.

    {"gpu-pool-whole-host": {"enforcementLevel": "advisory", "exemptions": [{"resource": ..., "reason": ..., ...}]}}

`config.json` in the pack's folder is where it starts from; `--policy-pack-config`, `PULUMI_OPTION_POLICY_PACK_CONFIG`
or a policy group of a Pulumi organisation lay theirs over it, policy by policy. All of it is checked here: a
configuration that is not understood must never be a pass.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, cast

from crusoe.rules.values import items, table, text, whole

if TYPE_CHECKING:
    from policies.policy import Level, Policy, Resource

SCHEMA_KEY = "$schema"
"""What tells an editor where the schema is; nothing to the pack."""

FILE = Path(__file__).resolve().parent / "config.json"

EXEMPTIONS: Mapping[str, object] = {
    "type": "array",
    "description": "Resources that this policy leaves alone until a day.",
    "items": {
        "type": "object",
        "properties": {
            "resource": {"type": "string", "description": "The resource's name in the program, or its URN."},
            "reason": {"type": "string", "minLength": 1},
            "expires": {"type": "string", "pattern": r"^\d{4}-\d{2}-\d{2}$", "description": "The last day, in UTC."},
        },
        "required": ["resource", "reason", "expires"],
        "additionalProperties": False,
    },
}
"""JSON schema of a policy's exemptions."""


class SettingsError(Exception):
    """The configuration is malformed; `str()` names each place and what would be right."""


@dataclass(frozen=True)
class Exemption:
    """Leaves one resource alone until the end of a day (UTC)."""

    resource: str
    reason: str
    expires: date

    def is_live(self, today: date) -> bool:
        """Say whether it still counts."""
        return today <= self.expires

    def names(self, resource: Resource) -> bool:
        """Say whether it means a resource: by its whole name or URN, never a part of one."""
        return self.resource in (resource.name, resource.urn)


@dataclass(frozen=True)
class Settings:
    """A configuration that is known to be well-formed. `entries` are as they were written."""

    entries: Mapping[str, Mapping[str, object]] = field(default_factory=dict[str, Mapping[str, object]])
    exemptions: Mapping[str, tuple[Exemption, ...]] = field(default_factory=dict[str, tuple[Exemption, ...]])

    @classmethod
    def of(cls, value: object) -> Settings:
        """Return the configuration that a plain value is. Raises SettingsError, with every fault."""
        faults = list(_faults(value))
        if faults:
            raise SettingsError("The policy pack's configuration is malformed.\n" + "\n".join(faults))
        entries = {
            name: table({"enforcementLevel": each} if isinstance(each, str) else each)
            for name, each in table(value).items()
            if name != SCHEMA_KEY
        }
        exemptions = {name: tuple(map(_exemption, items(entry.get("exemptions")))) for name, entry in entries.items()}
        return cls(entries, exemptions)

    @property
    def today(self) -> date:
        """The day that it is, in UTC."""
        return datetime.now(UTC).date()

    def level(self, policy: Policy) -> Level:
        """Return what a fault means."""
        return cast("Level", self._entry(policy).get("enforcementLevel") or policy.level)

    def parameters(self, policy: Policy) -> Mapping[str, object]:
        """Return a policy's parameters, defaults included."""
        given = self._entry(policy)
        return {key: given.get(key, default) for key, default in policy.defaults().items()}

    def exemption(self, policy: Policy, resource: Resource) -> Exemption | None:
        """Return the exemption of a resource; of several the one that lasts longest."""
        fitting = [each for each in self.exemptions.get(policy.name, ()) if each.names(resource)]
        return max(fitting, key=lambda each: each.expires, default=None)

    def _entry(self, policy: Policy) -> Mapping[str, object]:
        return self.entries.get(policy.name, {})


def load(file: Path = FILE) -> Settings:
    """Return the configuration in the pack's folder; nothing where there is no such file. Raises SettingsError."""
    try:
        return Settings.of(json.loads(file.read_text(encoding="utf-8")))
    except FileNotFoundError:
        return Settings()
    except (OSError, ValueError) as error:
        raise SettingsError(f"{file.name} of the policy pack can't be read: {error}.") from error


def schema_of(policy: Policy) -> dict[str, object]:
    """Return the JSON schemas of what a policy can be given, by name."""
    exempt = {} if policy.name.startswith("exemption-") else {"exemptions": EXEMPTIONS}
    return {**policy.parameters, **exempt}


def schema() -> dict[str, object]:
    """Return the JSON schema of the whole file."""
    from policies.pack import POLICIES
    from policies.policy import LEVELS

    level = {"enum": [*LEVELS]}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Configuration of the policy pack",
        "type": "object",
        "additionalProperties": False,
        "properties": {
            SCHEMA_KEY: {"type": "string"},
            **{
                policy.name: {
                    "description": policy.refuses,
                    "anyOf": [
                        level,
                        {
                            "type": "object",
                            "additionalProperties": False,
                            "properties": {"enforcementLevel": level, **schema_of(policy)},
                        },
                    ],
                }
                for policy in POLICIES
            },
        },
    }


def schema_text() -> str:
    """Return the schema as it is committed."""
    return json.dumps(schema(), indent=2) + "\n"


def _exemption(value: object) -> Exemption:
    given = table(value)
    return Exemption(str(given["resource"]), str(given["reason"]), date.fromisoformat(str(given["expires"])))


def _faults(value: object) -> Iterator[str]:
    from policies.pack import BY_NAME
    from policies.policy import LEVELS

    if not isinstance(value, Mapping):
        yield "It is not a map of policy names. Write {}."
        return
    for name, entry in cast("Mapping[str, object]", value).items():
        if name == SCHEMA_KEY:
            continue
        policy = BY_NAME.get(name)
        if policy is None:
            near = difflib.get_close_matches(name, BY_NAME, n=1)
            yield f"{name}: there is no such policy. " + (
                f"Write {near[0]}." if near else "docs/policies.md lists them."
            )
            continue
        given = {"enforcementLevel": entry} if isinstance(entry, str) else entry
        if not isinstance(given, Mapping):
            yield f'{name}: neither a level nor a map. Write "{policy.level}".'
            continue
        known = schema_of(policy)
        for key, each in table(cast("object", given)).items():
            if key == "enforcementLevel":
                if each not in LEVELS:
                    yield f"{name}.{key}: {each!r} is none of {', '.join(LEVELS)}."
            elif key not in known:
                listed = ", ".join(["enforcementLevel", *known])
                yield f"{name}.{key}: there is no such setting. Known here: {listed}."
            elif key == "exemptions":
                yield from _exemption_faults(f"{name}.{key}", each)
            else:
                yield from _fits(f"{name}.{key}", each, table(known[key]))


def _exemption_faults(path: str, value: object) -> Iterator[str]:
    listed = items(value)
    if not isinstance(value, list):
        yield f"{path}: not a list."
    for index, each in enumerate(listed):
        given, place = table(each), f"{path}[{index}]"
        for key in sorted(given.keys() - {"resource", "reason", "expires"}):
            yield f"{place}.{key}: there is no such setting. Known here: resource, reason, expires."
        for key in ("resource", "reason"):
            if not (text(given.get(key)) or "").strip():
                yield f"{place}.{key}: missing. " + (
                    "Name one resource of the program." if key == "resource" else "Say why it may stay as it is."
                )
        if not _is_day(given.get("expires")):
            yield f"{place}.expires: not a day. Write one such as 2027-03-31; an exemption has to end."


def _is_day(value: object) -> bool:
    if not isinstance(value, str) or not re.fullmatch(r"\d{4}-\d{2}-\d{2}", value):
        return False
    try:
        date.fromisoformat(value)
    except ValueError:
        return False
    return True


def _fits(path: str, value: object, schema: Mapping[str, object]) -> Iterator[str]:
    """Check a parameter against the little of JSON schema that parameters use."""
    listed, entries = items(value), table(value)
    match schema.get("type"):
        case "integer":
            number, least = whole(value), whole(schema.get("minimum"))
            if number is None or (least is not None and number < least):
                yield f"{path}: not a whole number" + (f" from {least} on." if least is not None else ".")
        case "array":
            if not isinstance(value, list):
                yield f"{path}: not a list."
            for index, each in enumerate(listed):
                yield from _fits(f"{path}[{index}]", each, table(schema.get("items")))
        case "object":
            if not isinstance(value, Mapping):
                yield f"{path}: not a map."
            for key, each in entries.items():
                yield from _fits(f"{path}.{key}", each, table(schema.get("additionalProperties")))
        case _:
            if text(value) is None:
                yield f"{path}: not a text."
