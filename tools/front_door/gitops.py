"""`make report`, `make deploy`, `make drift` and `make diagram`: changes for reviewers, and nothing but what they saw.

What these read and write is in gitops/.
"""

import os
import sys
from pathlib import Path

from tools.front_door.process import run
from tools.front_door.session import Session
from tools.places import LOCAL
from tools.releases import load

REPORTS = LOCAL / "reports"
"""A folder for each stack: report.md, report.json, diagram.svg."""

IMAGE = "docker.io/pulumi/pulumi"
"""What a workspace of the operator runs in: the command line with the languages, at the pinned version."""

AGREED = {"--yes", "-y", "--yes=true"}
"""What says yes to an `up`, and means nothing to a preview."""


def report(session: Session) -> int:
    """Preview the stack and report on it; return the exit code of the verdict."""
    session.prepare()
    return gitops(session, "report", *session.arguments)


def drift(session: Session) -> int:
    """Report what differs in the cloud from the program; return the exit code of the verdict."""
    session.prepare()
    return gitops(session, "drift", *session.arguments)


def diagram(session: Session) -> int:
    """Draw what the stack declares."""
    session.prepare()
    return gitops(session, "diagram", *session.arguments)


def operator_stack(session: Session) -> int:
    """Write the stack's objects for the Pulumi Kubernetes Operator; asks nobody."""
    pulumi = next(release.version for release in load() if "pulumi" in release.binaries)
    image = (
        [] if any(each.startswith("--image") for each in session.arguments) else [f"--image={IMAGE}:{pulumi}-nonroot"]
    )
    words = [sys.executable, "-m", "gitops", "operator", f"--stack={session.stack}", *image, *session.arguments]
    return run(words, os.environ)


def deploy(session: Session, *agreed: str) -> int:
    """Report, and where the verdict is safe bring the stack to exactly what was reported; `agreed` is Pulumi's --yes.

    Whatever the program or the cloud asks for beyond the kept plan, Pulumi refuses.
    """
    session.prepare()
    plan = folder(session) / "plan.json"
    plan.unlink(missing_ok=True)
    told = [argument for argument in session.arguments if argument not in AGREED]
    try:
        status = gitops(session, "report", f"--save-plan={plan}", *told)
        if status:
            session.say("Nothing was deployed: the verdict above is not `safe`.")
            return status
        return session.pulumi("up", "--stack", session.stack, "--suppress-outputs", f"--plan={plan}", *agreed)
    finally:
        plan.unlink(missing_ok=True)


def folder(session: Session) -> Path:
    """Return the folder of a stack's reports."""
    found = REPORTS / session.stack.replace("/", "_")
    found.mkdir(parents=True, exist_ok=True)
    return found


def gitops(session: Session, command: str, *arguments: str) -> int:
    """Run one of gitops/'s commands in the stack's environment; return its exit code."""
    words = [
        sys.executable,
        "-m",
        "gitops",
        command,
        f"--stack={session.stack}",
        f"--out={folder(session)}",
        *arguments,
    ]
    return run(words, session.environ)
