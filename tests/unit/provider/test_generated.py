"""Generated secrets: drawn once, imported from a file, never shown."""

from __future__ import annotations

import base64
import string
from pathlib import Path

import pytest

from crusoe.provider.faults import RefusalError
from crusoe.provider.generated import GeneratedSecret, draw
from crusoe.provider.values import UNKNOWN
from tests.unit.provider.support import Bench, values

INPUTS = values(length=32, encoding="base64")


@pytest.mark.parametrize("length", [16, 32, 1024])
def test_encodings(length: int) -> None:
    assert len(bytes.fromhex(draw(length, "hex"))) == length
    assert len(base64.b64decode(draw(length, "base64"), validate=True)) == length
    url = draw(length, "base64url")
    assert len(base64.urlsafe_b64decode(url + "=" * (-len(url) % 4))) == length
    assert "=" not in url
    text = draw(length, "alphanumeric")
    assert len(text) == length
    assert set(text) <= set(string.ascii_letters + string.digits)


def test_two_are_different() -> None:
    kind = GeneratedSecret()
    (one, state), (two, other) = kind.create(Bench().run(), INPUTS), kind.create(Bench().run(), INPUTS)
    assert one != two
    assert state["value"] != other["value"]
    assert str(state["value"]) not in one
    assert kind.secrets == {"value"}


def test_it_needs_no_cloud() -> None:
    bench = Bench()
    kind = GeneratedSecret()
    object_id, state = kind.create(bench.run(), INPUTS)
    found = kind.read(bench.run(), object_id, INPUTS, state)
    assert found is not None
    assert (found.inputs, found.state) == (INPUTS, state)
    kind.delete(bench.run(), object_id, state)
    assert not bench.api.requests


def test_another_keeper_draws_anew_in_place() -> None:
    bench, kind = Bench(), GeneratedSecret()
    object_id, state = kind.create(bench.run(), INPUTS)
    news = {**INPUTS, **values(keepers={"rotation": "2"})}
    changes = kind.differences(INPUTS, state, news)
    assert [(one.path, one.replaces) for one in changes] == [("keepers", False)]
    assert kind.planned_update(state, news, changes)["value"] is UNKNOWN
    after = kind.update(bench.run(), object_id, state, news, changes)
    assert after["value"] != state["value"]
    assert len(base64.b64decode(str(after["value"]), validate=True)) == 32
    assert not kind.differences(news, after, news)
    assert kind.update(bench.run(), object_id, after, news, [])["value"] == after["value"]


@pytest.mark.parametrize("change", [{"length": 64}, {"encoding": "hex"}])
def test_another_form_replaces(change: dict[str, object]) -> None:
    kind = GeneratedSecret()
    found = kind.differences(INPUTS, kind.state_of(INPUTS, {}), {**INPUTS, **values(**change)})
    assert found
    assert all(one.replaces for one in found)
    assert not kind.delete_before_replace


def test_too_short_is_refused() -> None:
    found = GeneratedSecret().check(Bench().session, {}, values(length=8, encoding="base32"))
    assert {one.path for one in found} == {"length", "encoding"}


class TestImport:
    def test_the_value_comes_from_a_file_and_the_inputs_from_the_program(self, tmp_path: Path) -> None:
        key = tmp_path / "key"
        key.write_text("an-existing-key\n")
        kind = GeneratedSecret()
        found = kind.read(Bench().run(), f"file:{key}", {}, {})
        assert found is not None
        assert found.state["value"] == "an-existing-key"
        assert found.inputs == {}
        assert "existing" not in found.object_id
        assert not kind.differences(found.inputs, found.state, {**INPUTS, "keepers": {"a": "b"}})

    def test_anything_else_is_refused_without_repeating_it(self) -> None:
        with pytest.raises(RefusalError, match=r"give `file:PATH`") as error:
            GeneratedSecret().read(Bench().run(), "s3cr3t", {}, {})
        assert "s3cr3t" not in str(error.value)

    def test_files_that_do_not_do(self, tmp_path: Path) -> None:
        empty, binary = tmp_path / "empty", tmp_path / "binary"
        empty.write_text(" \n")
        binary.write_bytes(b"\xff\xfe")
        for path, told in ((empty, "is empty"), (binary, "not text"), (tmp_path / "none", "No such file")):
            with pytest.raises(RefusalError, match=told):
                GeneratedSecret().read(Bench().run(), f"file:{path}", {}, {})
