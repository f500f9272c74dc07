"""`python -m gitops report|drift|diagram|show|schema|operator`, in a Pulumi program's folder and environment.

`make report`, `make drift` and `make diagram` are these with the environment prepared. The exit codes of a report are
those of verdict.py; `make` itself turns each that is not 0 into 2, and the report's JSON keeps the number.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import yaml

from crusoe.rules.values import table, text
from gitops import preview
from gitops.events import OtherFormatError
from gitops.preview import CannotRunError, Ran

MARKDOWN, JSON, DIAGRAM = "report.md", "report.json", "diagram.svg"
"""What lies in the folder of `--out`."""

LABELS, MORE_URL = "REPORT_LABELS", "REPORT_MORE_URL"
"""Variables that stand for --label, separated by commas, and for --more-url: a pull request's labels are anybody's
text, which no shell should read."""

_COMMANDS = {
    "report": "report what a preview shows",
    "drift": "report what differs from the program, which is the deployed one",
    "diagram": "draw what a stack declares",
}

CANNOT_RUN = 20
"""The exit code of a preview that failed (verdict.py), also where none could be started."""

INTERRUPTED = 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; return its exit status."""
    parser = argparse.ArgumentParser(prog="python -m gitops", allow_abbrev=False)
    commands = parser.add_subparsers(dest="command", required=True)
    for name, does in _COMMANDS.items():
        one = commands.add_parser(name, help=does, allow_abbrev=False)
        one.add_argument("--stack", required=True)
        one.add_argument("--out", type=Path, help="folder for what is written; .local/reports/STACK when left out")
        one.add_argument("--events", type=Path, help="kept events of a preview, instead of running one")
        one.add_argument("--status", type=int, default=0, help="the exit status of that preview")
        if name != "diagram":
            _report_options(one)
    show = commands.add_parser("show", help="print a report's JSON as Markdown")
    show.add_argument("file", type=Path)
    show.add_argument("--more-url", default="", help="where the whole report can be had")
    commands.add_parser("schema", help="print the JSON schema of a report")
    _operator_options(commands.add_parser("operator", help="write Stacks for the Pulumi Kubernetes Operator"))
    # What is not ours is pulumi's: --refresh, --policy-pack, --config-file, ...
    options, passed_on = parser.parse_known_args(arguments)
    try:
        if options.command in ("show", "schema", "operator") and passed_on:
            parser.error(f"unrecognized arguments: {' '.join(passed_on)}")
        if options.command == "schema":
            from gitops import report_json

            print(json.dumps(report_json.schema(), indent=2))
            return 0
        if options.command == "operator":
            return _operator(options)
        if options.command == "show":
            return _show(options.file, options.more_url)
        out: Path = options.out or Path(".local/reports") / options.stack.replace("/", "_")
        return _diagram(options, passed_on, out) if options.command == "diagram" else _report(options, passed_on, out)
    except CannotRunError as error:
        say(str(error))
        return CANNOT_RUN
    except KeyboardInterrupt:
        say("Stopped by you; nothing was changed.")
        return INTERRUPTED


def _report_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--label", action="append", default=[], help="a label of the pull request; may be repeated")
    more = os.environ.get(MORE_URL, "")
    parser.add_argument("--more-url", default=more, help="where the whole report can be had")
    parser.add_argument("--save-plan", type=Path, help="keep the plan, for `pulumi up --plan`")


def _operator_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--stack", required=True)
    parser.add_argument("--repository", default="", help="the git repository with the program")
    parser.add_argument("--branch", default="main")
    parser.add_argument("--folder", default="", help="of the program in it, where that is not the top")
    parser.add_argument("--flux", default="", help="name of a Flux source, instead of --repository")
    parser.add_argument("--flux-kind", default="GitRepository", choices=("GitRepository", "OCIRepository", "Bucket"))
    parser.add_argument("--namespace", default="pulumi")
    parser.add_argument("--image", required=True, help="of the workspace")
    parser.add_argument("--after", default="", help="a Stack that has to have succeeded before")
    parser.add_argument("--out", type=Path, help="folder for the files; deploy/operator/STACK when left out")


def _operator(options: argparse.Namespace) -> int:
    from gitops import operator

    name = str(options.stack).rpartition("/")[2]
    out: Path = options.out or Path("deploy/operator") / name
    source = operator.Source(options.repository, options.branch, options.folder, options.flux, options.flux_kind)
    content = preview.stack_file(Path.cwd(), name)
    config, provider = table(content.get("config")), text(content.get("secretsprovider")) or ""
    wish = operator.Wish(
        stack=options.stack,
        source=source,
        backend=text(config.get("state:backend")) or "",
        image=options.image,
        namespace=options.namespace,
        secrets_provider="" if provider == "passphrase" else provider,
        after=options.after,
    )
    try:
        files = operator.files(wish)
    except operator.OperatorStackError as error:
        say(str(error))
        return CANNOT_RUN
    out.mkdir(parents=True, exist_ok=True)
    for file, objects in files.items():
        (out / file).write_text(yaml.safe_dump_all(objects, sort_keys=False), encoding="utf-8")
    say(f"Written: {', '.join(str(out / file) for file in files)}")
    return 0


def _previewed(options: argparse.Namespace, passed_on: Sequence[str], out: Path) -> tuple[str, Ran | str]:
    """Return the project's name, and a preview, or why it can't be read."""
    project = preview.project_name(Path.cwd())
    # An older report would be taken for this one's.
    for name in (DIAGRAM,) if options.command == "diagram" else (MARKDOWN, JSON):
        (out / name).unlink(missing_ok=True)
    try:
        if options.events:
            with options.events.open(encoding="utf-8") as lines:
                return project, preview.recorded(lines, options.status)
        variables = preview.DRIFT if options.command == "drift" else None
        return project, preview.run(options.stack, passed_on, variables=variables, meanwhile=_load)
    except OtherFormatError as error:
        return project, f"The preview can't be read: {error}."
    except (OSError, UnicodeDecodeError) as error:
        raise CannotRunError(f"{options.events} can't be read: {error}") from None


def _load() -> None:
    """Load the rest of this package, which takes as long as the engine takes to start."""
    importlib.import_module("gitops.writing")


def _report(options: argparse.Namespace, passed_on: Sequence[str], out: Path) -> int:
    more = [f"--save-plan={options.save_plan}"] if options.save_plan else []
    # What a person has changed is found by asking the cloud; the program says how to ask.
    more += ["--refresh", "--run-program"] if options.command == "drift" else []
    project, ran = _previewed(options, [*more, *passed_on], out)
    from gitops import writing

    labels = [label for given in (*options.label, os.environ.get(LABELS, "")) for label in given.split(",")]
    report = writing.reviewed(ran, project=project, stack=options.stack, labels=labels).report
    if options.command == "drift":
        report = writing.plan.as_drift(report)
    print(writing.report(report, out / MARKDOWN, out / JSON, more=options.more_url))
    say(f"Written: {out / MARKDOWN}, {out / JSON}")
    return report.verdict.exit_code


def _diagram(options: argparse.Namespace, passed_on: Sequence[str], out: Path) -> int:
    project, ran = _previewed(options, passed_on, out)
    from gitops import writing

    reviewed = writing.reviewed(ran, project=project, stack=options.stack)
    if failure := writing.failure(reviewed.report):
        # Half a picture would be taken for a whole one.
        say(failure)
        return reviewed.report.verdict.exit_code
    writing.picture(reviewed, out / DIAGRAM)
    say(f"Written: {out / DIAGRAM}")
    return 0


def _show(file: Path, more: str) -> int:
    from gitops import writing

    try:
        report = writing.read(file)
    except (OSError, UnicodeDecodeError) as error:
        raise CannotRunError(f"{file} can't be read: {error}") from None
    print(writing.markdown.render(report, more=more))
    return report.verdict.exit_code


def say(line: str) -> None:
    """Print one line for the person, on standard error."""
    sys.stderr.write(f"{line}\n")
