"""Parts of pages that a run writes: between two comments, the first of which names the command that makes the part."""

from __future__ import annotations

from pathlib import Path

from tests.harness import ROOT

RELIABILITY = ROOT / "docs" / "reliability.md"


def _marks(command: str) -> tuple[str, str]:
    return f"<!-- Made by `{command}`. -->\n", f"<!-- End of what `{command}` made. -->\n"


def part(command: str, page: Path = RELIABILITY) -> str:
    """What a command has made of a page. Raises ValueError where its marks are missing."""
    text = page.read_text(encoding="utf-8")
    begin, end = _marks(command)
    start = text.index(begin) + len(begin)
    return text[start : text.index(end, start)]


def write(command: str, made: str, page: Path = RELIABILITY) -> None:
    """Put what a command has made into a page. Raises ValueError where its marks are missing."""
    text = page.read_text(encoding="utf-8")
    begin, end = _marks(command)
    start = text.index(begin) + len(begin)
    page.write_text(f"{text[:start]}{made}{text[text.index(end, start) :]}", encoding="utf-8")
