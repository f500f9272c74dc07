"""Every test here sees an output that was turned into text by mistake."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def no_output_as_text(monkeypatch: pytest.MonkeyPatch) -> None:
    """An f-string over an output raises, instead of giving a text that warns nobody."""
    monkeypatch.setenv("PULUMI_ERROR_OUTPUT_STRING", "1")
