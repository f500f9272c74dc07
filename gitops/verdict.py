"""The verdict: one outcome, its exit code, and why. What can't be previewed is never green."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from gitops.events import Preview
from gitops.model import Loss, Outcome, PolicyResult, Verdict

EXIT_CODES: Mapping[Outcome, int] = MappingProxyType(
    {
        Outcome.SAFE: 0,
        Outcome.NEEDS_APPROVAL: 10,
        Outcome.REFUSED: 11,
        Outcome.DRIFT: 12,
        Outcome.FAILED: 20,
        Outcome.NO_STACK: 21,
        Outcome.NO_CREDENTIALS: 22,
        Outcome.OTHER_VERSION: 23,
    }
)
"""docs/gitops.md explains them; 1 and 2 are left to Python and to make."""

# Exit codes of the CLI: sdk/go/common/util/cmdutil/exit.go of Pulumi 3.274. Its code for policies (5) is not here: with
# events asked for, a preview that a policy refuses ends with 1 and these words (tried).
_AUTHENTICATION, _NO_STACK = 3, 6
POLICY = "preview failed"
"""What the engine says at the end of a preview that a policy has refused."""

_NO_KEY = re.compile(
    # Of this project's provider, ...
    r"No Crusoe access key was found|Check (that )?the access key \("
    # ... of the CLI, and of the libraries behind its backends.
    r"|incorrect passphrase|passphrase must be set|PULUMI_ACCESS_TOKEN must be set|not logged in"
    r"|NoCredentialProviders|could not find default credentials|no credential providers|invalid access token",
    re.IGNORECASE,
)


def of_preview(
    preview: Preview, status: int, losses: Sequence[Loss], policies: Sequence[PolicyResult], label: str | None
) -> Verdict:
    """Return the verdict on a preview that ended with this exit status of the CLI."""
    errors = [each for each in preview.diagnostics if each.severity == "error"]
    refusing = [each for each in policies if each.level == "mandatory" and not each.exceptions]
    broken = _broken(preview, status, bool(refusing))
    if broken:
        said = " ".join([*(each.message for each in errors), *preview.said])
        if status == _NO_STACK:
            outcome, reason = (
                Outcome.NO_STACK,
                "There is no such stack in this backend: check its name, or make it first.",
            )
        elif status == _AUTHENTICATION or _NO_KEY.search(said):
            outcome = Outcome.NO_CREDENTIALS
            reason = (
                "Credentials are missing or not accepted, so nothing is known of this change. A pull request "
                "from a fork has none by design: a maintainer previews it from a branch of this repository."
            )
        else:
            outcome, reason = Outcome.FAILED, broken
        return verdict(outcome, reason)
    reasons: list[str] = []
    if refusing:
        names = ", ".join(sorted({each.policy for each in refusing}))
        reasons.append(f"{_count(len(refusing), 'mandatory policy violation')}: {names}.")
    blocked = [each for each in losses if each.blocked]
    if blocked:
        names = ", ".join(each.name for each in blocked)
        reasons.append(f"Protected, so `up` would stop before it changed anything: {names}.")
    if reasons:
        return verdict(Outcome.REFUSED, *reasons)
    waiting = [each for each in losses if each.approved_by is None]
    if waiting:
        names = ", ".join(f"{each.what} {each.name}" for each in waiting)
        return verdict(Outcome.NEEDS_APPROVAL, f"It would take away what can't be had back: {names}.", label=label)
    if losses:
        reasons.append(f"{_count(len(losses), 'loss', 'losses')}, approved by {' and '.join(_by(losses))}.")
    return verdict(Outcome.SAFE, *reasons)


def _by(losses: Sequence[Loss]) -> list[str]:
    return sorted({each.approved_by or "" for each in losses})


def _broken(preview: Preview, status: int, refusing: bool) -> str:
    """Say how the preview failed, nothing where its plan is whole."""
    if preview.result is None:
        return "The preview ended before it came to a result, so nothing is known of this change."
    if preview.result == "canceled":
        return "The preview was cancelled, so nothing is known of this change."
    failed = [each for each in preview.diagnostics if each.severity == "error" and each.message != POLICY]
    if status == 0 and preview.result == "succeeded":
        return ""
    # A policy's word ends the preview too, but only once the whole plan was seen.
    if refusing and not failed:
        return ""
    return "The preview failed, so this report does not show the whole change."


def verdict(outcome: Outcome, *reasons: str, label: str | None = None) -> Verdict:
    """Return a verdict with the exit code of its outcome."""
    return Verdict(outcome=outcome, exit_code=EXIT_CODES[outcome], reasons=reasons, label=label)


def _count(number: int, what: str, many: str = "") -> str:
    return f"{number} {what if number == 1 else many or what + 's'}"
