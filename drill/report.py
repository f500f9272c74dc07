"""A drill's report as text and as JSON: pure functions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, get_args

from drill.losses import Comparison, Step
from drill.scenarios import Scenario
from drill.stages import Moment, Owner, Story
from drill.verdict import Verdict, wanted
from exporter.figures import Moment as Named
from exporter.figures import figures

OWNERS: Mapping[Owner, str] = {
    "delay": "settable delays",
    "cloud": "AutoClusters and Kubernetes",
    "platform": "this project",
    "slurm": "Slurm",
    "pytorch": "PyTorch and the job's start",
    "job": "the job",
}


@dataclass(frozen=True)
class Sum:
    """One of the sums of times that have to fit into each other: `terms` by name, in seconds."""

    name: str
    terms: Mapping[str, float]

    @property
    def total(self) -> float:
        """The sum."""
        return sum(self.terms.values())


@dataclass(frozen=True)
class Report:
    """All that a drill has found."""

    scenario: Scenario
    stack: str
    story: Story
    reached: Mapping[str, Moment]
    shares: Mapping[Owner, float]
    compared: Comparison | None
    verdict: Verdict
    run: Sequence[Step] = ()
    reference: Sequence[Step] = ()
    sums: Sequence[Sum] = ()
    notes: Sequence[str] = ()

    @property
    def began(self) -> float:
        """The moment from which the report counts: the failure, or else the first thing that was seen."""
        first = min((moment.at for moment in self.reached.values()), default=0.0)
        return self.story.fault_at or first

    @property
    def ordered(self) -> list[Moment]:
        """The stages that were reached, in order."""
        return sorted(self.reached.values(), key=lambda moment: moment.at)

    @property
    def figures(self) -> dict[str, float]:
        """The recovery figures, as the platform's exporter has them."""
        named: tuple[Named, ...] = get_args(Named)
        return figures({key: self.reached[key].at for key in named if key in self.reached})

    @property
    def resume_seconds(self) -> float | None:
        """From the failure to the first step after it."""
        if "stepping" not in self.reached or "fault" not in self.reached:
            return None
        return self.reached["stepping"].at - self.reached["fault"].at


def text(report: Report) -> str:
    """The report for a terminal."""
    lines = [
        f"Drill `{report.scenario.name}` on the stack {report.stack}: {report.verdict.word}",
        f"  {report.scenario.what}",
        f"  Expected: {report.scenario.outcome}",
        "",
        "      time     since   stage",
    ]
    before = report.began
    for moment in report.ordered:
        clock = datetime.fromtimestamp(moment.at).astimezone().strftime("%H:%M:%S")
        offset = moment.at - report.began
        lines.append(f"  {clock} {offset:+8.1f} s  {moment.stage.title} ({moment.stage.source}{_took(moment, before)})")
        before = moment.at
    missing = [key for key in wanted(report.scenario.expected) if key not in report.reached]
    if missing:
        lines += ["", f"  never seen: {', '.join(missing)}"]
    if report.resume_seconds is not None:
        lines += ["", f"  From the failure to the next step: {report.resume_seconds:.1f} s, of which"]
        lines += [f"    {seconds:6.1f} s  {OWNERS[owner]}" for owner, seconds in report.shares.items()]
    if report.figures:
        named = ", ".join(f"{name} {seconds:.1f} s" for name, seconds in report.figures.items())
        lines += ["", f"  Recovery figures: {named}"]
    lines += _of_losses(report.compared)
    for each in report.sums:
        terms = " + ".join(f"{name} {seconds:g}" for name, seconds in each.terms.items())
        lines.append(f"  {each.name}: {terms} = {each.total:g} s")
    lines += ["", *(f"  {note}" for note in report.notes)] if report.notes else []
    lines += ["", *(f"  * {finding}" for finding in report.verdict.findings)] if report.verdict.findings else []
    lines += ["", f"{report.verdict.word} {report.scenario.name}"]
    return "\n".join(lines)


def _took(moment: Moment, before: float) -> str:
    seconds = moment.at - before
    return f", {seconds:.1f} s after the one before" if seconds > 0 else ""


def _of_losses(compared: Comparison | None) -> list[str]:
    if compared is None:
        return []
    same = compared.steps - len(compared.missing) - len(compared.different)
    lost = ", ".join(map(str, compared.lost)) or "0"
    how = f"within {compared.band:.0%}" if compared.band else "bit for bit"
    return ["", f"  {same} of {compared.steps} steps have the undisturbed run's loss, {how}; taken again: {lost}."]


def as_json(report: Report) -> dict[str, Any]:
    """The report for programs; times are seconds since 1970, or seconds."""
    compared = report.compared
    return {
        "scenario": report.scenario.name,
        "stack": report.stack,
        "verdict": report.verdict.word,
        "findings": list(report.verdict.findings),
        "faultAt": report.story.fault_at or None,
        "node": report.story.node,
        "worker": report.story.worker,
        "stages": [
            {
                "stage": moment.stage.key,
                "title": moment.stage.title,
                "source": moment.stage.source,
                "at": moment.at,
                "sinceFault": round(moment.at - report.began, 3),
                "shown": dict(moment.shown),
            }
            for moment in report.ordered
        ],
        "resumeSeconds": report.resume_seconds,
        "figures": {name: round(seconds, 3) for name, seconds in report.figures.items()},
        "shares": dict(report.shares),
        "losses": None
        if compared is None
        else {
            "steps": compared.steps,
            "exact": compared.exact,
            "missing": list(compared.missing),
            "different": list(compared.different),
            "repeated": compared.repeated,
            "lost": list(compared.lost),
        },
        "sums": [{"name": each.name, "terms": dict(each.terms), "seconds": each.total} for each in report.sums],
        "notes": list(report.notes),
    }
