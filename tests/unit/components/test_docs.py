"""The generated settings reference: current and complete."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast

import pytest

from components import docs
from components.platform import PlatformSettings
from components.settings import Settings

Schema = Mapping[str, Any]


def models(model: type[Settings] = PlatformSettings) -> Iterator[tuple[str, Schema]]:
    schema = model.model_json_schema()
    yield model.__name__, schema
    yield from cast("Mapping[str, Schema]", schema["$defs"]).items()


@pytest.mark.parametrize("path", docs.files(), ids=lambda path: path.name)
def test_the_generated_files_are_current(path: Path) -> None:
    assert path.read_text(encoding="utf-8") == docs.files()[path], "run `python -m components.docs`"


@pytest.mark.parametrize(("name", "schema"), list(models()), ids=lambda value: value if isinstance(value, str) else "")
def test_every_setting_says_what_it_is_and_gives_an_example(name: str, schema: Schema) -> None:
    assert schema["description"], name
    for key, field in schema["properties"].items():
        assert field.get("description"), f"{name}.{key}"
        assert field["examples"], f"{name}.{key}"


def test_the_reference_lists_every_setting() -> None:
    text = docs.reference()
    for _, schema in models():
        for key in schema["properties"]:
            assert f"| `{key}` |" in text


def test_check_says_which_file_is_not_current(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(docs, "DOCS", tmp_path)
    assert docs.main(["--check"]) == 1
    assert "docs/settings.md is not current" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
    assert docs.main([]) == 0
    assert docs.main(["--check"]) == 0
    assert json.loads((tmp_path / "settings.schema.json").read_text(encoding="utf-8"))["type"] == "object"
