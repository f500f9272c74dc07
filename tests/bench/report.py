"""One line for each number: what was measured, what it may be at most, and whether it is."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table


@dataclass(frozen=True)
class Measurement:
    """One number with its upper bound, both in `unit`."""

    name: str
    value: float
    bound: float
    unit: str
    detail: str = ""

    @property
    def holds(self) -> bool:
        """Whether the number keeps its bound."""
        return self.value <= self.bound


def publish(measurements: list[Measurement], file: Path) -> bool:
    """Prints the table, writes it as JSON to `file`, and says whether every bound holds."""
    table = Table("what", "measured", "at most", "", "how")
    for one in measurements:
        verdict = "[green]ok[/]" if one.holds else "[red]over[/]"
        table.add_row(one.name, f"{one.value:.2f} {one.unit}", f"{one.bound:g} {one.unit}", verdict, one.detail)
    Console().print(table)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps([{**asdict(one), "holds": one.holds} for one in measurements], indent=2) + "\n")
    return all(one.holds for one in measurements)
