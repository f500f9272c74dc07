"""Check and differences over declared properties."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crusoe.provider import properties
from crusoe.provider.properties import UNREAD, Effect, Property, differences
from crusoe.provider.shapes import Change, Failure, Field, Flag, ListOf, MapOf, Record, Text, Whole
from crusoe.provider.values import UNKNOWN, Value

SPECS = (
    Property("name", Text(), "Name.", required=True),
    Property("cidr", Text(), "Range.", effect=Effect.REPLACE),
    Property("count", Whole(1, 9), "Count."),
    Property("nat", Flag(), "NAT.", assumed=False),
    Property("mode", Text(("on", "off")), "Mode.", assumed="off"),
    Property("labels", MapOf(Text()), "Labels.", assumed={}),
    Property("zones", ListOf(Text()), "Zones.", assumed=[]),
    Property(
        "bounds", Record("Bounds", (Field("min", Whole(), "Min.", required=True), Field("max", Whole(), "Max."))), "B."
    ),
    Property("subnet", Text(), "Subnet.", effect=Effect.REPLACE, computed=True),
    Property("key", Text(), "Key.", effect=Effect.REPLACE, write_only=True),
    Property("adopt", Flag(), "Adopt.", effect=Effect.LOCAL, assumed=False),
)


FITTING: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {"name": st.sampled_from("ab")},
    optional={
        "cidr": st.sampled_from("ab"),
        "count": st.integers(1, 3),
        "nat": st.booleans(),
        "mode": st.sampled_from(["on", "off"]),
        "labels": st.dictionaries(st.sampled_from(["a", "x/y"]), st.sampled_from("12")),
        "bounds": st.fixed_dictionaries({"min": st.integers(0, 1)}, optional={"max": st.integers(1, 2)}),
        "subnet": st.sampled_from("ab"),
        "key": st.sampled_from("ab"),
        "adopt": st.booleans(),
    },
)


def check(**inputs: Any) -> dict[str, str]:
    return {one.path: one.reason for one in properties.check(SPECS, inputs)}


def diff(
    old: dict[str, Value], new: dict[str, Value], state: dict[str, Value] | None = None, replacing: tuple[str, ...] = ()
) -> dict[str, tuple[Change, bool, bool]]:
    state = properties.recorded(SPECS, old, {}) if state is None else state
    found = differences(SPECS, old, state, new, replacing)
    return {one.path: (one.change, one.replaces, one.of_inputs) for one in found}


class TestCheck:
    def test_a_fitting_bag_has_no_faults(self) -> None:
        assert not check(name="a", count=3, nat=True, mode="on", labels={"a": "b"}, zones=["x"], bounds={"min": 1})

    def test_every_fault_is_told_at_once_with_its_path(self) -> None:
        found = check(cuont=1, count="2", nat=1, mode="onn", labels={"a/b": 3}, zones=["x", 4], bounds={"mim": 1})
        assert set(found) == {
            "name",
            "cuont",
            "count",
            "nat",
            "mode",
            'labels["a/b"]',
            "zones[1]",
            "bounds.mim",
            "bounds.min",
        }
        assert found["name"] == "is required: Name."
        assert found["cuont"] == "is not a property here. Did you mean 'count'?"
        assert found["count"] == "must be a whole number, not text"
        assert found["nat"] == "must be true or false, not a number"
        assert found["mode"] == "must be one of on, off. Did you mean 'on'?"
        assert found["bounds.mim"] == "is not a property here. Did you mean 'min'?"

    def test_a_name_like_none_gets_the_list(self) -> None:
        assert "Known are name, cidr" in check(name="a", zzzzzz=1)["zzzzzz"]

    @pytest.mark.parametrize(
        ("count", "told"), [(0, "between 1 and 9"), (10, "between 1 and 9"), (True, "not true or")]
    )
    def test_numbers_have_bounds_and_true_is_none(self, count: int, told: str) -> None:
        assert told in check(name="a", count=count)["count"]

    def test_unknown_values_are_accepted_everywhere(self) -> None:
        assert not check(
            name=UNKNOWN, count=UNKNOWN, labels={"a": UNKNOWN}, zones=[UNKNOWN], bounds={"min": UNKNOWN}, nat=UNKNOWN
        )

    def test_a_value_is_never_repeated(self) -> None:
        assert "hunter2" not in str(check(name="a", count="hunter2", mode="hunter2", zones="hunter2"))

    def test_a_null_in_a_list_is_a_fault(self) -> None:
        assert check(name="a", zones=["x", None]) == {"zones[1]": "must be text, not empty"}

    def test_the_engines_own_names_are_left_alone(self) -> None:
        assert not check(name="a", __internal=1)


class TestDifferences:
    def test_equal_inputs_are_none(self) -> None:
        inputs: dict[str, Value] = {"name": "a", "labels": {"a": "b"}, "zones": ["x", "y"], "bounds": {"min": 1}}
        assert not diff(inputs, inputs)

    def test_in_place_and_replacement_are_told_apart(self) -> None:
        found = diff({"name": "a", "cidr": "x"}, {"name": "b", "cidr": "y"})
        assert found == {"name": (Change.UPDATE, False, True), "cidr": (Change.UPDATE, True, True)}

    def test_a_property_can_replace_this_very_object(self) -> None:
        assert diff({"name": "a"}, {"name": "b"}, replacing=("name",)) == {"name": (Change.UPDATE, True, True)}

    def test_nested_paths(self) -> None:
        old: dict[str, Value] = {"name": "a", "labels": {"a": "1", "b": "2"}, "bounds": {"min": 1, "max": 3}}
        new: dict[str, Value] = {"name": "a", "labels": {"b": "3", "x/y": "4"}, "bounds": {"min": 1}}
        assert diff(old, new) == {
            "labels.a": (Change.DELETE, False, True),
            "labels.b": (Change.UPDATE, False, True),
            'labels["x/y"]': (Change.ADD, False, True),
            "bounds.max": (Change.DELETE, False, True),
        }

    def test_the_order_of_a_list_has_no_meaning(self) -> None:
        assert not diff({"name": "a", "zones": ["x", "y", "y"]}, {"name": "a", "zones": ["y", "x", "y"]})
        assert diff({"name": "a", "zones": ["x", "y"]}, {"name": "a", "zones": ["y", "y"]})

    def test_leaving_out_means_the_assumed_value(self) -> None:
        assert not diff({"name": "a", "mode": "off", "labels": {}}, {"name": "a", "zones": [], "nat": False})
        assert diff({"name": "a", "mode": "on"}, {"name": "a"}) == {"mode": (Change.DELETE, False, True)}

    def test_the_services_choice_stands_when_left_out(self) -> None:
        assert not diff({"name": "a", "subnet": "s"}, {"name": "a"})
        assert not diff({"name": "a"}, {"name": "a"}, {"name": "a", "subnet": "chosen"})
        assert diff({"name": "a"}, {"name": "a", "subnet": "mine"}, {"name": "a", "subnet": "chosen"}) == {
            "subnet": (Change.UPDATE, True, False)
        }

    def test_local_properties_are_no_difference(self) -> None:
        assert not diff({"name": "a", "adopt": True}, {"name": "a", "adopt": False})

    def test_an_unknown_value_is_a_change(self) -> None:
        assert diff({"name": "a", "cidr": "x"}, {"name": "a", "cidr": UNKNOWN}) == {"cidr": (Change.UPDATE, True, True)}

    def test_work_that_a_failed_update_left_undone_shows_again(self) -> None:
        new: dict[str, Value] = {"name": "a", "count": 4}
        assert diff(new, new, {"name": "a", "count": 2}) == {"count": (Change.UPDATE, False, False)}

    def test_a_write_only_property_is_taken_after_an_import_without_a_change(self) -> None:
        imported: dict[str, Value] = {"name": "a", UNREAD: ["key"]}
        assert not diff({"name": "a"}, {"name": "a", "key": "k"}, imported)
        # The run after it has the program's value among its old inputs, and the state still has not.
        assert not diff({"name": "a", "key": "k"}, {"name": "a", "key": "k"}, imported)
        assert diff({"name": "a", "key": "k"}, {"name": "a", "key": "l"}, imported) == {
            "key": (Change.UPDATE, True, True)
        }

    def test_a_write_only_property_of_an_own_object_is_not(self) -> None:
        assert diff({"name": "a"}, {"name": "a", "key": "k"}) == {"key": (Change.ADD, True, True)}

    def test_a_readable_property_that_an_import_did_not_tell(self) -> None:
        state: dict[str, Value] = {"name": "a", UNREAD: ["labels"]}
        assert not diff({"name": "a"}, {"name": "a", "labels": {"a": "b"}}, state)
        after: dict[str, Any] = {"name": "a", "labels": {"a": "b"}}
        assert not diff(after, after, state)
        assert diff(after, {"name": "a", "labels": {"a": "c"}}, state) == {"labels.a": (Change.UPDATE, False, True)}

    @given(FITTING, FITTING)
    def test_differences_are_exactly_those_of_fitting_values(
        self, old: dict[str, Value], new: dict[str, Value]
    ) -> None:
        assert not diff(old, old)
        touched = {path.partition(".")[0].partition("[")[0] for path in diff(old, new)}
        plain = {spec.name: spec.assumed for spec in SPECS}
        meant = {name: (old.get(name, plain[name]), new.get(name, plain[name])) for name in plain}
        differing = {name for name, (one, other) in meant.items() if one != other}
        assert touched == differing - {"adopt"} - ({"subnet"} if "subnet" not in new else set())


class TestReading:
    def test_the_state_speaks_the_words_of_the_inputs(self) -> None:
        assert properties.recorded(SPECS, {"name": "a", "zones": ["x", "y"]}, {"name": "a", "zones": ["y", "x"]}) == {
            "name": "a",
            "zones": ["x", "y"],
        }

    def test_what_the_api_does_not_tell_is_as_asked_for(self) -> None:
        asked: dict[str, Value] = {"name": "a", "mode": "on", "key": "k", "adopt": True}
        assert properties.recorded(SPECS, asked, {"name": "a", "key": "never"}) == asked

    def test_what_the_api_says_is_unset_is_unset(self) -> None:
        assert properties.recorded(SPECS, {"name": "a", "cidr": "x"}, {"cidr": None}) == {"name": "a"}
        assert properties.refreshed(SPECS, {"name": "a", "cidr": "x"}, {"cidr": None}) == {"name": "a"}

    def test_a_refresh_keeps_what_still_holds_and_shows_what_changed(self) -> None:
        asked: dict[str, Value] = {"name": "a", "zones": ["x", "y"], "adopt": True, "key": "k"}
        actual: dict[str, Value] = {"name": "b", "zones": ["y", "x"], "mode": "on", "nat": False, "subnet": "chosen"}
        assert properties.refreshed(SPECS, asked, actual) == {**asked, "name": "b", "mode": "on"}

    def test_an_import_takes_what_is_told_and_notes_the_rest(self) -> None:
        inputs, unread = properties.imported(SPECS, {"name": "a", "nat": True, "mode": "off", "subnet": "s"})
        assert inputs == {"name": "a", "nat": True, "subnet": "s"}
        assert set(unread) == {"cidr", "count", "labels", "zones", "bounds", "key"}

    def test_disagreements_are_of_readable_properties(self) -> None:
        asked: dict[str, Value] = {"name": "a", "key": "k", "adopt": True, "cidr": "x"}
        actual: dict[str, Value] = {
            "name": "a",
            "key": "other",
            "adopt": False,
            "nat": True,
            "subnet": "s",
            "cidr": None,
        }
        assert sorted(properties.disagreements(SPECS, asked, actual)) == ["cidr", "nat"]


def test_a_record_can_have_a_rule_of_its_own() -> None:
    shape = Record(
        "R", (Field("a", Text(), "A."), Field("b", Text(), "B.")), fault=lambda value: "bad" if value else None
    )
    assert list(shape.check({"a": "x"}, "r")) == [Failure("r", "bad")]
    assert not list(shape.check({"a": UNKNOWN}, "r"))
