"""Runs the matrix and writes its tables into docs/reliability.md: `make faults`.

`make faults ARGS='pool partial'` runs only cells whose names have these words, and keeps what is known of others.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests import pages
from tests.provider.faults import report
from tests.provider.faults.cell import Outcome, Trial
from tests.provider.faults.site import site_in
from tests.provider.faults.table import CELLS


def main(words: Sequence[str]) -> int:
    """Run the cells, say what does not hold, and write the tables when everything does."""
    outcomes: dict[str, Outcome] = report.known(pages.part(report.COMMAND)) if words else {}
    cells = [cell for cell in CELLS if all(word in cell.name for word in words)]
    wrong = 0
    with tempfile.TemporaryDirectory(prefix="faults-") as folder, site_in(Path(folder)) as site:
        for number, cell in enumerate(cells):
            try:
                outcomes[cell.name] = Trial(site, cell, f"cell-{number:03}").outcome()
            except AssertionError as error:
                wrong += 1
                print(f"{cell.name}: {error}", flush=True)
            if (number + 1) % 50 == 0 or cell is cells[-1]:
                print(f"{number + 1} of {len(cells)} cells, {wrong} do not hold", flush=True)
    if wrong:
        return 1
    pages.write(report.COMMAND, report.tables(outcomes))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
