"""Each fault in each operation, on kinds that take their turns, and whether the published tables are these."""

from __future__ import annotations

import pytest

from tests import pages
from tests.provider.faults import messages, report
from tests.provider.faults.cell import Outcome, Site, Trial
from tests.provider.faults.kinds import ROWS
from tests.provider.faults.table import CELLS, FAULTS, FEW, OPERATIONS, Cell, why_not


@pytest.fixture(scope="module")
def page() -> dict[tuple[str, str, str], str]:
    return report.published(pages.part(report.COMMAND))


@pytest.mark.parametrize("cell", FEW, ids=lambda cell: cell.name)
def test_cell(site: Site, cell: Cell, page: dict[tuple[str, str, str], str]) -> None:
    outcome = Trial(site, cell, f"cell-{CELLS.index(cell):03}").outcome()
    assert page[cell.operation, cell.fault.title, cell.row.title] == report.MARKS[outcome]


def test_every_fault_is_tried_in_every_operation_and_every_kind_has_its_turn() -> None:
    tried = {(cell.operation, cell.fault.title) for cell in FEW}
    assert tried == {(cell.operation, cell.fault.title) for cell in CELLS}
    assert {cell.row.title for cell in FEW} == {row.title for row in ROWS}


def test_the_published_tables_are_whole(page: dict[tuple[str, str, str], str]) -> None:
    places = {(operation, fault.title, row.title) for operation in OPERATIONS for fault in FAULTS for row in ROWS}
    assert set(page) == places
    numbers = {reason: str(number) for number, reason in enumerate(report.reasons(), start=1)}
    for operation in OPERATIONS:
        for fault in FAULTS:
            for row in ROWS:
                shown, reason = page[operation, fault.title, row.title], why_not(row, operation, fault)
                assert shown in ({numbers[reason]} if reason else set(report.MARKS.values()))
    text = pages.part(report.COMMAND)
    assert all(f"{number}. {reason}\n" in text for reason, number in numbers.items())


GOOD = "Creating disk data: POST storage/disks: internal error (HTTP 500). Run the same command again later."


@pytest.mark.parametrize(
    ("message", "fault"),
    [
        (GOOD, None),
        (GOOD.replace("data", "other"), "names none"),
        (GOOD.replace(" Run the same command again later.", ""), "what to do"),
        (GOOD.replace("internal error", "oops"), "does not say 'internal error'"),
        (GOOD.replace("Creating disk data: POST ", "Disk data: "), "what was being done"),
        (GOOD + '\n  File "x.py"', "a trace"),
        (GOOD.replace("disks", "disks?key=hidden"), "a secret"),
        (GOOD.rstrip("."), "no sentence"),
        (GOOD.replace("again", "again " * 200), "characters"),
    ],
)
def test_what_a_message_owes_its_reader(message: str, fault: str | None) -> None:
    found = messages.faults_of(message, about=("data",), said="internal error", secrets=("hidden",))
    assert (fault is None) == (not found)
    assert fault is None or any(fault in one for one in found)


def test_tables_are_read_as_they_are_written() -> None:
    outcomes: dict[str, Outcome] = {cell.name: list(report.MARKS)[at % 3] for at, cell in enumerate(CELLS)}
    assert report.known(report.tables(outcomes)) == outcomes
