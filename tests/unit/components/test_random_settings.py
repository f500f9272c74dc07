"""Whatever stands in a stack file, reading it ends in settings or in findings: of every model, sound or broken."""

from __future__ import annotations

import copy
import json
from functools import cache
from pathlib import Path
from typing import Any, cast

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from components.configuration import read
from components.platform import KEY
from components.settings import SettingsError
from crusoe.rules.finding import Finding

ROOT = Path(__file__).parents[3]
WORDS = (
    *("", "train", "system", "chat", "a" * 300, "${x}", "é\x00\n", "true", "0", "-1", "1.5", "10Ti", "7-0", "2-00:00"),
    *("10.0.0.0/16", "0.0.0.0/0", "::/0", "us-east1-a", "h100-80gb-sxm-ib.8x", "c1a.8x", "1.33.4-cmk.43", "1.35.5"),
    *("slinky", "managed", "kueue", "REPLACE_NODE", "OFF", "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5", "oci://example.com/x"),
)
JUNK = (
    st.none()
    | st.booleans()
    | st.sampled_from([0, -1, 1, 2, 10**30, 0.5, -0.0, 1e308])
    | st.sampled_from(WORDS)
    | st.just([])
    | st.builds(dict[str, object])
    | st.just([{"secure": "v1:x"}])
    | st.dictionaries(st.sampled_from(WORDS), st.sampled_from(WORDS), max_size=2)
)


@cache
def schema() -> dict[str, Any]:
    """What docs/settings.md and editors know of the settings; a test keeps it current."""
    return json.loads((ROOT / "docs" / "settings.schema.json").read_text(encoding="utf-8"))


def resolved(node: dict[str, Any]) -> dict[str, Any]:
    while "$ref" in node:
        whole: Any = schema()
        for part in node["$ref"].removeprefix("#/").split("/"):
            whole = whole[part]
        node = whole
    return node


def value(draw: st.DrawFn, node: dict[str, Any], depth: int = 0) -> object:
    """A value as the schema has it, or, now and then, one that it does not have at all."""
    node = resolved(node)
    if draw(st.integers(0, 29)) == 0:
        return draw(JUNK)
    for several in ("anyOf", "oneOf"):
        if several in node:
            return value(draw, draw(st.sampled_from(node[several])), depth)
    if "enum" in node or "const" in node:
        return draw(st.sampled_from(node.get("enum") or [node["const"]]))
    match node.get("type"):
        case "object":
            return an_object(draw, node, depth)
        case "array":
            count = draw(st.integers(0, 2))
            return [value(draw, node.get("items", {}), depth + 1) for _ in range(count)]
        case "integer" | "number":
            low = node.get("minimum", 0)
            return draw(st.sampled_from([low, low + 1, low + 2, 8, 64, 1000, node.get("maximum", 10**6)]))
        case "boolean":
            return draw(st.booleans())
        case "null":
            return None
        case _:
            return draw(st.sampled_from([*node.get("examples", []), *WORDS]))


def an_object(draw: st.DrawFn, node: dict[str, Any], depth: int) -> dict[str, object]:
    required = set(node.get("required", ()))
    often = 1 if depth == 0 else 3
    made = {
        key: value(draw, each, depth + 1)
        for key, each in node.get("properties", {}).items()
        if key in required or draw(st.integers(0, often)) == 0
    }
    if isinstance(more := node.get("additionalProperties"), dict):
        names = draw(st.lists(st.sampled_from(WORDS), max_size=2, unique=True))
        made |= {name: value(draw, cast("dict[str, Any]", more), depth + 1) for name in names}
    return made


@st.composite
def documents(draw: st.DrawFn) -> object:
    """Settings of every model, from the schema."""
    return value(draw, schema())


def platform(stack: str) -> dict[str, Any]:
    whole = yaml.safe_load((ROOT / f"Pulumi.{stack}.yaml").read_text(encoding="utf-8"))
    return whole["config"]["platform"]


@st.composite
def broken(draw: st.DrawFn) -> object:
    """An environment as it is shipped, with up to three values taken out, replaced or added."""
    document = copy.deepcopy(platform(draw(st.sampled_from(["dev", "staging", "prod"]))))
    for _ in range(draw(st.integers(1, 3))):
        inside: Any = document
        while children := [key for key, each in inside.items() if isinstance(each, dict) and each]:
            if draw(st.integers(0, 2)) == 0:
                break
            inside = inside[draw(st.sampled_from(children))]
        key = draw(st.sampled_from([*inside, "extra"]))
        if draw(st.booleans()):
            inside.pop(key, None)
        else:
            inside[key] = draw(JUNK)
    return document


def refusal(document: object, stack: str) -> tuple[Finding, ...]:
    """What is wrong with a document; each finding is one line that says where, what, and what to do."""
    try:
        read(document, stack)
    except SettingsError as error:
        found = error.findings
    else:
        return ()
    assert found
    for finding in found:
        assert finding.path.split(".")[0].split("[")[0] == KEY
        assert finding.problem.strip()
        assert finding.fix.strip()
        assert "\n" not in str(finding)
    return found


@settings(max_examples=150)
@given(document=documents(), stack=st.sampled_from(["dev", "prod"]))
def test_settings_of_every_model_are_read_or_refused_in_words(document: object, stack: str) -> None:
    refusal(document, stack)


@settings(max_examples=150)
@given(document=broken(), stack=st.sampled_from(["dev", "prod"]))
def test_a_broken_environment_is_read_or_refused_in_words(document: object, stack: str) -> None:
    refusal(document, stack)


@pytest.mark.parametrize("document", [None, [], "platform", 7, {"network": None}, {"": {}}, {"nodePools": {"": None}}])
def test_what_is_no_settings_at_all_is_refused(document: object) -> None:
    assert refusal(document, "dev")
