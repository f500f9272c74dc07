"""One preview in, one report out; everything in between is a pure function."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from gitops import gpus, losses, readers, repairs, urns
from gitops.changes import Resource, resources
from gitops.events import Preview
from gitops.model import Change, Op, Outcome, PolicyResult, Problem, Property, Report
from gitops.redaction import Redactor
from gitops.verdict import EXIT_CODES, POLICY, of_preview, verdict

_COMMON = ("using pulumi-language-", "using pulumi-resource-", "using pulumi-analyzer-")
"""Warnings that say how this machine is set up, and nothing of the change."""


@dataclass(frozen=True)
class Reviewed:
    """A report, and every resource that the stack declares, also what stays the same."""

    report: Report
    resources: tuple[Resource, ...]


def review(preview: Preview, *, project: str, stack: str, status: int = 0, labels: Collection[str] = ()) -> Reviewed:
    """Return the report on a preview of a stack that ended with `status`; `labels` are those of the pull request."""
    redactor = Redactor()
    known = resources(preview.steps, redactor)
    changed = [each for each in known if each.op is not Op.SAME]
    lost = losses.losses(changed, labels)
    waiting = {loss.urn for loss in lost if loss.approved_by is None and not loss.blocked}
    label = losses.label([each for each in changed if each.urn in waiting])
    policies = tuple(_policies(preview, redactor))
    judged = of_preview(preview, status, lost, policies, label)
    whole = judged.exit_code < EXIT_CODES[Outcome.FAILED]
    report = Report(
        project=project,
        stack=stack,
        verdict=judged,
        counts=dict(Counter(each.op for each in known if each.custom)),
        changes=tuple(_clean(each.change(), redactor) for each in changed if each.custom),
        gpus=tuple(gpus.changes(known)),
        losses=tuple(lost),
        repairs=tuple(repairs.changes(changed)),
        secrets=tuple(readers.changes(known)),
        packs={name.partition("|")[0]: version for name, version in preview.packs.items()},
        policies=policies,
        problems=tuple(_problems(preview, redactor, whole=whole, refused=judged.outcome is Outcome.REFUSED)),
        seconds=preview.seconds,
    )
    return Reviewed(report, tuple(known))


def as_drift(report: Report) -> Report:
    """Return a report on a deployed program, previewed with a refresh, as what it then says: whether anything differs.

    A preview that failed stays that.
    """
    if report.verdict.exit_code >= EXIT_CODES[Outcome.FAILED]:
        return report
    number = len(report.changes)
    if not number:
        return report.model_copy(update={"verdict": verdict(Outcome.SAFE, "The cloud is as the program says.")})
    differ = "1 resource differs" if number == 1 else f"{number} resources differ"
    judged = verdict(
        Outcome.DRIFT,
        f"{differ} from what the program says.",
        f"To undo what was changed by hand, run `make up STACK={report.stack} ARGS=--refresh`.",
        "To keep it, write what stands on the left into the settings.",
        *_no_way_back(report),
    )
    return report.model_copy(update={"verdict": judged})


def _no_way_back(report: Report) -> Iterable[str]:
    """What an `up` would refuse to undo as it is; the warning has what would be right."""
    changed = {each.name for each in report.changes}
    for each in report.problems:
        if each.severity == "warning" and each.name in changed:
            yield f"{each.name} is not undone by that alone: {each.message}"


def unreadable(outcome: Outcome, reason: str, *, project: str, stack: str) -> Report:
    """Return the report on what could not be read at all."""
    return Report(project=project, stack=stack, verdict=verdict(outcome, reason))


def _clean(change: Change, redactor: Redactor) -> Change:
    """Take out what was hidden in one resource and stands in another one in clear."""
    properties = tuple(
        Property(
            path=redactor.message(each.path),
            old=each.old and redactor.message(each.old),
            new=each.new and redactor.message(each.new),
            replaces=each.replaces,
            unknown=each.unknown,
        )
        for each in change.properties
    )
    return change.model_copy(update={"properties": properties})


def _policies(preview: Preview, redactor: Redactor) -> Iterable[PolicyResult]:
    found = [
        PolicyResult(
            name=urns.parse(each.urn).name,
            urn=each.urn,
            pack=each.pack,
            policy=each.policy,
            level=each.level,
            message=redactor.message(each.message),
            exceptions=tuple(redactor.message(f"{name}: {reason}") for name, reason in each.exceptions),
        )
        for each in dict.fromkeys(preview.violations)
    ]
    return sorted(found, key=lambda each: (each.policy, each.urn, each.message))


def _problems(preview: Preview, redactor: Redactor, *, whole: bool, refused: bool) -> Iterable[Problem]:
    """What was said; with a plan that is not `whole` also what the program wrote to its standard error."""
    for each in preview.diagnostics:
        if each.message.startswith(_COMMON) or (refused and each.message == POLICY):
            continue
        severity = "error" if each.severity == "info#err" and not whole else each.severity
        if severity == "error" or severity == "warning":
            name = urns.parse(each.urn).name if each.urn else ""
            yield Problem(severity=severity, name=name, message=redactor.message(each.message))
    if preview.result is None:
        for line in preview.said:
            if line.startswith("error:"):
                yield Problem(severity="error", name="", message=redactor.message(line.removeprefix("error:").strip()))
