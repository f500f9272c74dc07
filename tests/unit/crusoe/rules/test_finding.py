"""A finding is one line, whatever names the user gave."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from crusoe.rules.finding import Finding


@given(path=st.text(), problem=st.text(), fix=st.text())
@example(path="platform.cloud.e\n", problem="no\r\nsuch", fix="\x1b[31mred\x85\u2028")
def test_any_text_is_one_line_that_a_terminal_only_shows(path: str, problem: str, fix: str) -> None:
    said = str(Finding(path, problem, fix))
    assert said.isprintable()
    assert len(said.splitlines()) == 1


@pytest.mark.parametrize("text", ["platform.nodePools.train", "ein Gerät, 8 €", "模型"])
def test_what_can_be_printed_stays_as_it_is(text: str) -> None:
    assert Finding(text, text, text) == Finding(text, text, text)
    assert Finding(text, text, text).path == text


def test_an_end_of_a_line_is_shown_as_it_is_written() -> None:
    assert Finding("a\nb", "c", "d").path == "a\\nb"
