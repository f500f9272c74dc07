"""The matrix as tables of a page: what became of each cell, and why some are empty."""

from __future__ import annotations

from collections.abc import Mapping

from tests.provider.faults.cell import Outcome
from tests.provider.faults.kinds import ROWS, Row
from tests.provider.faults.table import CELLS, FAULTS, OPERATIONS, Cell, Fault, Operation, why_not

COMMAND = "make faults"
MARKS: Mapping[Outcome, str] = {"done": "✓", "told": "t", "kept": "k"}

_TASKS: Mapping[Operation, str] = {
    "create": "Creating",
    "read": "Reading (refresh)",
    "update": "Updating",
    "delete": "Deleting",
}


def reasons() -> list[str]:
    """Why cells are empty, in the order of their letters."""
    found = (why_not(row, operation, fault) for operation in OPERATIONS for fault in FAULTS for row in ROWS)
    return list(dict.fromkeys(reason for reason in found if reason is not None))


def mark(row: Row, operation: Operation, fault: Fault, outcomes: Mapping[str, Outcome]) -> str:
    """What stands in a cell."""
    reason = why_not(row, operation, fault)
    if reason is not None:
        return str(reasons().index(reason) + 1)
    return MARKS[outcomes[Cell(row, operation, fault).name]]


def tables(outcomes: Mapping[str, Outcome]) -> str:
    """The whole matrix in Markdown, from what became of each cell, by its name."""
    lines: list[str] = []
    for operation in OPERATIONS:
        lines += ["", f"### {_TASKS[operation]}", "", f"| | {' | '.join(row.title for row in ROWS)} |"]
        lines.append(f"|---|{'---|' * len(ROWS)}")
        for fault in FAULTS:
            cells = (mark(row, operation, fault, outcomes) for row in ROWS)
            lines.append(f"| {fault.title} | {' | '.join(cells)} |")
    lines += ["", f"{len(CELLS)} cells were run. Empty ones, by number:", ""]
    lines += [f"{number}. {reason}" for number, reason in enumerate(reasons(), start=1)]
    return "\n".join([*lines, "", ""])


def known(page: str) -> dict[str, Outcome]:
    """What became of the cells that a page shows, by their names."""
    shown = published(page)
    outcomes: dict[str, Outcome] = {mark: outcome for outcome, mark in MARKS.items()}
    places = {cell.name: (cell.operation, cell.fault.title, cell.row.title) for cell in CELLS}
    return {name: outcomes[shown[place]] for name, place in places.items() if shown.get(place) in outcomes}


def published(page: str) -> dict[tuple[str, str, str], str]:
    """What stands in each cell of tables in Markdown, by operation, fault and kind."""
    found: dict[tuple[str, str, str], str] = {}
    operation, titles = "", list[str]()
    names = {task: name for name, task in _TASKS.items()}
    for line in page.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("### "):
            operation, titles = names[line.removeprefix("### ")], []
        elif line.startswith("| |"):
            titles = cells[1:]
        elif line.startswith("| ") and titles:
            found |= {(operation, cells[0], title): cell for title, cell in zip(titles, cells[1:], strict=True)}
    return found
