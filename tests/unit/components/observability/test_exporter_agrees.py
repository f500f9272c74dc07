"""The exporter and the rules know the same metrics; neither is written from the other, nor imports it."""

from __future__ import annotations

from components.observability.metrics import METRICS as ASKED
from exporter.metrics import METRICS as EXPORTED


def test_names_kinds_and_labels_are_the_same() -> None:
    exported = {each.name: (each.kind, each.labels) for each in EXPORTED}
    asked = {name: (each.kind, each.labels) for name, each in ASKED.items() if each.exporter == "gpuplatform"}
    assert asked == exported
