"""The commands on a stack, and the table of all commands."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tools.front_door import checks, environments, gitops, policy_pack
from tools.front_door.autoclusters import autoclusters
from tools.front_door.cleaning import clean
from tools.front_door.console import console
from tools.front_door.drill import drill
from tools.front_door.environment import STATE, FrontDoorError, left_of_dev, shell_lines
from tools.front_door.monitoring import get_alertmanager, test_alert
from tools.front_door.recovery import is_empty, locks, spoken
from tools.front_door.session import Session
from tools.front_door.slurm import check, ensure_slurm_can_run, plan

_TROUBLE = "docs/troubleshooting.md lists what goes wrong most often."
_NEEDS_STACK = (
    "Where Pulumi finds no stack of that name, or says that you are not logged in: step 3 of `A real environment` in "
    "README.md makes it."
)


# The engine copies and checks the whole state after each resource, even where nothing is to be kept.
PREVIEW_VARIABLES = {"PULUMI_SKIP_CHECKPOINTS": "true"}

_VERDICTS = "docs/gitops.md explains verdicts and exit codes, which make itself turns into 2."
_RESUMES = "Stopped by you. What was finished is kept, and the same command goes on from there."


def _again(session: Session) -> str:
    kept = "What was finished is kept: mend the cause named above and run the same command again."
    return f"{kept} {_trouble(session)}"


def _trouble(session: Session) -> str:
    return _TROUBLE if session.is_dev else f"{_NEEDS_STACK} {_TROUBLE}"


@dataclass(frozen=True)
class Command:
    """One target of the Makefile: what it says first, what it does, and what it says when it did not end well."""

    does: Callable[[Session], str]
    run: Callable[[Session], int]
    after_failure: Callable[[Session], str] | None = None
    after_refusal: str = ""
    after_interrupt: str = ""


def _ask_first(session: Session, what: str) -> None:
    """Outside dev nothing is changed without a yes: from the terminal, or given in ARGS."""
    if not (session.is_dev or session.is_agreed or sys.stdin.isatty()):
        raise FrontDoorError(
            f"There is no terminal to ask on before {what} the stack {session.stack}. "
            "Read `make preview` first, then run this with ARGS=--yes."
        )


def up(session: Session) -> int:
    """Bring the stack to what the program says, then show its outputs and what to do next."""
    _ask_first(session, "changing")
    if session.is_dev:
        ensure_slurm_can_run(session.settings())
        get_alertmanager(session, session.settings())
    session.prepare()
    agreed = ["--yes"] if session.is_dev and not session.is_agreed else []
    status = session.pulumi("up", "--stack", session.stack, "--suppress-outputs", *agreed, *session.arguments)
    if status == 0:
        session.say(f"\nOutputs of the stack {session.stack}:")
        session.pulumi("stack", "output", "--stack", session.stack)
        session.say(_next_commands(session))
    return status


def _next_commands(session: Session) -> str:
    stack = "" if session.is_dev else f" STACK={session.stack}"
    return "\n".join(
        (
            "\nNext:",
            f'  eval "$(make -s env{stack})"   use pulumi and kubectl by hand in this shell',
            f"  make preview{stack}            see what a change of the settings would do",
            f"  make down{stack}               take everything down again",
        )
    )


def pausing(session: Session) -> int:
    """Stop all repairs, or end that."""
    _ask_first(session, "changing")
    return autoclusters(session)


def preview(session: Session) -> int:
    """Show what an `up` would change."""
    session.prepare()
    return session.pulumi("preview", "--stack", session.stack, *session.arguments, variables=PREVIEW_VARIABLES)


def deploy(session: Session) -> int:
    """Bring the stack to exactly what a report says, where its verdict is safe."""
    _ask_first(session, "changing")
    if session.is_dev:
        ensure_slurm_can_run(session.settings())
    return gitops.deploy(session, *(["--yes"] if session.is_dev or session.is_agreed else []))


def refresh(session: Session) -> int:
    """Read the real state of every resource into the stack."""
    _ask_first(session, "changing the recorded state of")
    session.prepare(runs_program=False)
    agreed = ["--yes"] if session.is_dev and not session.is_agreed else []
    return session.pulumi("refresh", "--stack", session.stack, *agreed, *session.arguments)


def outputs(session: Session) -> int:
    """Print the stack's outputs."""
    return session.pulumi("stack", "output", "--stack", session.stack, *session.arguments)


def down(session: Session) -> int:
    """Destroy the stack after a preview, unless one of its resources is protected; stop the local cloud of dev."""
    skipping = [argument for argument in session.arguments if argument.split("=")[0] in {"--skip-preview", "-f"}]
    if skipping:
        raise FrontDoorError(
            f"`make down` always shows its preview first: leave {skipping[0]} out. Without a preview Pulumi deletes "
            "what is unprotected before it finds what is protected."
        )
    _ask_first(session, "destroying")
    here = (STATE, session.project, session.stack)
    if session.is_dev and is_empty(*here) and not locks(*here):
        session.say("The stack dev has no resources, so there is nothing to take down.")
        return session.stop_local_cloud()
    session.prepare(runs_program=False)
    if protected := _protected(session):
        listed = "\n".join(f"  {spoken(urn)}" for urn in protected)
        raise FrontDoorError(
            f"Nothing was touched: these resources of the stack {session.stack} are protected.\n{listed}\n"
            "If they may go, set `platform.protect: false` in the settings and run `make up`, then this again."
        )
    agreed = ["--yes"] if session.is_dev and not session.is_agreed else []
    status = session.pulumi("destroy", "--stack", session.stack, *agreed, *session.arguments)
    return status or (session.stop_local_cloud() if session.is_dev else 0)


def _protected(session: Session) -> list[str]:
    """Return the URNs of what the stack's state protects."""
    try:
        state: dict[str, Any] = json.loads(session.pulumi_output("stack", "export", "--stack", session.stack))
    except subprocess.CalledProcessError as error:
        made = "" if session.is_dev else f" {_NEEDS_STACK}"
        raise FrontDoorError(
            f"The state of the stack {session.stack} can't be read; nothing was touched.{made}"
        ) from error
    deployment: dict[str, Any] = state.get("deployment") or {}
    resources: list[dict[str, Any]] = deployment.get("resources") or []
    return [resource["urn"] for resource in resources if resource.get("protect")]


def env(session: Session) -> int:
    """Print the lines that prepare a shell; outside dev they also take out of it what dev's have set."""
    session.prepare()
    exported = session.exports()
    removed = [] if session.is_dev else [name for name in left_of_dev(os.environ) if name not in exported]
    if removed:
        session.say(f"Unsetting what this shell has of the stack dev: {', '.join(removed)}")
    print("\n".join(shell_lines(exported, removed)))
    return 0


COMMANDS = {
    "up": Command(lambda s: f"Bringing the stack {s.stack} to what the program says", up, _again, _TROUBLE, _RESUMES),
    "preview": Command(
        lambda s: f"Showing what an up of the stack {s.stack} would change; nothing is", preview, _trouble, _TROUBLE
    ),
    "report": Command(
        lambda s: f"Reporting what an up of the stack {s.stack} would change; nothing is",
        gitops.report,
        lambda _: _VERDICTS,
        _TROUBLE,
    ),
    "deploy": Command(
        lambda s: f"Reporting, then bringing the stack {s.stack} to exactly that", deploy, lambda _: _VERDICTS, _TROUBLE
    ),
    "drift": Command(
        lambda s: f"Reporting what differs in the cloud from the stack {s.stack}; nothing is changed",
        gitops.drift,
        lambda _: _VERDICTS,
        _TROUBLE,
    ),
    "diagram": Command(lambda s: f"Drawing what the stack {s.stack} declares", gitops.diagram, _trouble, _TROUBLE),
    "operator-stack": Command(
        lambda s: f"Writing the stack {s.stack} as objects for the Pulumi Kubernetes Operator",
        gitops.operator_stack,
        lambda _: "docs/gitops.md, `Pulling instead of pushing`, explains them, and ARGS.",
    ),
    "new-stack": Command(
        lambda _: "Asking the cloud what a new stack can have; nothing in it is changed",
        environments.new_stack,
        lambda _: "docs/environments.md explains what is chosen, and ARGS.",
    ),
    "promote": Command(
        lambda _: "Comparing two stacks' files; nothing is asked or changed",
        environments.promote,
        lambda _: "docs/environments.md explains the comparison.",
    ),
    "refresh": Command(lambda s: f"Reading the real state of the stack {s.stack}", refresh, _again, _TROUBLE, _RESUMES),
    "outputs": Command(
        lambda s: f"Outputs of the stack {s.stack}",
        outputs,
        lambda s: f"A stack has outputs after its first `make up`.{'' if s.is_dev else f' {_NEEDS_STACK}'}",
    ),
    "check": Command(
        lambda s: f"Comparing the GPUs of the stack {s.stack} in Slurm, in Kubernetes and in the catalogue",
        check,
        lambda _: "docs/slurm.md explains the table; docs/troubleshooting.md, `A node stays drained`, what to do.",
        _TROUBLE,
    ),
    "autoclusters": Command(
        lambda s: f"Changing whether AutoClusters repairs anything in the stack {s.stack}",
        pausing,
        _again,
        _TROUBLE,
        _RESUMES,
    ),
    "test-alert": Command(
        lambda s: f"Sending one alert through the Alertmanager of the stack {s.stack} to every route",
        test_alert,
        lambda _: "docs/observability.md, `Who is told`, explains routes and their secrets.",
    ),
    "plan": Command(
        lambda s: f"Showing who has what of the shared GPU pools of the stack {s.stack}; nothing is asked or changed",
        plan,
        lambda _: "docs/gpu-sharing.md explains the sums.",
    ),
    "drill": Command(
        lambda s: f"Drilling the stack {s.stack}: a node fails under the reference job",
        drill,
        lambda _: "docs/drill.md explains scenarios, stages and verdict.",
        "docs/drill.md says what a drill needs.",
        "Stopped by you. What the drill did is taken back, now or by the next one.",
    ),
    "console": Command(
        lambda _: "Opening the console of the local cloud, which is started if it is down",
        console,
        after_refusal="docs/console.md says what the console shows.",
    ),
    "down": Command(lambda s: f"Taking down the stack {s.stack}", down, _trouble, _TROUBLE, _RESUMES),
    "env": Command(lambda s: f"Preparing a shell for the stack {s.stack}", env, _trouble, _TROUBLE),
    "clean": Command(lambda _: "Stopping the local cloud and removing what runs have made here", clean),
    "test": Command(
        lambda s: f"Running the tests ({s.tier or 'all tiers'})",
        checks.test,
        lambda _: "Run one again with: make test ARGS='-k NAME'. A test says what it needs when it is not there.",
    ),
    "faults": Command(
        lambda _: "Trying every resource kind in every operation under every fault; it takes minutes",
        checks.faults,
        lambda _: "Each line above is a cell that does not hold: kind, operation, fault, and what was found.",
    ),
    "soak": Command(
        lambda s: f"Killing at random moments, {s.arguments[0]} rounds from seed {s.arguments[1]}",
        checks.soak,
        lambda _: "docs/reliability.md explains the rounds. The same seed kills the same thing in the same command.",
    ),
    "lint": Command(
        lambda _: "Checking style, types and the project's own rules",
        checks.lint,
        lambda _: "`.venv/bin/ruff check --fix` and `.venv/bin/ruff format` mend most of it.",
    ),
    "audit": Command(
        lambda _: "Looking the pinned Python packages up among known vulnerabilities",
        checks.audit,
        lambda _: "For each one named: pin a version that mends it in pyproject.toml, then `make lock ARGS=--upgrade`.",
    ),
    "sbom": Command(lambda _: "Writing the software bill of materials", checks.sbom),
    "policy-pack": Command(
        lambda _: "Making the policies a folder of their own",
        policy_pack.make,
        lambda _: "docs/policies.md says what to do with it.",
    ),
    "bench": Command(
        lambda _: "Measuring; every number is a ratio inside one run, or has its bound beside it", checks.bench
    ),
}
"""Every command by the name of its Makefile target."""
