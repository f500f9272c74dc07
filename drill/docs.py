"""Writes the table of scenarios into docs/drill.md: `python -m drill.docs`."""

from __future__ import annotations

from pathlib import Path

from drill.scenarios import SCENARIOS

FILE = Path(__file__).parents[1] / "docs" / "drill.md"
BEGIN, END = "<!-- Made by `python -m drill.docs`; change drill/scenarios.py. -->\n", "<!-- end of the table -->\n"


def table() -> str:
    """The table, one row for each scenario."""
    rows = [f"| `{each.name}` | {each.what} | {each.outcome} |\n" for each in SCENARIOS]
    return f"{BEGIN}\n| scenario | what happens | what has to come of it |\n|---|---|---|\n{''.join(rows)}\n{END}"


def written(page: str) -> str:
    """The page with the table as it has to be. Raises ValueError where its marks are missing."""
    before, rest = page[: page.index(BEGIN)], page[page.index(END) + len(END) :]
    return f"{before}{table()}{rest}"


if __name__ == "__main__":
    FILE.write_text(written(FILE.read_text(encoding="utf-8")), encoding="utf-8")
