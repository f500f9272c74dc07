"""Values between the engine's wire format and Python."""

from __future__ import annotations

import pytest
from google.protobuf.json_format import MessageToDict, ParseDict
from google.protobuf.struct_pb2 import Struct
from hypothesis import given
from hypothesis import strategies as st
from pulumi.runtime import rpc

from crusoe.provider import values
from crusoe.provider.values import UNKNOWN, UnsupportedValueError, decode, encode, has_unknown

SCALARS = st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=8) | st.just(UNKNOWN)
PLAIN = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3)
)
FIELDS = st.dictionaries(st.sampled_from("abcdef"), PLAIN, max_size=4)


def struct(fields: dict[str, object]) -> Struct:
    return ParseDict(fields, Struct())


def test_the_markers_are_the_sdks() -> None:
    own = (values.SIGNATURE, values.SECRET, values.OUTPUT, values.ASSET, values.ARCHIVE, values.REFERENCE)
    names = ("key", "secret", "output_value", "asset", "archive", "resource")
    sdk = tuple(getattr(rpc, f"_special_{'sig_key' if name == 'key' else name + '_sig'}") for name in names)
    assert own == sdk
    assert values.UNKNOWN_TEXT == rpc.UNKNOWN


@given(FIELDS, st.sets(st.sampled_from("abcdef")))
def test_what_is_written_is_read_back(fields: dict[str, values.Value], secret: set[str]) -> None:
    bag = decode(encode(fields, secret))
    assert bag.values == fields
    assert bag.secret == secret & set(fields)


def test_a_secret_anywhere_marks_the_whole_property() -> None:
    inner = {values.SIGNATURE: values.SECRET, "value": "hidden"}
    bag = decode(struct({"a": {"b": ["x", inner]}, "c": 1}))
    assert bag.values == {"a": {"b": ["x", "hidden"]}, "c": 1}
    assert bag.secret == {"a"}


def test_an_unknown_secret_stays_both() -> None:
    written = MessageToDict(encode({"a": UNKNOWN}, {"a"}))
    assert written == {"a": {values.SIGNATURE: values.SECRET, "value": rpc.UNKNOWN}}
    bag = decode(struct(written))
    assert bag.values == {"a": UNKNOWN}
    assert bag.secret == {"a"}


def test_output_values_are_read_as_what_they_hold() -> None:
    known = {values.SIGNATURE: values.OUTPUT, "value": 3, "secret": True, "dependencies": ["urn"]}
    bag = decode(struct({"a": known, "b": {values.SIGNATURE: values.OUTPUT}}))
    assert bag.values == {"a": 3, "b": UNKNOWN}
    assert bag.secret == {"a"}


def test_whole_numbers_are_integers_and_null_is_absent() -> None:
    bag = decode(struct({"a": 2, "b": 2.5, "c": None, "d": {"e": None}}))
    assert bag.values == {"a": 2, "b": 2.5, "d": {}}
    assert isinstance(bag.values["a"], int)
    assert "c" not in encode({"c": None}).fields


@pytest.mark.parametrize(
    ("signature", "what"),
    [(values.ASSET, "an asset"), (values.ARCHIVE, "an archive"), (values.REFERENCE, "a resource")],
)
def test_other_kinds_of_values_are_refused_by_place(signature: str, what: str) -> None:
    with pytest.raises(UnsupportedValueError, match=rf"^disk\.list\[1\] is {what};"):
        decode(struct({"disk": {"list": ["x", {values.SIGNATURE: signature}]}}))


def test_unknowns_are_found_anywhere() -> None:
    assert has_unknown({"a": ["x", {"b": UNKNOWN}]})
    assert not has_unknown({"a": ["x", {"b": "y"}]})
