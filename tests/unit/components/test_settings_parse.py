"""How any settings model is read, and how what is wrong with it is told."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

import pytest
from pydantic import Field, ValidationError

from components.settings import Form, Plain, Settings, SettingsError, parse, with_defaults
from crusoe.rules.finding import Finding


class Inner(Settings):
    """Something inside."""

    version: str = Field(description="A version.", examples=["1.35.5"])
    wanted_nodes: int = Field(default=2, description="A number.", examples=[2])
    exact: bool = Field(default=False, description="A truth value.", examples=[True])
    kind: Literal["a", "b"] = Field(default="a", description="One of two.", examples=["b"])


class Outer(Settings):
    """Something."""

    inner: Inner = Field(description="One.", examples=[{"version": "1.35.5"}])
    pools: Mapping[str, Inner] = Field(default={}, description="Many.", examples=[{"x": {"version": "1"}}])
    ways: tuple[Inner, ...] = Field(default=(), description="A list.", examples=[[{"version": "1"}]])
    maybe: Inner | None = Field(default=None, description="One or none.", examples=[{"version": "1"}])
    code: Annotated[str, Form(r"[a-z]+", "not a code of lower-case letters")] = Field(
        default="x", description="A code.", examples=["abc"]
    )


def told(document: object) -> dict[str, tuple[str, str]]:
    with pytest.raises(SettingsError) as caught:
        parse(Outer, document, "root")
    return {finding.path: (finding.problem, finding.fix) for finding in caught.value.findings}


def test_reads_camel_case_and_fills_defaults() -> None:
    outer = parse(Outer, {"inner": {"version": "1.35.5", "wantedNodes": 3}, "ways": [{"version": "2"}]}, "root")
    assert outer.inner.wanted_nodes == 3
    assert outer.ways[0].wanted_nodes == 2


def test_settings_are_frozen() -> None:
    outer = parse(Outer, {"inner": {"version": "1.35.5"}}, "root")
    with pytest.raises(ValidationError):
        outer.inner.version = "2"  # pyright: ignore[reportAttributeAccessIssue] - that is the point


@pytest.mark.parametrize("name", ["wanted_nodes", "WantedNodes", "wantedNode"])
def test_a_setting_has_one_name_only(name: str) -> None:
    problem, fix = told({"inner": {"version": "1", name: 3}})[f"root.inner.{name}"]
    assert "no such setting" in problem
    assert fix == "Write wantedNodes"


def test_an_unknown_setting_that_resembles_nothing_lists_the_known_ones() -> None:
    assert told({"inner": {"version": "1"}, "zzz": 1})["root.zzz"][1] == "Known here: code, inner, maybe, pools, ways"


@pytest.mark.parametrize(
    ("place", "document"),
    [
        ("root.inner.version", {"inner": {"version": 1.35}}),
        ("root.pools.p.version", {"inner": {"version": "1"}, "pools": {"p": {"version": 10}}}),
        ("root.ways[1].version", {"inner": {"version": "1"}, "ways": [{"version": "1"}, {"version": True}]}),
        ("root.maybe.version", {"inner": {"version": "1"}, "maybe": {"version": 1}}),
    ],
)
def test_text_that_yaml_turned_into_something_else_is_to_be_quoted(place: str, document: Mapping[str, object]) -> None:
    problem, fix = told(document)[place]
    assert "YAML reads this as a number" in problem
    assert fix == 'Quote it, for example version: "1.35.5"'


@pytest.mark.parametrize(
    ("value", "problem", "fix"),
    [
        ({"wantedNodes": "2"}, "not a whole number", "Write it without quotes or decimals, for example wantedNodes: 2"),
        (
            {"wantedNodes": True},
            "not a whole number",
            "Write it without quotes or decimals, for example wantedNodes: 2",
        ),
        ({"wantedNodes": 2.5}, "not a whole number", "Write it without quotes or decimals, for example wantedNodes: 2"),
        ({"exact": "on"}, "neither true nor false", "Write true or false, without quotes"),
        ({"kind": "c"}, "not one of the known values", "Write 'a' or 'b'"),
    ],
)
def test_wrong_types(value: Mapping[str, object], problem: str, fix: str) -> None:
    (finding,) = told({"inner": {"version": "1", **value}}).values()
    assert finding == (problem, fix)


@pytest.mark.parametrize("document", [None, "text", 3, []])
def test_a_document_that_is_no_map(document: object) -> None:
    assert told(document) == {"root": ("not a map of settings", "Write keys and values below it")}


def test_other_shapes() -> None:
    found = told({"inner": [], "pools": [], "ways": {}, "code": "A1"})
    assert found["root.inner"][0] == "not a map of settings"
    assert found["root.pools"][0] == "not a map of settings"
    assert found["root.ways"] == ("not a list", 'Write a list, for example ways: [{"version": "1"}]')
    assert found["root.code"] == ("not a code of lower-case letters", 'Write one, for example code: "abc"')
    assert told({})["root.inner"] == ("missing", 'Set it, for example inner: {"version": "1.35.5"}')


def test_all_faults_are_told_at_once_with_those_of_the_checks() -> None:
    def check(plain: Plain) -> list[Finding]:
        assert plain["code"] == "x", "checks see defaults"
        return [Finding("root.code", "checked", "Change it"), Finding("root.inner.version", "told already", "")]

    with pytest.raises(SettingsError) as caught:
        parse(Outer, {"inner": {"version": 1, "kind": "c"}, "more": 1}, "root", [check])
    paths = [finding.path for finding in caught.value.findings]
    assert paths == ["root.inner.version", "root.inner.kind", "root.more", "root.code"]


def test_a_finding_of_a_check_refuses_settings_of_the_right_shape() -> None:
    with pytest.raises(SettingsError, match="root\\.code: bad\\. Change it\\."):
        parse(Outer, {"inner": {"version": "1"}}, "root", [lambda _: [Finding("root.code", "bad", "Change it")]])


def test_no_message_repeats_a_refused_value() -> None:
    secret = "hunter2-Canary"
    document = {
        "inner": {"version": [secret], "wantedNodes": secret, "exact": secret, "kind": secret},
        "pools": secret,
        "ways": secret,
        "code": secret,
    }
    with pytest.raises(SettingsError) as caught:
        parse(Outer, document, "root")
    assert len(caught.value.findings) == 7
    assert secret not in str(caught.value)


def test_defaults_are_filled_in_at_every_depth() -> None:
    plain = with_defaults(Outer, {"inner": {"version": 1}, "pools": {"p": {}}, "ways": [{"kind": "b"}], "maybe": None})
    assert plain == {
        "inner": {"version": 1, "wantedNodes": 2, "exact": False, "kind": "a"},
        "pools": {"p": {"wantedNodes": 2, "exact": False, "kind": "a"}},
        "ways": [{"wantedNodes": 2, "exact": False, "kind": "b"}],
        "maybe": None,
        "code": "x",
    }
