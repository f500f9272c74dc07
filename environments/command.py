"""`python -m environments`: `new-stack` and `promote` behind `make`, `adopt` and `left` for the runbooks."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from components.configuration import read as settings_of
from components.settings import SettingsError
from crusoe.client import CrusoeError, connect, credentials
from crusoe.client.endpoint import DEFAULT_ENDPOINT
from environments import adoption, choice, offer, promotion, stack_file
from environments.choice import RefusedError, Wish

REFUSED = 1


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; return its exit status."""
    parser = argparse.ArgumentParser(prog="python -m environments", allow_abbrev=False)
    commands = parser.add_subparsers(dest="command", required=True)
    new = commands.add_parser("new-stack", allow_abbrev=False, help="write a new stack's file from live look-ups")
    new.add_argument("--name", required=True)
    new.add_argument("--location", required=True)
    new.add_argument("--pools", required=True, help="[key=]type:count, with commas between pools")
    new.add_argument("--endpoint", default="", help="of the API; else that of your keys, else Crusoe's")
    new.add_argument("--project", default="", help="name or id; else that of your keys")
    new.add_argument("--generation", choices=("v1", "v2"), help="of CMK; v1 where it is offered, unless given")
    new.add_argument("--backend", default="", help="where the state is kept, such as s3://bucket")
    new.add_argument("--secrets-provider", default=stack_file.PASSPHRASE, help="as `pulumi stack init` takes it")
    new.add_argument("--slices", action="store_true", help="take GPU types that share a host; nothing repairs them")
    new.add_argument("--partition", default="", help="id of the partition that pools of RoCE types join")
    new.add_argument("--shortage", action="store_true", help="write the file although capacity is short now")
    compare = commands.add_parser("promote", allow_abbrev=False, help="show how two stacks differ")
    compare.add_argument("--from", required=True, dest="old")
    compare.add_argument("--to", required=True, dest="new")
    take = commands.add_parser("adopt", allow_abbrev=False, help="print the ids of what exists already")
    take.add_argument("--stack", required=True)
    take.add_argument("preview", type=Path, help="what `pulumi preview --json` printed")
    rest = commands.add_parser("left", allow_abbrev=False, help="list what the cloud still has of a stack, by name")
    rest.add_argument("--stack", required=True)
    options = parser.parse_args(arguments)
    try:
        return {"new-stack": _new_stack, "promote": _promote, "adopt": _adopt, "left": _left}[options.command](options)
    except (RefusedError, SettingsError) as error:
        say("Nothing was written, since this can't work:" if options.command == "new-stack" else "These can't be used:")
        for finding in error.findings:
            say(f"  {finding}")
    except (CrusoeError, stack_file.UnreadableError, adoption.AdoptionError) as error:
        say(str(error))
    return REFUSED


def _new_stack(options: argparse.Namespace) -> int:
    folder, stack = Path.cwd(), str(options.name)
    _refuse_existing(folder, stack)
    wish = Wish(
        stack,
        options.location,
        choice.pools_of(options.pools),
        options.generation,
        slices=options.slices,
        shortage=options.shortage,
        partition=options.partition,
    )
    keys = credentials.load(os.environ)
    with connect(options.endpoint or keys.endpoint or DEFAULT_ENDPOINT, options.project or None) as client:
        offered = offer.read(client)
    found = choice.choose(wish, offered, stack_file.ranges(folder))
    # What `up` would refuse is no stack.
    settings_of(found.platform, stack)
    try:
        path = stack_file.write(
            folder, stack, found.platform, backend=options.backend, secrets_provider=options.secrets_provider
        )
    except stack_file.ExistsError:
        _refuse_existing(folder, stack)
        raise
    print(f"Written: {path.name}, for the project {offered.project} at {offered.endpoint}\n")
    print("\n".join(f"  {reason}" for reason in found.reasons))
    print("\nNext:")
    login = "" if options.backend else "pulumi login <your backend> && "
    print(f'  eval "$(make -s env STACK={stack})" && {login}pulumi stack init {stack}')
    print(f"  make report STACK={stack}")
    print(f"  make up STACK={stack}")
    return 0


def _refuse_existing(folder: Path, stack: str) -> None:
    path = stack_file.path_of(folder, stack)
    # A link that leads nowhere is somebody's as well.
    if os.path.lexists(path):
        raise stack_file.UnreadableError(
            f"{path.name} exists already and stays as it is: take another NAME, or change the settings in it."
        )


def _promote(options: argparse.Namespace) -> int:
    old, new = (stack_file.read(Path.cwd(), stack) for stack in (options.old, options.new))
    print("\n".join(promotion.lines(old, new)))
    return 0


def _adopt(options: argparse.Namespace) -> int:
    try:
        digest: object = json.loads(options.preview.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise adoption.AdoptionError(f"{options.preview} can't be read: {error}") from None
    wanted = adoption.creates(digest)
    cloud = stack_file.read(Path.cwd(), options.stack).settings.cloud
    with connect(cloud.endpoint, cloud.project) as client:
        found = adoption.adopt(wanted, adoption.existing(client, wanted))
    for line in found.lines:
        say(line)
    print(json.dumps(found.ids))
    return 0


def _left(options: argparse.Namespace) -> int:
    folder, stack = Path.cwd(), str(options.stack)
    cloud = stack_file.read(folder, stack).settings.cloud
    with connect(cloud.endpoint, cloud.project) as client:
        found = adoption.left(client, stack, stack_file.ranges(folder))
    print("\n".join(found) or f"The project {cloud.project} has nothing that is called {stack}-... any more.")
    return REFUSED if found else 0


def say(line: str) -> None:
    """Print one line for the person, on standard error."""
    sys.stderr.write(f"{line}\n")
