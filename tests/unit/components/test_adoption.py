"""What `adoption:ids` does to a program's resources, and what it must not be."""

from __future__ import annotations

import json
from typing import Any

import pulumi
import pytest

from components.adoption import take_over


class Given:
    """A configuration with one value under `ids`."""

    def __init__(self, text: str | None) -> None:
        self._text = text

    def get_object(self, key: str) -> Any:
        assert key == "ids"
        if self._text is None:
            return None
        try:
            return json.loads(self._text)
        except ValueError:
            raise pulumi.ConfigTypeError(key, self._text, "object") from None


def transformation(monkeypatch: pytest.MonkeyPatch, text: str | None) -> list[Any]:
    registered: list[Any] = []
    monkeypatch.setattr("pulumi.runtime.register_stack_transformation", registered.append)
    take_over(Given(text))  # pyright: ignore[reportArgumentType]  it asks for one value
    return registered


def test_nothing_is_touched_without_it(monkeypatch: pytest.MonkeyPatch) -> None:
    assert transformation(monkeypatch, None) == []


def test_what_is_named_is_imported_and_protected_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    [change] = transformation(monkeypatch, '{"platform-network-vpc": "an-id"}')

    def result(name: str) -> pulumi.ResourceTransformationResult | None:
        given = pulumi.ResourceOptions(protect=False, delete_before_replace=True)
        return change(pulumi.ResourceTransformationArgs(None, "t", name, {"a": 1}, given))  # pyright: ignore

    found = result("platform-network-vpc")
    assert found is not None
    assert (found.opts.import_, found.opts.protect, found.opts.delete_before_replace) == ("an-id", True, True)
    assert found.props == {"a": 1}
    assert result("platform-network-subnet") is None


@pytest.mark.parametrize("text", ["{", "[]", '"x"', '{"a": 1}', '{"a": {"b": "c"}}', "3"])
def test_what_is_no_map_is_refused_in_a_sentence(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    with pytest.raises(pulumi.RunError, match=r"pulumi config rm adoption:ids"):
        transformation(monkeypatch, text)
