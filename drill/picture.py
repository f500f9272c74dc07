"""The report as a picture: the stages on a line of time, and the run's losses over those of the undisturbed run."""

# matplotlib leaves the types of its keyword arguments open.
# pyright: reportUnknownMemberType=false

from __future__ import annotations

import base64
import html
import io
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from drill.losses import Step
from drill.report import OWNERS, Report, text

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_COLOURS = {
    "drill": "#444444",
    "job": "#1b7f5c",
    "webhook": "#b8860b",
    "kubernetes": "#3367d6",
    "api": "#8e44ad",
    "slurm": "#c0392b",
}
_INCHES = (12.0, 8.0)
_DPI = 110


def png(report: Report) -> bytes:
    """The picture as PNG."""
    # Imported here: it takes a second, and only a report that is written needs it.
    from matplotlib.figure import Figure

    figure = Figure(figsize=_INCHES, layout="constrained")
    with_losses = bool(report.reference)
    axes: Any = figure.subplots(2 if with_losses else 1, 1, height_ratios=[3, 2] if with_losses else [1], squeeze=False)
    colour = "#1b7f5c" if report.verdict.passed else "#c0392b"
    figure.suptitle(f"Drill {report.scenario.name} on {report.stack}: {report.verdict.word}", color=colour, fontsize=15)
    _time_line(axes[0][0], report)
    if with_losses:
        _curves(axes[1][0], report.reference, report.run)
    out = io.BytesIO()
    figure.savefig(out, format="png", dpi=_DPI)
    return out.getvalue()


def _time_line(axes: Axes, report: Report) -> None:
    shown = report.ordered
    for row, moment in enumerate(shown):
        at, colour = moment.at - report.began, _COLOURS[moment.stage.source]
        axes.plot([at], [row], "o", color=colour, markersize=8)
        axes.annotate(f"{at:+.1f} s", (at, row), xytext=(9, -3), textcoords="offset points", fontsize=8, color=colour)
    axes.set_yticks(range(len(shown)), [moment.stage.title for moment in shown], fontsize=9)
    axes.invert_yaxis()
    axes.axvline(0, color="#444444", linewidth=0.8, linestyle=":")
    axes.grid(axis="x", alpha=0.25)
    axes.margins(x=0.1)
    axes.set_xlabel("seconds from the failure")
    axes.set_title("each stage as the system showed it that did it", fontsize=10)
    for source, colour in _COLOURS.items():
        if any(moment.stage.source == source for moment in shown):
            axes.plot([], [], "o", color=colour, label=source)
    axes.legend(loc="lower left", fontsize=8, ncols=3)


def _curves(axes: Axes, reference: Sequence[Step], run: Sequence[Step]) -> None:
    axes.plot(
        [step.step for step in reference],
        [step.value for step in reference],
        color="#bbbbbb",
        linewidth=5,
        label="undisturbed",
    )
    for attempt in sorted({step.attempt for step in run}):
        own = [step for step in run if step.attempt == attempt]
        axes.plot([step.step for step in own], [step.value for step in own], linewidth=1.4, label=f"attempt {attempt}")
    axes.set_xlabel("step")
    axes.set_ylabel("loss")
    axes.grid(alpha=0.25)
    axes.legend(fontsize=8)


def page(report: Report, picture: bytes) -> str:
    """The report as a page that stands alone."""
    shares = "".join(
        f"<tr><td>{html.escape(OWNERS[owner])}</td><td>{seconds:.1f} s</td></tr>"
        for owner, seconds in report.shares.items()
    )
    data = base64.b64encode(picture).decode()
    title = f"Drill {report.scenario.name}: {report.verdict.word}"
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{html.escape(title)}</title>'
        "<style>body{font:15px/1.5 system-ui,sans-serif;max-width:75rem;margin:2rem auto;padding:0 1rem}"
        "img{max-width:100%}pre{overflow:auto;background:#f6f6f6;padding:1rem}td{padding:0 1.5rem 0 0}</style></head>"
        f'<body><h1>{html.escape(title)}</h1><img alt="time line and losses" src="data:image/png;base64,{data}">'
        f"<table>{shares}</table><pre>{html.escape(text(report))}</pre></body></html>\n"
    )


def save(report: Report, folder: Path) -> Path:
    """Write `report.png` and `report.html` into a folder; returns the page's path."""
    picture = png(report)
    (folder / "report.png").write_bytes(picture)
    (folder / "report.html").write_text(page(report, picture), encoding="utf-8")
    return folder / "report.html"
