"""From a preview to the files that are written of it; what is loaded while the engine starts."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from gitops import diagram, markdown, plan, report_json
from gitops.model import Outcome, Report
from gitops.plan import Reviewed
from gitops.preview import Ran
from gitops.verdict import EXIT_CODES


def reviewed(ran: Ran | str, *, project: str, stack: str, labels: Collection[str] = ()) -> Reviewed:
    """Return the review of a preview; of one that can't be read, for the reason given, a report that says so."""
    if isinstance(ran, str):
        return Reviewed(plan.unreadable(Outcome.OTHER_VERSION, ran, project=project, stack=stack), ())
    return plan.review(ran.preview, project=project, stack=stack, status=ran.status, labels=labels)


def report(told: Report, comment: Path, data: Path, *, more: str) -> str:
    """Write a report as a comment and as JSON; return the comment without its changes, for a terminal."""
    for file, text in ((comment, markdown.render(told, more=more)), (data, report_json.dump(told))):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    return markdown.render(told.model_copy(update={"changes": ()}), more=more)


def picture(told: Reviewed, file: Path) -> None:
    """Write the picture of what is declared."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(diagram.draw(told.report.project, told.report.stack, told.resources), encoding="utf-8")


def failure(told: Report) -> str:
    """Return why there is no whole plan, nothing where there is one."""
    if told.verdict.exit_code < EXIT_CODES[Outcome.FAILED]:
        return ""
    errors = (one for one in told.problems if one.severity == "error")
    lines = [f"{one.name}: {one.message}" if one.name else one.message for one in errors]
    return "\n".join([*told.verdict.reasons, *lines])


def read(file: Path) -> Report:
    """Return a written report; of what this version can't read a report that says so. Raises OSError."""
    try:
        return report_json.load(file.read_text(encoding="utf-8"))
    except report_json.OtherVersionError as error:
        reason = f"The report can't be read: {error}."
        return plan.unreadable(Outcome.OTHER_VERSION, reason, project="", stack="")
