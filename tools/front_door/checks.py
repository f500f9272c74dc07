"""`make test`, `lint`, `audit`, `sbom`, `bench`, and the long forms of two tests: `make faults` and `make soak`."""

import os
import sys
from pathlib import Path

from tools.errors import ToolMissingError
from tools.front_door import rules
from tools.front_door.environment import FrontDoorError, direct
from tools.front_door.process import run
from tools.front_door.session import Session
from tools.places import ROOT
from tools.releases import Need
from tools.supply_chain import vulnerabilities
from tools.toolchain import ensure

TIERS = ("unit", "policy", "provider", "integration")
"""The folders of tests/, from quick to slow."""

LONG = "long"
"""A tier of its own, of files that tests/conftest.py names; it is run by its name only."""

WORKERS = ("-n", "3", "--dist", "loadfile")
"""Three files of tests at a time, grouped and ordered by tests/conftest.py: two leave a quarter of two cores idle."""

TEST_SECONDS = 3600.0
LINT_SECONDS = 600.0
BENCH_SECONDS = 3600.0
FAULTS_SECONDS = 3600.0
SOAK_SECONDS = 4 * 3600.0


def _tiers(wanted: str) -> list[str]:
    """Return what pytest is told to run. Raises FrontDoorError, which lists the tiers."""
    known = (*TIERS, LONG)
    if wanted and wanted not in known:
        raise FrontDoorError(
            f"There is no tier {wanted!r}; TIER is one of {', '.join(known)}, or left out for all but {LONG}."
        )
    if wanted == LONG:
        return ["--length=long", "tests/integration"]
    return ["--length=short", *(f"tests/{tier}" for tier in TIERS if wanted in ("", tier))]


# Make hands its own options and variables down; a test that runs make means its own.
_OF_MAKE = {
    *("MAKEFLAGS", "MFLAGS", "MAKELEVEL", "MAKE_TERMERR", "MAKE_TERMOUT"),
    *("STACK", "ARGS", "TIER", "SCENARIO", "ALL", "ACTION", "CONFIRM", "N", "SEED"),
}

# Containers often set it. Tests start Python a thousand times, and each start would compile the same modules again.
_NOTHING_COMPILED = "PYTHONDONTWRITEBYTECODE"


def _environ(*, tools: bool) -> dict[str, str]:
    """Return the environment for tests and measurements; with `tools` they are fetched and come first on PATH."""
    left_out = _OF_MAKE | {_NOTHING_COMPILED}
    environ = {key: value for key, value in os.environ.items() if key not in left_out} | direct(os.environ)
    if tools:
        environ["PATH"] = os.pathsep.join((str(ensure("dev")), str(Path(sys.prefix) / "bin"), environ.get("PATH", "")))
    return environ


def _get_more(session: Session) -> None:
    """Have what only some tests need before one has to wait for it.

    A machine that can't have it is told so; it has the other tests.
    """
    needs: tuple[Need, ...] = ("browser", "monitoring", "training", "workflows")
    if session.tier == LONG:
        needs = ("kueue", "training", "upgrade")
    for need in needs:
        try:
            ensure(need)
        except ToolMissingError as error:
            session.say(str(error))


def test(session: Session) -> int:
    """Run the tests of one tier, or of all but the long one; what needs tools gets them first."""
    chosen = _tiers(session.tier)
    tools = session.tier != "unit"
    environ = _environ(tools=tools)
    if tools:
        _get_more(session)
    status = run([sys.executable, "-m", "pytest", *WORKERS, *chosen, *session.arguments], environ, seconds=TEST_SECONDS)
    if status == 124:
        session.say(f"The tests were ended after {TEST_SECONDS / 60:.0f} min.")
    return status


def lint(session: Session) -> int:
    """Run every check, also after one has failed; return 1 when one has."""
    python = sys.executable
    steps = {
        "ruff check": [python, "-m", "ruff", "check", "."],
        "ruff format": [python, "-m", "ruff", "format", "--check", "."],
        "pyright": [python, "-m", "pyright", "--project", "pyproject.toml"],
    }
    failed = [name for name, command in steps.items() if run(command, os.environ, seconds=LINT_SECONDS)]
    found = rules.problems(ROOT)
    for problem in found:
        session.say(problem)
    failed += ["the project's own rules"] if found else []
    known = vulnerabilities.audit(os.environ)
    if known is None:
        session.say(f"{vulnerabilities.UNREACHABLE} The shipped workflow does it each night.")
    failed += ["known vulnerabilities"] if known else []
    session.say(f"Failed: {', '.join(failed)}." if failed else "Clean.")
    return 1 if failed else 0


def audit(_session: Session) -> int:
    """Look the pinned packages up. Raises FrontDoorError where the database can't be reached: nobody knows, then."""
    status = vulnerabilities.audit(os.environ)
    if status is None:
        raise FrontDoorError(vulnerabilities.UNREACHABLE)
    return status


def sbom(session: Session) -> int:
    """Write the software bill of materials to the file of ARGS."""
    from tools.supply_chain import bill_of_materials  # its library takes a second to load

    if len(session.arguments) > 1:
        raise FrontDoorError("ARGS is the file to write the bill to, and nothing else.")
    session.say(bill_of_materials.write(Path(*session.arguments) if session.arguments else bill_of_materials.FILE))
    return 0


def bench(session: Session) -> int:
    """Run the benchmark with the tools on PATH."""
    environ = _environ(tools=True)
    for need in ("training",) if "drill" in session.arguments else ("browser", "monitoring"):
        ensure(need)
    return run([sys.executable, "-m", "tests.bench", *session.arguments], environ, seconds=BENCH_SECONDS)


def faults(session: Session) -> int:
    """Run the whole fault matrix; it writes its tables into the documentation."""
    command = [sys.executable, "-m", "tests.provider.faults", *session.arguments]
    return run(command, _environ(tools=False), seconds=FAULTS_SECONDS)


def soak(session: Session) -> int:
    """Kill at random moments, as many rounds as asked for and from the seed that is given."""
    number, seed = session.arguments
    if not (number.isdecimal() and int(number) > 0 and seed.isdecimal()):
        raise FrontDoorError(f"N={number} SEED={seed}: both are whole numbers, such as N=1 SEED=7 to repeat one round.")
    return run([sys.executable, "-m", "tests.soak", number, seed], _environ(tools=True), seconds=SOAK_SECONDS)
