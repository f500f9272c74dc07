"""Runs the whole matrix and writes its tables into docs/reliability.md: `make faults`."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from tests import pages
from tests.provider.faults import report
from tests.provider.faults.cell import Outcome, Trial
from tests.provider.faults.site import site_in
from tests.provider.faults.table import CELLS


def main() -> int:
    """Run every cell, say what does not hold, and write the tables when everything does."""
    outcomes: dict[str, Outcome] = {}
    wrong = 0
    with tempfile.TemporaryDirectory(prefix="faults-") as folder, site_in(Path(folder)) as site:
        for number, cell in enumerate(CELLS):
            try:
                outcomes[cell.name] = Trial(site, cell, f"cell-{number:03}").outcome()
            except AssertionError as error:
                wrong += 1
                print(f"{cell.name}: {error}", flush=True)
            if (number + 1) % 50 == 0:
                print(f"{number + 1} of {len(CELLS)} cells, {wrong} do not hold", flush=True)
    if wrong:
        return 1
    pages.write(report.COMMAND, report.tables(outcomes))
    return 0


if __name__ == "__main__":
    sys.exit(main())
