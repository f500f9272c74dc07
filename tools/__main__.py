"""`python -m tools`: fetch the pinned tools and say where they are."""

import argparse
import signal
import sys
from collections.abc import Sequence
from types import FrameType
from typing import get_args

from tools.errors import ToolError
from tools.releases import Need
from tools.slurm_root.packages import CONTENTS
from tools.slurm_root.root import folder as slurm_root
from tools.toolchain import binary, ensure

FOLDERS = {contents.name: contents for contents in CONTENTS}


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tools", description="The pinned tools of this project.")
    commands = parser.add_subparsers(dest="command", required=True)
    fetch = commands.add_parser("ensure", help="fetch what is missing, then print the folder to put on PATH")
    path = commands.add_parser(
        "path", help=f"print the path of one tool that is there, or of the folder {' or '.join(FOLDERS)}"
    )
    path.add_argument("name", metavar="NAME")
    folder = commands.add_parser("bin", help="the same as ensure")
    for command in (fetch, folder):
        command.add_argument(
            "--for",
            dest="need",
            choices=get_args(Need),
            default="dev",
            help="default: %(default)s",
        )
    return parser


def _terminated(_number: int, _frame: FrameType | None) -> None:
    sys.exit(128 + signal.SIGTERM)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; return its exit status."""
    options = _parser().parse_args(arguments)
    # As an exception, so that a build that is under way ends its compilers and clears up.
    signal.signal(signal.SIGTERM, _terminated)
    try:
        if options.command == "path":
            print(slurm_root(FOLDERS[options.name]) if options.name in FOLDERS else binary(options.name))
        else:
            print(ensure(options.need))
    except ToolError as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("Interrupted; nothing half-made was kept.", file=sys.stderr)
        return 128 + signal.SIGINT
    return 0


if __name__ == "__main__":
    sys.exit(main())
