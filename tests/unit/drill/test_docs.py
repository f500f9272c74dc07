"""The page about drills has the table of scenarios as it is."""

from __future__ import annotations

from drill.docs import FILE, written


def test_the_table_is_current() -> None:
    page = FILE.read_text(encoding="utf-8")
    assert written(page) == page, "run `python -m drill.docs`"
